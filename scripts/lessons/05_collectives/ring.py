"""An all-reduce of our own: ranks in a ring, each speaks to its right neighbour and listens to its left one.

Run:  python ring.py                                              # one process
      torchrun --standalone --nproc-per-node=4 ring.py            # rings of two, three and four ranks
"""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


def ring_all_reduce(x: torch.Tensor, group: dist.ProcessGroup | None = None, states: list | None = None) -> int:
    """Add x over the ranks of a group, in place; return how many bytes this rank sent.

    x: (elements,), contiguous, of the same length and dtype on every rank of the group, and only these call this.
    `states`, if given, receives x as a list before the first step and after each one.
    """
    group = group or dist.group.WORLD
    ranks, me = dist.get_process_group_ranks(group), dist.get_rank(group)
    n = len(ranks)
    right, left = ranks[(me + 1) % n], ranks[me - 1]
    chunks = x.tensor_split(n)  # views of x; their sizes differ by one at most, and some may be empty
    sent = 0
    if states is not None:
        states.append(x.tolist())
    for step in range(2 * (n - 1)):
        outgoing, incoming = chunks[(me - step) % n], chunks[(me - step - 1) % n]
        arrived = torch.empty_like(incoming)
        messages = [dist.P2POp(dist.isend, outgoing, right, group), dist.P2POp(dist.irecv, arrived, left, group)]
        messages = [message for message in messages if message.tensor.numel()]
        # Both are under way before anyone waits: if all waited until their message is taken, nobody would take one.
        for under_way in dist.batch_isend_irecv(messages) if messages else []:
            under_way.wait()
        if step < n - 1:
            incoming += arrived  # first round: reduce-scatter
        else:
            incoming.copy_(arrived)  # second round: all-gather
        sent += outgoing.numel() * outgoing.element_size()
        if states is not None:
            states.append(x.tolist())
    return sent


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=1_200_000, help="of the tensor whose bytes are counted")
    parser.add_argument("--timeout", type=float, default=60)
    args = parser.parse_args()
    place = rank, _, world_size, device, backend = here()
    timeout = timedelta(seconds=args.timeout)
    dist.init_process_group(backend, timeout=timeout)
    if backend == "gloo":
        device = torch.device("cpu")  # gloo sends and receives tensors in main memory only

    torch.manual_seed(rank)
    rings = {}
    for n in [n for n in (1, 2, 3, 4) if n <= world_size]:
        group = dist.new_group(list(range(n)), timeout=timeout)  # every rank calls this, members or not
        if rank >= n:
            continue
        states, gaps = [], {}
        ring_all_reduce(2**rank * 10 ** torch.arange(n, device=device), group, states)
        for size in (1, 2, 5, 12, 1001):  # hardly any is a multiple of n, and some are smaller than n
            whole = torch.randint(1000, (size,), device=device)
            fraction = torch.randn(size, device=device)
            for name, x in {f"{size} integers": whole, f"{size} fractions": fraction}.items():
                expected = x.clone()
                dist.all_reduce(expected, group=group)
                ring_all_reduce(x, group)
                gaps[name] = (x - expected).abs().max().item()
        big = torch.ones(args.elements, device=device)
        sent = ring_all_reduce(big, group)
        rings[n] = {"states": states, "gaps": gaps, "sent": sent, "size": big.numel() * big.element_size()}
        rings[n]["right"] = bool((big == n).all())
        if rank == 0:
            ratio = sent / rings[n]["size"]
            print(f"ring of {n}: a rank sends {sent:,} bytes, {ratio:.3f} × the tensor, gap {max(gaps.values()):.1e}")
    report("ring", place, rings=rings)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
