"""What does this starter tell a rank? Its environment, and its arguments.

Run:  python starters.py
      torchrun --standalone --nproc-per-node=2 starters.py
"""

import os
import sys

from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report

NAMES = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR"]
PREFIXES = ("ACCELERATE_", "CROSS_")  # what only these starters set


@record
def main() -> None:
    # Asked first: `here` sets what is missing for a single rank.
    told = {name: os.environ.get(name, "") for name in NAMES}
    own = sorted(name for name in os.environ if name.startswith(PREFIXES))
    world_size = os.environ.get("WORLD_SIZE", "1")
    os.environ.setdefault("LOCAL_WORLD_SIZE", world_size)
    place = here()
    arguments = sys.argv[1:]
    # One write, so that the ranks do not mix.
    print(f"rank {place.rank} of {place.world_size}, arguments {arguments}\n", end="")
    report("starters", place, told=told, own=own, arguments=arguments)


if __name__ == "__main__":
    main()
