"""A training under DDP in mixed precision: autocast and GradScaler.

Run:  torchrun --standalone --nproc-per-node=2 amp.py --steps 24 --bad 18
"""

import argparse
from collections import defaultdict

import torch
import torch.distributed as dist
from torch.amp import GradScaler
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from devices import here, report, start
from small import batch, network, weights


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--bad", type=int, default=-1, help="step with a number too large for fp16")
    args = parser.parse_args()
    place = here()
    start(place)

    model = network(place.device)
    ddp_model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    # The defaults are 2¹⁶ and 2000. With these, a few steps show how the scale is found.
    scaler = GradScaler(place.device.type, init_scale=2.0**24, growth_interval=6)

    # Each rank draws batches of its own.
    torch.manual_seed(place.rank)
    story = defaultdict(list)
    for step in range(args.steps):
        bad = step == args.bad
        x, y = batch(place, bad)
        before = weights(model)
        optimizer.zero_grad()
        with torch.autocast(place.device.type, torch.float16):
            loss = F.cross_entropy(ddp_model(x), y)
        story["scale"].append(scaler.get_scale())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        distance = weights(model) - before
        moved = distance.abs().max()
        story["loss"].append(loss.item())
        story["moved"].append(moved.item())

    if place.rank == 0:
        skipped = story["moved"].count(0)
        print(f"{args.steps} steps on {place.world_size} ranks, {skipped} of them skipped")
    trained = weights(model).tolist()
    report("amp", place, story=story, bad=args.bad, weights=trained)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
