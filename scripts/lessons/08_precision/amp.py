"""Mixed precision under DDP: autocast's formats, a scaled loss, and steps that are skipped.

Run:  python amp.py
      torchrun --standalone --nproc-per-node=2 amp.py --steps 24
"""

import argparse

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start


def network(device: torch.device) -> nn.Sequential:
    """x (N, 32) → ten scores each (N, 10); the same start on every rank."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    return model.to(device)


def weights(model: nn.Module) -> Tensor:
    """A copy of all weights, as one vector."""
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def formats(device: torch.device) -> dict[str, str]:
    """The format of what some operations return under autocast in fp16, from inputs in fp32."""
    x = torch.rand(8, 16, device=device)
    y = torch.zeros(8, dtype=torch.int64, device=device)
    linear = nn.Linear(16, 16).to(device)
    conv = nn.Conv2d(1, 1, 3).to(device)
    outputs = {}
    with torch.autocast(device.type, torch.float16):
        h = linear(x)
        outputs["linear"] = h
        outputs["conv2d"] = conv(x[None, None])
        outputs["relu(linear)"] = h.relu()
        outputs["linear + x"] = h + x
        outputs["softmax"] = h.softmax(1)
        outputs["sum"] = h.sum()
        outputs["cross_entropy"] = F.cross_entropy(h, y)
    outputs["linear.weight"] = linear.weight
    return {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in outputs.items()}


def clip(way: str, device: torch.device, adam: bool = False) -> dict[str, float]:
    """One step with its gradient clipped to 0.1: the norm before, and how far the weights moved."""
    model = network(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1)
    if adam:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    sixteen_bits = way != "fp32"
    scaler = GradScaler(device.type, init_scale=2.0**10, enabled=sixteen_bits)
    x = torch.randn(16, 32).to(device)
    y = torch.arange(16).to(device) % 10
    with torch.autocast(device.type, torch.float16, enabled=sixteen_bits):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    before = weights(model)
    if way == "mended":
        # BEGIN SOLUTION
        scaler.unscale_(optimizer)
        # STUB pass
        # END SOLUTION
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.1)
    scaler.step(optimizer)
    moved = weights(model) - before
    return {"norm": norm.item(), "moved": moved.norm().item()}


def train(steps: int, bad: int, place: Place) -> dict[str, list]:
    """Train in fp16; at step `bad` the last rank meets a number too large for fp16.

    Returns the scale of each step, whether its loss was finite, and how far a weight moved at most;
    then the weights.
    """
    model = network(place.device)
    ddp_model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    # By default 2¹⁶ and 2000: too large a scale, and soon doubled, so that a few steps show it all.
    scaler = GradScaler(place.device.type, init_scale=2.0**24, growth_interval=6)
    torch.manual_seed(place.rank)
    last = place.world_size - 1
    story: dict[str, list] = {"scale": [], "finite": [], "moved": []}
    for step in range(steps):
        x = torch.randn(16, 32)
        y = torch.randint(10, (16,))
        if step == bad and place.rank == last:
            x[0, 0] = 1e6
        before = model[0].weight.detach().clone()
        story["scale"].append(scaler.get_scale())
        optimizer.zero_grad()
        with torch.autocast(place.device.type, torch.float16):
            output = ddp_model(x.to(place.device))
            loss = F.cross_entropy(output, y.to(place.device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        moved = model[0].weight - before
        story["finite"].append(loss.isfinite().item())
        story["moved"].append(moved.abs().max().item())
    return story | {"weights": weights(model).tolist()}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    place = here()
    start(place)

    clipped = {way: clip(way, place.device) for way in ("fp32", "wrong order", "mended")}
    for way in ("fp32", "wrong order"):
        clipped[f"Adam, {way}"] = clip(way, place.device, adam=True)
    bad = 3 * args.steps // 4
    story = train(args.steps, bad, place)
    if place.rank == 0:
        skipped = sum(moved == 0 for moved in story["moved"])
        print(f"{args.steps} steps in fp16 on {place.world_size} ranks, {skipped} of them skipped")
    report("amp", place, bad=bad, formats=formats(place.device), clipped=clipped, story=story)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
