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
    os.environ.setdefault("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1"))
    place = here()
    # One write, so that the ranks do not mix.
    print(f"rank {place.rank} of {place.world_size}, arguments {sys.argv[1:]}\n", end="")
    report("starters", place, told=told, own=own, arguments=sys.argv[1:])


if __name__ == "__main__":
    main()
