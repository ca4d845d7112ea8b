"""A worker dies in the middle of a call: what does the caller see, and what can it still do?

Run:  python lastcall.py        # starts the other worker itself: no torchrun to end the survivor
      torchrun --standalone --nproc-per-node=2 lastcall.py
"""

import os
import socket
import subprocess
import sys
import time

import torch.distributed.rpc as rpc
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from workers import join


def die() -> None:
    os._exit(7)  # no goodbye: as after a crash


def alive() -> bool:
    return True


def start_other() -> subprocess.Popen:
    """Become rank 0 of two; rank 1 is this program once more."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update(common, RANK="0", LOCAL_RANK="0")
    environment = os.environ | {"RANK": "1", "LOCAL_RANK": "1"}
    return subprocess.Popen([sys.executable, __file__], env=environment)


@record
def main() -> None:
    other = None if "RANK" in os.environ else start_other()
    place = here(gpus=0)
    join(place)
    if place.rank > 0:
        rpc.shutdown()  # serves until all are done; this one never is
        return
    told = []
    for function in [alive, die, alive]:
        began = time.perf_counter()
        try:
            said = str(rpc.rpc_sync("worker1", function, timeout=10))
        except RuntimeError as error:
            said = str(error)
        seconds = time.perf_counter() - began
        told.append({"called": function.__name__, "said": said, "seconds": seconds})
    rpc.shutdown(graceful=False)  # do not wait for a worker that cannot come
    code = other.wait() if other else None
    report("lastcall", place, told=told, code=code)


if __name__ == "__main__":
    main()
