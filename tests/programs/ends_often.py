"""Launch two ranks on gloo many times, and count how they end. Torch is imported once.

Run:  python ends_often.py LAUNCHES [--cured]

Each rank is forked, makes its group and its all-reduces, and then leaves as a program does: Python
shuts down, which is where a rank may abort. Prints a JSON object, exit code → ranks.
"""

import json
import os
import socket
import sys
from collections import Counter
from datetime import timedelta

import torch.distributed as dist
from tqdm import tqdm

CURED = "--cured" in sys.argv
if CURED:
    import devices  # it imports torch.distributed.nn.functional: half of the cure


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fork_ranks(port: int) -> list[int] | None:
    """The ids of two forked ranks; None in a rank itself."""
    ranks = []
    for rank in range(2):
        pid = os.fork()
        if pid == 0:
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
            os.environ |= place | {"RANK": str(rank)}
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            return None
        ranks.append(pid)
    return ranks


def work() -> None:
    """What a rank does: nobody else holds the tensors that gloo's threads carry at the end."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    import torch.distributed.nn.functional  # as DDP and some optimizers do

    for _ in range(300):
        dist.all_reduce(torch.ones(8), async_op=True)
    if CURED:
        devices.keep_group(dist.group.WORLD)  # the other half, as in devices.start()
    dist.destroy_process_group()


def main() -> None:
    launches = int(sys.argv[1])
    codes: Counter = Counter()
    for _ in tqdm(range(launches)):
        ranks = fork_ranks(free_port())
        if ranks is None:
            work()
            return  # and Python shuts down
        for pid in ranks:
            _, status = os.waitpid(pid, 0)
            codes[os.waitstatus_to_exitcode(status)] += 1
    print(json.dumps(codes))


main()
