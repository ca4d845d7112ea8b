"""Our ring in groups of one to four ranks: its steps, its sums beside torch's, and its bytes.

Run:  python rings.py                                              # one process
      torchrun --standalone --nproc-per-node=4 rings.py            # rings of up to four ranks
"""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from ring import ring_all_reduce
from yardstick import apart

LENGTHS = [1, 2, 5, 12, 1001]  # hardly any is a multiple of n, and some are smaller than n
TIMEOUT = timedelta(seconds=60)


def gap_to_torch(x: Tensor, group: dist.ProcessGroup) -> float:
    """How far our sum of x over the group is from torch's."""
    expected = x.clone()
    dist.all_reduce(expected, group=group)
    ring_all_reduce(x, group)
    return apart(x, expected, wrong=2 * expected)  # as if all were added twice


def try_ring(group: dist.ProcessGroup, elements: int, device: torch.device) -> dict[str, object]:
    """Try the ring in a group of the first n ranks.

    Returns `states`, the numbers after each step; `gaps` to torch's all-reduce; `sent` and `size`,
    the bytes that this rank sent for a tensor of so many bytes; `right`: ones have added up to n.
    """
    n = dist.get_world_size(group)
    states = []
    powers = 10 ** torch.arange(n, device=device)
    numbers = 2 ** dist.get_rank(group) * powers
    ring_all_reduce(numbers, group, states)

    gaps = {}
    for length in LENGTHS:
        integers = torch.randint(1, 1000, (length,), device=device)
        fractions = torch.randn(length, device=device)
        gaps[f"{length} integers"] = gap_to_torch(integers, group)
        gaps[f"{length} fractions"] = gap_to_torch(fractions, group)

    ones = torch.ones(elements, device=device)
    size = ones.numel() * ones.element_size()
    sent = ring_all_reduce(ones, group)
    right = bool((ones == n).all())
    return {"states": states, "gaps": gaps, "sent": sent, "size": size, "right": right}


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=1_200_000, help="of the largest tensor")
    args = parser.parse_args()
    dist.init_process_group(place.backend, timeout=TIMEOUT, device_id=place.bound)
    # gloo sends and receives tensors in main memory only.
    device = torch.device("cpu")
    if place.backend == "nccl":
        device = place.device

    torch.manual_seed(place.rank)
    rings = {}
    largest = min(place.world_size, 4)
    for n in range(1, largest + 1):
        # Every rank makes each group, whether it is a member or not; then the members try it.
        members = list(range(n))
        group = dist.new_group(members, timeout=TIMEOUT)
        if place.rank < n:
            rings[n] = try_ring(group, args.elements, device)
        if place.rank == 0:
            ring = rings[n]
            sent = ring["sent"]
            ratio = sent / ring["size"]
            worst = max(ring["gaps"].values())
            cost = f"a rank sends {sent:,} bytes, {ratio:.3f} × the tensor"
            print(f"ring of {n}: {cost}, gap {worst:.1e}")

    report("rings", place, rings=rings)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
