"""An all-reduce of our own, in a ring: each rank sends to its right and listens to its left.

Run:  python ring.py                                              # one process
      torchrun --standalone --nproc-per-node=4 ring.py            # rings of up to four ranks
"""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report

LENGTHS = [1, 2, 5, 12, 1001]  # hardly any is a multiple of n, and some are smaller than n
TIMEOUT = timedelta(seconds=60)


def pass_on(
    outgoing: Tensor, right: int, arriving: Tensor, left: int, group: dist.ProcessGroup
) -> None:
    """Send `outgoing` to rank `right` while rank `left` fills `arriving`. Either may be empty."""
    messages = []
    if outgoing.numel() > 0:
        messages.append(dist.P2POp(dist.isend, outgoing, right, group))
    if arriving.numel() > 0:
        messages.append(dist.P2POp(dist.irecv, arriving, left, group))
    if not messages:
        return
    # Both are under way before anyone waits: if all waited until their message is taken, nobody
    # would take one.
    for message in dist.batch_isend_irecv(messages):
        message.wait()


def ring_all_reduce(
    x: Tensor, group: dist.ProcessGroup | None = None, states: list | None = None
) -> int:
    """Add x over the ranks of a group, in place; return how many bytes this rank sent.

    x: (elements,), contiguous, of the same length and dtype on every rank of the group, and only
    these call this. `states`, if given, receives x as a list before the first step and after each.
    """
    group = group or dist.group.WORLD
    ranks = dist.get_process_group_ranks(group)
    n = len(ranks)
    me = dist.get_rank(group)
    right = ranks[(me + 1) % n]
    left = ranks[me - 1]
    chunks = x.tensor_split(n)  # views of x; their sizes differ by one at most, some may be empty
    sent = 0
    if states is not None:
        states.append(x.tolist())

    for step in range(2 * (n - 1)):
        # First the chunk of our own number goes out, then always the one that came in last.
        outgoing = chunks[(me - step) % n]
        incoming = chunks[(me - step - 1) % n]
        arrived = torch.empty_like(incoming)
        pass_on(outgoing, right, arrived, left, group)
        if step < n - 1:
            incoming += arrived  # first round: reduce-scatter
        else:
            incoming.copy_(arrived)  # second round: all-gather

        sent += outgoing.numel() * outgoing.element_size()
        if states is not None:
            states.append(x.tolist())
    return sent


def gap_to_torch(x: Tensor, group: dist.ProcessGroup) -> float:
    """Largest difference between our sum of x over the group and torch's."""
    expected = x.clone()
    dist.all_reduce(expected, group=group)
    ring_all_reduce(x, group)
    difference = x - expected
    return difference.abs().max().item()


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
        integers = torch.randint(1000, (length,), device=device)
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
    device = place.device if place.backend == "nccl" else torch.device("cpu")

    torch.manual_seed(place.rank)
    rings = {}
    for n in range(1, min(place.world_size, 4) + 1):
        # Every rank makes each group, whether it is a member or not; then the members try it.
        group = dist.new_group(list(range(n)), timeout=TIMEOUT)
        if place.rank < n:
            rings[n] = try_ring(group, args.elements, device)
        if place.rank == 0:
            sent = rings[n]["sent"]
            ratio = sent / rings[n]["size"]
            worst = max(rings[n]["gaps"].values())
            cost = f"a rank sends {sent:,} bytes, {ratio:.3f} × the tensor"
            print(f"ring of {n}: {cost}, gap {worst:.1e}")

    report("ring", place, rings=rings)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
