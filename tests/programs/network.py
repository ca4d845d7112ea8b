"""A network namespace begins with its loopback device switched off; two ranks, or a client and a server, meet there."""

import fcntl
import socket
import struct


def loopback() -> None:
    get_flags, set_flags, up = 0x8913, 0x8914, 1
    with socket.socket() as plain:
        flags = struct.unpack("16sh", fcntl.ioctl(plain, get_flags, struct.pack("16sh", b"lo", 0)))[1]
        fcntl.ioctl(plain, set_flags, struct.pack("16sh", b"lo", flags | up))
