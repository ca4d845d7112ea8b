"""A gradient is clipped while it is multiplied by the scale: how far do the weights move?

Run:  python clipping.py
"""

import torch
from torch import nn
from torch.amp import GradScaler
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional as F

from devices import here, report
from small import network, weights


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


@record
def main() -> None:
    place = here()
    clipped = {way: clip(way, place.device) for way in ("fp32", "wrong order", "mended")}
    for way in ("fp32", "wrong order"):
        clipped[f"Adam, {way}"] = clip(way, place.device, adam=True)
    # `mended` is an exercise: its numbers are shown when it is checked.
    for way, row in clipped.items():
        if way != "mended":
            print(f"{way:18} norm {row['norm']:8.3f}, weights moved by {row['moved']:.6f}")
    report("clipping", place, clipped=clipped)


if __name__ == "__main__":
    main()
