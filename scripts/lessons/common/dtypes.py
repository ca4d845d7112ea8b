"""fp32, fp16, bf16: which numbers they hold, how far apart, and how fast they are multiplied here.

Run:  python dtypes.py --size 256
      torchrun --standalone --nproc-per-node=1 dtypes.py
"""

import argparse
import math
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, low_precision, report
from stopwatch import in_turns

FORMATS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
UNITS = {  # what Linux calls a CPU's units for a format
    "fp16": {"avx512_fp16", "amx_fp16", "asimdhp"},
    "bf16": {"avx512_bf16", "amx_bf16", "bf16"},
}


def as_integers(x: torch.Tensor) -> torch.Tensor:
    """The bits of floating-point numbers, read as integers: the next integer is the next number."""
    if x.element_size() == 4:
        return x.view(torch.int32)
    return x.view(torch.int16)


def spacing(values: Sequence[float], dtype: torch.dtype) -> list[float]:
    """Distance from each value to the next larger number of the format; inf where there is none."""
    exact = torch.tensor(values, dtype=torch.float64)
    x = exact.to(dtype)
    next_integers = as_integers(x) + 1
    following = next_integers.view(dtype)
    distances = following.double() - x.double()
    return distances.tolist()


def bits(value: float, dtype: torch.dtype) -> str:
    """A value as it is stored: sign, exponent and fraction, each as bits."""
    x = torch.tensor([value], dtype=dtype)
    size = 8 * x.element_size()
    eps = torch.finfo(dtype).eps
    fraction = round(-math.log2(eps))  # so many of the bits
    integer = as_integers(x).item() % 2**size  # a negative one has its sign in the first bit
    text = f"{integer:0{size}b}"
    return f"{text[0]} {text[1:-fraction]} {text[-fraction:]}"


def describe(dtype: torch.dtype) -> dict[str, object]:
    """Limits, bits and spacings of a format; `smallest` is the number next to 0."""
    powers = [2.0**power for power in range(-149, 128)]
    powers = torch.tensor(powers, dtype=torch.float64)
    rounded = powers.to(dtype).double()
    held = powers[rounded == powers].tolist()  # the format has not all of them
    return {
        "largest": torch.finfo(dtype).max,
        "smallest": spacing([0.0], dtype)[0],
        "tenth": bits(0.1, dtype),
        "values": held,
        "spacing": spacing(held, dtype),
    }


def units(device: torch.device) -> dict[str, bool]:
    """Whether the device has arithmetic units for a format, not only programs that imitate them."""
    if device.type == "cuda":
        fp16 = torch.cuda.get_device_capability(device) >= (7, 0)
        bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        return {"fp32": True, "fp16": fp16, "bf16": bf16}
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""  # without Linux no unit is known
    names = set(re.findall(r"\w+", text))
    has = {"fp32": True}
    for name, known in UNITS.items():
        has[name] = bool(names & known)
    return has


def best_dtype(has: dict[str, bool]) -> tuple[str, str]:
    """The format to train in, from the formats that a device has units for, and the reason."""
    if has["bf16"]:
        return "bf16", "units for it, the range of fp32, no scaler"
    if has["fp16"]:
        return "fp16", "units for it, but a small range: with a GradScaler"
    return "fp32", "16 bits would only be imitated here: less memory, but no speed"


def multiply(size: int, place: Place, rounds: int = 5) -> dict[str, dict[str, object]]:
    """In each format: seconds of one product of two square matrices, a number a round; its error.

    The error is the largest in the first row, as a share of the largest number there.
    """
    facts: dict[str, dict[str, object]] = {}
    ways = {}
    for name, dtype in FORMATS.items():
        a = torch.randn(size, size, device=place.device).to(dtype)
        b = torch.randn(size, size, device=place.device).to(dtype)
        exact = a[:1].double() @ b.double()
        product = a @ b
        difference = product[:1].double() - exact
        largest = exact.abs().max()
        error = difference.abs().max() / largest
        facts[name] = {"error": error.item()}
        ways[name] = partial(torch.matmul, a, b)
    seconds = in_turns(ways, rounds, place.device)
    for name, times in seconds.items():
        facts[name]["seconds"] = times
    return facts


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=256, help="rows of the matrices")
    args = parser.parse_args()

    has = units(place.device)
    formats = {name: describe(dtype) for name, dtype in FORMATS.items()}
    products = multiply(args.size, place)
    for name, facts in formats.items():
        facts["unit"] = has[name]
        facts.update(products[name])
        limits = f"largest {facts['largest']:.3g}, smallest {facts['smallest']:.3g}"
        print(f"{name}: {limits}, 0.1 is {facts['tenth']}")

    # What the course trains in, beside what torch says when it is asked for bf16.
    on_gpu = place.device.type == "cuda"
    capability = None
    if on_gpu:
        capability = torch.cuda.get_device_capability()
    dtype = low_precision(capability)
    sixteen = str(dtype).removeprefix("torch.")
    says = on_gpu and torch.cuda.is_bf16_supported()
    best = best_dtype(has)
    report("dtypes", place, formats=formats, best=best, sixteen=sixteen, says=says)


if __name__ == "__main__":
    main()
