"""A network namespace begins with its loopback device off; `loopback` switches it on.

Two ranks, or a client and a server, meet there.
"""

import fcntl
import socket
import struct

# Of linux/sockios.h and linux/if.h.
GET_FLAGS = 0x8913
SET_FLAGS = 0x8914
UP = 1


def loopback() -> None:
    """Switch the loopback device on."""
    with socket.socket() as plain:
        request = struct.pack("16sh", b"lo", 0)
        _, flags = struct.unpack("16sh", fcntl.ioctl(plain, GET_FLAGS, request))
        request = struct.pack("16sh", b"lo", flags | UP)
        fcntl.ioctl(plain, SET_FLAGS, request)
