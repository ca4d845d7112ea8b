"""A wire with latency between two namespaces: every packet is handed over a while later.

Run, inside the first namespace and its user namespace:
      python tun.py KEEPER SECONDS            # the other namespace is that of process KEEPER

The kernels that this was written on have no netem, and its token bucket delays nothing. So each
end is a TUN device, a network card whose packets a program reads and writes: this one. It says
`ready`, and works until it is killed.
"""

import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

NAMES = ["wire0", "wire1"]
ADDRESSES = ["10.78.0.1", "10.78.0.2"]
LARGEST = 65000  # bytes of a packet
# From linux/if_tun.h.
TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000
CLONE_NEWNET = 0x40000000


def card(name: str, address: str) -> int:
    """Make a TUN device in this process's namespace; the file that its packets go through."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    up = ["ip", "link", "set", name, "up", "mtu", str(LARGEST), "txqueuelen", "4000"]
    subprocess.run(["ip", "address", "add", f"{address}/24", "dev", name], check=True)
    subprocess.run(up, check=True)
    return file


def go_to(keeper: int) -> None:
    """Move this process into another one's network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{keeper}/ns/net").open() as there:
        if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def carry(ends: list[int], latency: float) -> None:
    """Hand packets over, in their order, each so many seconds after it came."""
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    waiting: deque[tuple[float, int, bytes]] = deque()
    while True:
        pause = None
        if waiting:
            pause = max(0, waiting[0][0] - time.perf_counter())
        readable, _, _ = select.select(ends, [], [], pause)
        for end in readable:
            packet = os.read(end, LARGEST + 100)
            waiting.append((time.perf_counter() + latency, other[end], packet))
        while waiting and waiting[0][0] <= time.perf_counter():
            _, end, packet = waiting.popleft()
            os.write(end, packet)


def main() -> None:
    keeper = int(sys.argv[1])
    latency = float(sys.argv[2])
    near = card(NAMES[0], ADDRESSES[0])
    go_to(keeper)
    far = card(NAMES[1], ADDRESSES[1])
    print("ready", flush=True)
    carry([near, far], latency)


if __name__ == "__main__":
    main()
