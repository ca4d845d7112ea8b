"""Mixed precision under DDP: what autocast computes in which format, how the loss is scaled, when a step is skipped.

Run:  python amp.py
      torchrun --standalone --nproc-per-node=2 amp.py --steps 24
"""

import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report


def network(place: Place) -> nn.Sequential:
    """x (N, 32) → ten scores each (N, 10); the same start on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10)).to(place.device)


def formats(place: Place) -> dict[str, str]:
    """The format of what some operations return under autocast in fp16, from inputs in fp32."""
    x, y = torch.rand(8, 16, device=place.device), torch.zeros(8, dtype=torch.int64, device=place.device)
    linear, conv = nn.Linear(16, 16).to(place.device), nn.Conv2d(1, 1, 3).to(place.device)
    with torch.autocast(place.device.type, torch.float16):
        h = linear(x)
        made = {"linear": h, "conv2d": conv(x[None, None]), "relu(linear)": h.relu(), "linear + x": h + x}
        made |= {"softmax": h.softmax(1), "sum": h.sum(), "cross_entropy": nn.functional.cross_entropy(h, y)}
    made["linear.weight"] = linear.weight
    return {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in made.items()}


def clip(way: str, place: Place) -> dict[str, float]:
    """One step with its gradient clipped to 0.1: the norm that was clipped, and how far the weights moved."""
    model = network(place)
    optimizer = torch.optim.SGD(model.parameters(), lr=1)
    scaler = torch.amp.GradScaler(place.device.type, init_scale=2.0**10, enabled=way != "fp32")
    x, y = torch.randn(16, 32).to(place.device), torch.arange(16).to(place.device) % 10
    with torch.autocast(place.device.type, torch.float16, enabled=way != "fp32"):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    before = nn.utils.parameters_to_vector(model.parameters()).detach()
    if way == "mended":
        # BEGIN SOLUTION
        scaler.unscale_(optimizer)
        # STUB pass
        # END SOLUTION
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.1)
    scaler.step(optimizer)
    moved = nn.utils.parameters_to_vector(model.parameters()).detach() - before
    return {"norm": norm.item(), "moved": moved.norm().item()}


def train(steps: int, bad: int, place: Place) -> dict[str, list]:
    """Train in fp16; at step `bad` the last rank meets one number too large for fp16. What each step did."""
    ddp_model = DistributedDataParallel(model := network(place))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(place.device.type, init_scale=2.0**24, growth_interval=6)  # everyday: 2¹⁶ and 2000
    torch.manual_seed(place.rank)
    story: dict[str, list] = {"scale": [], "finite": [], "moved": []}
    for step in range(steps):
        x, y = torch.randn(16, 32), torch.randint(10, (16,))
        if step == bad and place.rank == place.world_size - 1:
            x[0, 0] = 1e6
        before = model[0].weight.detach().clone()
        story["scale"].append(scaler.get_scale())
        optimizer.zero_grad()
        with torch.autocast(place.device.type, torch.float16):
            loss = nn.functional.cross_entropy(ddp_model(x.to(place.device)), y.to(place.device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        story["finite"].append(loss.isfinite().item())
        story["moved"].append((model[0].weight - before).abs().max().item())
    return story | {"weights": nn.utils.parameters_to_vector(model.parameters()).tolist()}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--timeout", type=float, default=60)
    args, place = parser.parse_args(), here()
    dist.init_process_group(place.backend, timeout=timedelta(seconds=args.timeout))
    clipped = {way: clip(way, place) for way in ("fp32", "wrong order", "mended")}
    story = train(args.steps, bad := 3 * args.steps // 4, place)
    if place.rank == 0:
        skipped = sum(moved == 0 for moved in story["moved"])
        print(f"{args.steps} steps in fp16 on {place.world_size} ranks, {skipped} of them skipped")
    report("amp", place, bad=bad, formats=formats(place), clipped=clipped, story=story)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
