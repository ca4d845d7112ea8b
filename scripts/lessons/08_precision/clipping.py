"""A gradient is clipped while it is multiplied by the scale: how far do the weights move?

Run:  python clipping.py
"""

import torch
from torch.amp import GradScaler
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

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
    y = torch.arange(16) % 10
    y = y.to(device)
    with torch.autocast(device.type, torch.float16, enabled=sixteen_bits):
        scores = model(x)
        loss = F.cross_entropy(scores, y)
    scaler.scale(loss).backward()
    before = weights(model)
    if way == "mended":
        # BEGIN SOLUTION
        scaler.unscale_(optimizer)
        # STUB pass
        # END SOLUTION
    norm = clip_grad_norm_(model.parameters(), max_norm=0.1)
    scaler.step(optimizer)
    difference = weights(model) - before
    moved = difference.norm()
    return {"norm": norm.item(), "moved": moved.item()}


@record
def main() -> None:
    place = here()
    clipped = {}
    for way in ("fp32", "wrong order", "mended"):
        clipped[way] = clip(way, place.device)
    for way in ("fp32", "wrong order"):
        name = f"Adam, {way}"
        clipped[name] = clip(way, place.device, adam=True)
    # `mended` is an exercise: its numbers are shown when it is checked.
    for way, row in clipped.items():
        if way != "mended":
            norm = row["norm"]
            moved = row["moved"]
            print(f"{way:18} norm {norm:8.3f}, weights moved by {moved:.6f}")
    report("clipping", place, clipped=clipped)


if __name__ == "__main__":
    main()
