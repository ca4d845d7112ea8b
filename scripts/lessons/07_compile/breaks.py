"""What breaks a graph in two, and which batch sizes make torch.compile start again?

Run:  python breaks.py
"""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch._dynamo import explain
from torch._dynamo.exc import Unsupported
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from speed import Counting

SIZES = [128, 128, 116, 128, 128, 116, 100, 1]  # two epochs of 372 pictures, a test set of 100, and one picture


def branch(x: Tensor) -> Tensor:
    y = x.sin()
    if y.mean() > 0:  # Python must know what only running the graph can tell
        y = 2 * y
    return y.cos()


def branch_mended(x: Tensor) -> Tensor:
    y = x.sin()
    y = torch.where(y.mean() > 0, 2 * y, y)  # both are computed, and the choice is an operation like any other
    return y.cos()


def peak(x: Tensor) -> Tensor:
    y = x.sin()
    y = y / y.abs().max().item()  # `item` hands a number to Python
    return y.cos()


def peak_mended(x: Tensor) -> Tensor:
    y = x.sin()
    y = y / y.abs().max()  # it stays a tensor
    return y.cos()


def clip(x: Tensor) -> Tensor:
    y = x.sin()
    norm = y.norm().item()
    if norm > 1:
        y = y / norm
    return y.cos()


def clip_mended(x: Tensor) -> Tensor:
    """Exercise: the same as `clip`, for a norm above 1 and for one below, in one graph."""
    y = x.sin()
    # BEGIN SOLUTION
    y = y / y.norm().clamp(min=1)
    # STUB y = y / max(1, y.norm().item())
    # END SOLUTION
    return y.cos()


def compilations(dynamic: bool | None, x: Tensor, sizes: Iterable[int] = SIZES) -> list[int]:
    """How many graphs torch.compile has made after each batch."""
    torch.compiler.reset()
    backend, counts = Counting("eager"), []
    step = torch.compile(lambda x: x.sin().sum(1), backend=backend, dynamic=dynamic)
    for size in sizes:
        step(x[:size].clone())
        counts.append(len(backend.graphs))
    return counts


@record
def main() -> None:
    place = here()
    torch.manual_seed(0)
    x = torch.randn(128, 32, device=place.device)

    graphs = {}
    for function in [branch, branch_mended, peak, peak_mended, clip, clip_mended]:
        seen = explain(function)(x)
        graphs[function.__name__] = seen.graph_count
        reason = str(seen.break_reasons[0].reason).partition("\n")[0] if seen.break_reasons else "no break"
        print(f"{function.__name__:14}graphs: {seen.graph_count}, {reason}")
    pairs = [(branch, branch_mended), (peak, peak_mended), (clip, clip_mended)]
    same = {one.__name__: all(torch.allclose(one(v), two(v)) for v in [x, x / 100, -x]) for one, two in pairs}
    message = ""
    try:
        torch.compile(branch, fullgraph=True, backend="eager")(x)
    except Unsupported as error:
        message = str(error)
    shapes = {str(dynamic): compilations(dynamic, x) for dynamic in [False, None, True]}
    most = compilations(False, x, range(2, 22))[-1]  # twenty sizes
    report("breaks", place, graphs=graphs, same=same, message=message, sizes=SIZES, shapes=shapes, most=most)


if __name__ == "__main__":
    main()
