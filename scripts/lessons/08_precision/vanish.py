"""What 16 bits lose: updates that are smaller than half a spacing, and gradients that are smaller than any number.

Run:  python vanish.py --steps 2000
      torchrun --standalone --nproc-per-node=1 vanish.py
"""

import argparse

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report
from dtypes import FORMATS

GOAL, LR = 3.0, 0.001


def learn(dtype: torch.dtype, steps: int, master: bool = False) -> list[float]:
    """Descend (w - GOAL)² from w = 2, all numbers in `dtype`, or its weight kept in fp32; w after each step.

    On the CPU wherever we are: what is rounded away is a matter of the format, not of the device.
    """
    kept = torch.tensor(2.0, dtype=torch.float32 if master else dtype)
    trace = []
    for _ in range(steps):
        w = kept.to(dtype)  # what the forward pass sees
        gradient = 2 * (w - GOAL)
        kept -= LR * gradient.to(kept.dtype)
        trace.append(kept.item())
    return trace


def deep(layers: int = 24, width: int = 64) -> nn.Sequential:
    """x (N, width) → (N, width): each layer hands back about half of the gradient that it gets."""
    return nn.Sequential(*[part for _ in range(layers) for part in (nn.Linear(width, width), nn.Tanh())])


def gradients(dtype: torch.dtype | None, scale: float, place: Place) -> list[Tensor]:
    """Gradient of each layer's weight: in fp32, or under autocast in `dtype`, the loss times `scale`, then divided."""
    torch.manual_seed(0)
    model = deep().to(place.device)
    x, y = torch.randn(2, 64, 64).to(place.device)
    with torch.autocast(place.device.type, dtype or torch.bfloat16, enabled=dtype is not None):
        loss = nn.functional.mse_loss(model(x), y)
    (scale * loss).backward()
    return [layer.weight.grad / scale for layer in model[::2]]


def histogram(found: list[Tensor]) -> dict[str, list[float]]:
    """Share of zeros in each layer; how many of all numbers lie between 2^k and 2^(k+1), k from -45 to -1."""
    sizes = torch.cat([gradient.flatten() for gradient in found]).abs().double().cpu()
    counts = torch.histc(sizes[sizes > 0].log2(), bins=45, min=-45, max=0)
    return {"zeros": [(g == 0).double().mean().item() for g in found], "counts": counts.tolist()}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000, help="of the descent of one weight")
    parser.add_argument("--scale", type=float, default=2.0**16, help="what the loss is multiplied by")
    args, place = parser.parse_args(), here()

    traces = {name: learn(dtype, args.steps) for name, dtype in FORMATS.items()}
    traces["bf16, kept in fp32"] = learn(torch.bfloat16, args.steps, master=True)
    for name, trace in traces.items():
        print(f"{name:18} w = {trace[-1]:.4f} after {args.steps} steps from 2 towards {GOAL:g}")

    ways = {"fp32": (None, 1.0), "fp16": (torch.float16, 1.0), "bf16": (torch.bfloat16, 1.0)}
    ways[f"fp16, loss × {args.scale:g}"] = (torch.float16, args.scale)
    found = {name: histogram(gradients(*way, place)) for name, way in ways.items()}
    report("vanish", place, traces=traces, found=found)


if __name__ == "__main__":
    main()
