"""What 16 bits lose: updates below half a spacing, and gradients smaller than any number.

Run:  python vanish.py --steps 2000
      torchrun --standalone --nproc-per-node=1 vanish.py
"""

import argparse

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from dtypes import FORMATS

GOAL = 3.0
LR = 0.001


def learn(dtype: torch.dtype, steps: int, master: bool = False) -> list[float]:
    """Descend (w - GOAL)² from w = 2, computing in `dtype`; w after each step.

    With `master`, w itself is kept in fp32. On the CPU wherever we are: what is rounded away
    depends on the format, not on the device.
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
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*parts)


def gradients(dtype: torch.dtype, scale: float, device: torch.device) -> list[Tensor]:
    """Gradient of each layer's weight, with the forward pass in `dtype`.

    The loss is multiplied by `scale` before the backward pass, each gradient divided by it after.
    """
    torch.manual_seed(0)
    model = deep().to(device)
    x, y = torch.randn(2, 64, 64).to(device)
    sixteen_bits = dtype != torch.float32
    with torch.autocast(device.type, dtype, enabled=sixteen_bits):
        loss = nn.functional.mse_loss(model(x), y)
    scaled_loss = scale * loss
    scaled_loss.backward()
    return [layer.weight.grad / scale for layer in model[::2]]


def histogram(layers: list[Tensor]) -> dict[str, list[float]]:
    """Of each layer's gradient the share of zeros; of all together how many have which size.

    `counts` are those between 2^k and 2^(k+1), for k from -45 to -1, zeros left out.
    """
    zeros = [(gradient == 0).double().mean().item() for gradient in layers]
    flat = torch.cat([gradient.flatten() for gradient in layers])
    sizes = flat.abs().double().cpu()
    powers = sizes[sizes > 0].log2()
    counts = torch.histc(powers, bins=45, min=-45, max=0)
    return {"zeros": zeros, "counts": counts.tolist()}


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000, help="of the descent of one weight")
    parser.add_argument("--scale", type=float, default=2.0**16, help="multiplies the loss")
    args = parser.parse_args()
    place = here()

    # Spacing: one weight in each format, and once more with a copy that remembers what is small.
    traces = {name: learn(dtype, args.steps) for name, dtype in FORMATS.items()}
    traces["bf16, kept in fp32"] = learn(torch.bfloat16, args.steps, master=True)
    for name, trace in traces.items():
        print(f"{name:18} w = {trace[-1]:.4f} after {args.steps} steps from 2 towards {GOAL:g}")

    # Range: a deep network's gradients in each format, and in fp16 once more with a scaled loss.
    histograms = {}
    for name, dtype in FORMATS.items():
        histograms[name] = histogram(gradients(dtype, 1.0, place.device))
    scaled = gradients(torch.float16, args.scale, place.device)
    histograms[f"fp16, loss × {args.scale:g}"] = histogram(scaled)
    report("vanish", place, traces=traces, found=histograms)


if __name__ == "__main__":
    main()
