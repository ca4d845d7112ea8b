"""How often does a rank on gloo die after all its work? Before the cure, and with it.

Run:  python tests/campaigns/aborts.py                       # `make aborts`: 500 launches, cured
      python tests/campaigns/aborts.py --uncured --launches 60

A rank that ends while gloo's threads still hold a tensor may abort: "terminate called without an
active exception". DDP and some optimizers import torch.distributed.nn.functional, whose functions
take the default process group as a default argument. Imported when there is a group already, they
keep it, and its threads, until Python shuts down. common/devices.py imports it before there is one:
destroy_process_group() then drops the last reference, and waits for the threads.
"""

import argparse
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import rooms  # noqa: E402

# Ends while gloo's threads still carry messages whose tensors nobody else holds.
CURED = """
from devices import here, start
import torch, torch.distributed as dist

start(here())
import torch.distributed.nn.functional
for _ in range(300):
    dist.all_reduce(torch.ones(8), async_op=True)
dist.destroy_process_group()
"""
# The same without devices.py, so that the functions meet a group when they are imported.
UNCURED = CURED.replace("from devices import here, start\n", "").replace(
    "start(here())", 'dist.init_process_group("gloo")'
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launch(program: Path) -> list[int]:
    """Exit codes of two ranks, started plainly, as torchrun does it."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    place |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    place |= {"PYTHONPATH": rooms.python_path(), "CUDA_VISIBLE_DEVICES": ""}
    ranks = []
    for rank in range(2):
        environment = os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        ranks.append(
            subprocess.Popen([sys.executable, program], env=environment, stderr=subprocess.DEVNULL)
        )
    return [rank.wait() for rank in ranks]


def campaign(source: str, launches: int) -> Counter:
    """How many ranks ended with which exit code; launches one after another."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "ends.py"
        program.write_text(source)
        # One more process keeps a core busy: the threads are then late, as on a busy machine.
        spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            with ThreadPoolExecutor(1) as pool:
                made = pool.map(launch, [program] * launches)
                return Counter(code for codes in tqdm(made, total=launches) for code in codes)
        finally:
            spinner.kill()
            spinner.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=500)
    parser.add_argument("--uncured", action="store_true", help="without the cure in devices.py")
    args = parser.parse_args()
    start = time.monotonic()
    codes = campaign(UNCURED if args.uncured else CURED, args.launches)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = (usage.ru_utime + usage.ru_stime) / args.launches
    print(f"{args.launches} launches of two ranks, exit codes of the ranks: {dict(codes)}")
    print(f"{time.monotonic() - start:.0f} s; {seconds:.1f} CPU s a launch, the spinner's included")
    return 1 if set(codes) != {0} else 0


if __name__ == "__main__":
    sys.exit(main())
