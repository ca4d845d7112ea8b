"""What 16 bits lose: updates below half a spacing, and gradients smaller than any number.

Run:  python vanish.py --steps 2000
      torchrun --standalone --nproc-per-node=1 vanish.py
"""

import argparse

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional as F

from devices import here, report
from dtypes import FORMATS

GOAL = 3.0
LR = 0.001


def learn(dtype: torch.dtype, steps: int, master: bool = False) -> list[float]:
    """Descend (w - GOAL)² from w = 2, computing in `dtype`; w after each step.

    With `master`, w itself is kept in fp32. On the CPU wherever we are: what is rounded away
    depends on the format, not on the device.
    """
    kept_dtype = torch.float32 if master else dtype
    kept = torch.tensor(2.0, dtype=kept_dtype)
    trace = []
    for _ in range(steps):
        w = kept.to(dtype)  # what the forward pass sees
        gradient = 2 * (w - GOAL)
        update = LR * gradient.to(kept_dtype)
        kept -= update
        trace.append(kept.item())
    return trace


def deep(layers: int = 24, width: int = 64) -> nn.Sequential:
    """x (N, width) → (N, width): each layer hands back about half of the gradient that it gets."""
    parts: list[nn.Module] = []
    for _ in range(layers):
        linear = nn.Linear(width, width)
        parts += [linear, nn.Tanh()]
    return nn.Sequential(*parts)


def gradients(dtype: torch.dtype, scale: float, device: torch.device) -> list[Tensor]:
    """Gradient of each layer's weight, with the forward pass in `dtype`.

    The loss is multiplied by `scale` before the backward pass, each gradient divided by it after.
    """
    torch.manual_seed(0)
    model = deep().to(device)
    noise = torch.randn(2, 64, 64)
    x, y = noise.to(device)
    sixteen_bits = dtype != torch.float32
    with torch.autocast(device.type, dtype, enabled=sixteen_bits):
        output = model(x)
        loss = F.mse_loss(output, y)
    scaled_loss = scale * loss
    scaled_loss.backward()
    linear_layers = model[::2]
    return [layer.weight.grad / scale for layer in linear_layers]


def histogram(layers: list[Tensor]) -> dict[str, list[float]]:
    """Of each layer's gradient the share of zeros; of all together how many have which size.

    `counts` are those between 2^k and 2^(k+1), for k from -45 to -1, zeros left out.
    """
    zeros = []
    for gradient in layers:
        is_zero = gradient == 0
        share = is_zero.double().mean()
        zeros.append(share.item())
    flats = [gradient.flatten() for gradient in layers]
    sizes = torch.cat(flats).abs()
    sizes = sizes.double().cpu()
    not_zero = sizes[sizes > 0]
    powers = not_zero.log2()
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
    traces = {}
    for name, dtype in FORMATS.items():
        traces[name] = learn(dtype, args.steps)
    name = "bf16, kept in fp32"
    traces[name] = learn(torch.bfloat16, args.steps, master=True)
    for name, trace in traces.items():
        end = trace[-1]
        print(f"{name:18} w = {end:.4f} after {args.steps} steps from 2 towards {GOAL:g}")

    # Range: a deep network's gradients in each format, and in fp16 once more with a scaled loss.
    histograms = {}
    for name, dtype in FORMATS.items():
        found = gradients(dtype, 1.0, place.device)
        histograms[name] = histogram(found)
    found = gradients(torch.float16, args.scale, place.device)
    name = f"fp16, loss × {args.scale:g}"
    histograms[name] = histogram(found)
    report("vanish", place, traces=traces, found=histograms)


if __name__ == "__main__":
    main()
