"""Attention over a sequence that is cut over the ranks: keys and values travel around a ring.

After Liu et al., "Ring Attention with Blockwise Transformers" (arXiv:2310.01889).
A rank's tensors have the shape [2 chunks, …, positions of a chunk, numbers of a head]; between
them may be sequences and heads. `layout(rank, world_size)` tells which two chunks a rank holds.

Import it: attention.py launches it.
"""

import math
from collections.abc import Callable, Iterator
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from crossings import on_wire


def shift(tensor: Tensor) -> Tensor:
    """Send a tensor to the next rank of the ring, and receive the one of the previous rank."""
    rank = dist.get_rank()
    world_size = dist.get_world_size()
    if world_size == 1:
        return tensor
    outgoing = on_wire(tensor).contiguous()
    incoming = torch.empty_like(outgoing)
    following = (rank + 1) % world_size
    previous = (rank - 1) % world_size
    send = dist.P2POp(dist.isend, outgoing, following)
    receive = dist.P2POp(dist.irecv, incoming, previous)
    for work in dist.batch_isend_irecv([send, receive]):
        work.wait()
    return incoming.to(tensor.device)


def pairs(mine: list[int], theirs: list[int]) -> Iterator[tuple[int, int, bool]]:
    """My chunk a may look at their chunk b unless b is later; True when it is the same chunk."""
    for a, query_chunk in enumerate(mine):
        for b, key_chunk in enumerate(theirs):
            if key_chunk <= query_chunk:
                same = key_chunk == query_chunk
                yield a, b, same


def block(q: Tensor, k: Tensor, same: bool) -> Tensor:
    """Scores of one chunk's queries with one chunk's keys; a query sees no later key."""
    products = q @ k.mT
    width = q.shape[-1]
    scores = products / math.sqrt(width)
    if same:
        everywhere = torch.ones_like(scores, dtype=torch.bool)
        later = everywhere.triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores


class Ring(Function):
    """Causal attention of this rank's queries with the keys and values of all ranks."""

    # How many blocks of scores this rank computed in each step of the last forward.
    work: ClassVar[list[int]] = []

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, layout: Callable) -> Tensor:
        rank = dist.get_rank()
        world_size = dist.get_world_size()
        mine = layout(rank, world_size)
        out = torch.zeros_like(q)
        rows = q.shape[:-1]
        log_sum = q.new_full([*rows, 1], -math.inf)  # of no keys yet
        kv = torch.stack([k, v])
        Ring.work = []
        for step in range(world_size):
            owner = (rank - step) % world_size  # whose keys and values are here now
            theirs = layout(owner, world_size)
            keys, values = kv
            chosen = list(pairs(mine, theirs))
            for a, b, same in chosen:
                scores = block(q[a], keys[b], same)
                new = scores.logsumexp(-1, keepdim=True)
                weights = (scores - new).exp()
                part = weights @ values[b]
                total = torch.logaddexp(log_sum[a], new)
                old_weight = (log_sum[a] - total).exp()
                new_weight = (new - total).exp()
                out[a] *= old_weight
                out[a] += part * new_weight
                log_sum[a] = total
            Ring.work.append(len(chosen))
            if step < world_size - 1:
                kv = shift(kv)
        ctx.save_for_backward(q, k, v, out, log_sum)
        ctx.layout = layout
        return out

    @staticmethod
    def backward(ctx, dout: Tensor) -> tuple:
        q, k, v, out, log_sum = ctx.saved_tensors
        rank = dist.get_rank()
        world_size = dist.get_world_size()
        mine = ctx.layout(rank, world_size)
        dq = torch.zeros_like(q)
        kv = torch.stack([k, v])
        dkv = torch.zeros_like(kv)  # travels with kv, and collects what every rank adds
        products = dout * out
        along = products.sum(-1, keepdim=True)
        width = q.shape[-1]
        root = math.sqrt(width)
        for step in range(world_size):
            owner = (rank - step) % world_size
            theirs = ctx.layout(owner, world_size)
            keys, values = kv
            for a, b, same in pairs(mine, theirs):
                scores = block(q[a], keys[b], same)
                weights = (scores - log_sum[a]).exp()
                dweights = dout[a] @ values[b].mT
                dscores = weights * (dweights - along[a]) / root
                dq[a] += dscores @ keys[b]
                dkv[0, b] += dscores.mT @ q[a]
                dkv[1, b] += weights.mT @ dout[a]
            dkv = shift(dkv)  # after the last step it is at home
            if step < world_size - 1:
                kv = shift(kv)
        return dq, dkv[0], dkv[1], None
