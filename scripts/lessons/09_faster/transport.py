"""Gloo or nccl beside a transport of our own, at two sizes; and DDP with it as its communication hook.

Run:  torchrun --standalone --nproc-per-node=2 transport.py
"""

import argparse
import os
import time
from datetime import timedelta
from statistics import median
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import here, report
from hooks import network
from shared import Shared, hook


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--timeout", type=float, default=60, help="seconds that a rank waits for the others")
    args, place = parser.parse_args(), here()
    nccl = place.device if place.backend == "nccl" else None  # tells a barrier which GPU is meant
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout), device_id=nccl)
    shared, ratios, gap = Shared(place, args.timeout), {}, 0.0
    for mb in (1, 25):
        torch.manual_seed(place.rank)
        theirs = torch.randn(mb * 10**6 // 4).to(place.device)
        ours, ratios[mb] = theirs.clone(), []
        dist.all_reduce(theirs)  # adds up, ours takes the mean
        shared.average(ours)
        gap = max(gap, (ours - theirs / place.world_size).abs().max().item())
        theirs.zero_()  # else it would grow with each round
        for n in range(args.rounds + 2):
            took = {}
            for name in ("theirs", "ours")[:: 1 if n % 2 else -1]:  # in turns, so that neither always comes first
                dist.barrier()
                start = time.perf_counter()
                for _ in range(25 // mb):  # several small ones, or the barrier's end counts for more than they do
                    dist.all_reduce(theirs) if name == "theirs" else shared.average(ours)
                if place.device.type == "cuda":
                    torch.cuda.synchronize()
                took[name] = time.perf_counter() - start
            ratios[mb] += [took["theirs"] / took["ours"]] if n > 1 else []
        if place.rank == 0:
            print(f"{mb:2} MB: {place.backend} / shared memory {median(ratios[mb]):.2f}")

    models = [DistributedDataParallel(network(place)) for _ in range(2)]
    models[1].register_comm_hook(shared, hook)
    for _ in range(3):
        x = torch.randn(16, 512, device=place.device)
        for model in models:
            model.zero_grad()
            model(x).square().mean().backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
    refused = ""
    with patch.dict(os.environ, LOCAL_WORLD_SIZE=str(place.world_size + 1)):  # as if the ranks stood on two machines
        try:
            Shared(place)
        except RuntimeError as error:
            refused = str(error)

    one, two = (nn.utils.parameters_to_vector(model.parameters()) for model in models)
    apart, left = (one - two).abs().max().item(), shared.file.exists()
    report("transport", place, ratios=ratios, gap=gap, apart=apart, left=left, refused=refused)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
