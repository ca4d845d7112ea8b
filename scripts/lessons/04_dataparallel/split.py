"""One model split over the ranks: activations travel forward by send, their gradients come back. Is it the whole model?

Run:  python split.py
      torchrun --standalone --nproc-per-node=2 split.py
"""

import argparse
import copy
import os
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    rank, _, world_size, device, backend = place
    last, nccl = world_size - 1, backend == "nccl"
    channel = device if nccl else torch.device("cpu")  # gloo sends from a CPU to a CPU only
    # On GPUs all messages of a pair go one after the other, which is what we want: torch need not warn of it.
    os.environ["TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING"] = "false"
    timeout = timedelta(seconds=args.timeout)
    dist.init_process_group(backend, timeout=timeout, device_id=device if nccl else None)

    torch.manual_seed(0)
    layers = [layer for _ in range(3 * world_size) for layer in (nn.Linear(args.width, args.width), nn.Tanh())]
    whole = nn.Sequential(*layers).to(device, torch.float64)
    own = slice(6 * rank, 6 * rank + 6)
    part = copy.deepcopy(whole[own])  # the whole is for comparison: a real one may be too large for one rank
    batch, target = torch.randn(2, args.batch_size, args.width, dtype=torch.float64).to(device)
    optimizer = torch.optim.SGD([*part.parameters(), *whole.parameters()], lr=0.1)
    spans, sent = {}, []

    def send(tensor: Tensor, to: int) -> None:
        sent.append(tensor.nbytes)
        dist.send(tensor.detach().to(channel), to)

    def receive(source: int) -> Tensor:
        tensor = torch.empty_like(batch, device=channel)  # here every layer is as wide as the input
        dist.recv(tensor, source)
        return tensor.to(device)

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def timed(name: str, work: Callable, *inputs: Tensor) -> Tensor | None:
        start = now()
        output = work(*inputs)
        spans[name] = [start, now()]
        return output

    def step() -> None:
        x = receive(rank - 1).requires_grad_() if rank > 0 else batch
        output = timed("forward", part, x)
        if rank < last:
            send(output, rank + 1)
            gradient = receive(rank + 1)
            timed("backward", output.backward, gradient)
        else:
            loss = nn.functional.mse_loss(output, target)
            timed("backward", loss.backward)
        if rank > 0:
            send(x.grad, rank - 1)

    gaps = []
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.mse_loss(whole(batch), target).backward()
        dist.barrier()
        sent.clear()
        step()
        for ours, theirs in zip(part.parameters(), whole[own].parameters(), strict=True):
            gaps.append(((ours.grad - theirs.grad).abs().max() / theirs.grad.abs().max()).item())
        optimizer.step()

    print(f"rank {rank}: gradients within {max(gaps):.0e} of the whole model's, bytes sent: {sent}\n", end="")
    report("split", place, gap=max(gaps), spans=spans, sent=sent, weights=sum(p.nbytes for p in whole.parameters()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
