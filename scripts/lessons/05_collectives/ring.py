"""An all-reduce of our own, in a ring: each rank sends to its right and listens to its left.

rings.py tries it, and ownddp.py uses it.
"""

import torch
import torch.distributed as dist
from torch import Tensor


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
