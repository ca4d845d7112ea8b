"""Seconds of the processor and modules that an import adds to a Python that has torch already.

Each import happens in a child of its own, forked from this process: so torch is imported once.
The packages take turns, and every other round goes backwards.

Run:  python importcost.py
"""

import json
import logging
import os
import sys
import time
import warnings
from argparse import ArgumentParser
from importlib import import_module

from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from fetch import has
from keptruns import KEPT

PACKAGES = ["accelerate", "lightning", "deepspeed"]


def measured(package: str) -> dict[str, float]:
    """Import a package in a forked child; the child's seconds and modules."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        known = len(sys.modules)
        began = time.process_time()
        import_module(package)
        seconds = time.process_time() - began
        modules = len(sys.modules) - known
        cost = {"seconds": seconds, "modules": modules}
        os.write(write, json.dumps(cost).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    place = here()
    logging.disable(logging.WARNING)
    # From Python 3.12 on: a word about forks of a process that has threads. These children end.
    warnings.filterwarnings("ignore", message="This process")

    costs = {package: [] for package in PACKAGES}
    order = [package for package in PACKAGES if has(package)]
    kept = [package for package in PACKAGES if package not in order]
    for _ in range(args.rounds):
        for package in order:
            costs[package].append(measured(package))
        order.reverse()  # so that none always comes first
    for package in kept:
        costs[package] = KEPT["imports"][package]
        print(f"{package}: kept, not run here")
    report("importcost", place, costs=costs, kept=kept, torch_modules=len(sys.modules))


if __name__ == "__main__":
    main()
