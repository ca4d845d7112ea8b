"""What breaks a graph in two, and which batch sizes make torch.compile start again?

Run:  python breaks.py
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch._dynamo import explain
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from speed import Counting

# Batches of two epochs of 372 pictures, of a test set of 100, and one picture.
SIZES = [128, 128, 116, 128, 128, 116, 100, 1]


def branch(x: Tensor) -> Tensor:
    y = x.sin()
    if y.mean() > 0:  # Python must know what only running the graph can tell
        y = 2 * y
    return y.cos()


def branch_mended(x: Tensor) -> Tensor:
    y = x.sin()
    y = torch.where(y.mean() > 0, 2 * y, y)  # both are computed; choosing is an operation, too
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


PAIRS = [(branch, branch_mended), (peak, peak_mended), (clip, clip_mended)]


def show_graphs(function: Callable[[Tensor], Tensor], x: Tensor) -> int:
    """How many graphs Dynamo makes of a function; prints that, and why the first one ends."""
    explanation = explain(function)(x)
    reason = "no break"
    if explanation.break_reasons:
        first = explanation.break_reasons[0]
        reason = str(first.reason).partition("\n")[0]
    print(f"{function.__name__:14}graphs: {explanation.graph_count}, {reason}")
    return explanation.graph_count


def equal(function: Callable, mended: Callable, x: Tensor) -> bool:
    """Whether two functions return the same: for large numbers, small ones and negative ones."""
    for tensor in (x, x / 100, -x):
        expected = function(tensor)
        if not torch.allclose(expected, mended(tensor)):
            return False
    return True


def refusal(function: Callable[[Tensor], Tensor], x: Tensor) -> str:
    """What torch.compile says when it must make one graph of a function; empty if it can."""
    torch.compiler.reset()
    try:
        compiled = torch.compile(function, fullgraph=True, backend="eager")
        compiled(x)
    except RuntimeError as error:
        return str(error)
    return ""


def step(x: Tensor) -> Tensor:
    return x.sin().sum(1)


def compilations(
    function: Callable[[Tensor], Tensor], inputs: Iterable[Tensor], dynamic: bool | None = None
) -> list[int]:
    """How many graphs torch.compile has made of a function after each call."""
    torch.compiler.reset()
    backend = Counting("eager")
    compiled = torch.compile(function, backend=backend, dynamic=dynamic)
    counts = []
    for x in inputs:
        compiled(x)
        counts.append(len(backend.graphs))
    return counts


@record
def main() -> None:
    place = here()
    torch.manual_seed(0)
    x = torch.randn(128, 32, device=place.device)

    # Where a graph breaks: each function, and then its mended twin, which must do the same.
    graphs = {}
    same = {}
    for function, mended in PAIRS:
        name = function.__name__
        graphs[name] = show_graphs(function, x)
        graphs[mended.__name__] = show_graphs(mended, x)
        same[name] = equal(function, mended, x)
    messages = {}
    for function, _ in PAIRS:
        messages[function.__name__] = refusal(function, x)

    # When something is compiled again: three settings, and then twenty sizes, more than the limit.
    batches = [x[:size].clone() for size in SIZES]
    shapes = {}
    for dynamic in (False, None, True):
        shapes[str(dynamic)] = compilations(step, batches, dynamic)
    twenty = [x[:size].clone() for size in range(2, 22)]
    counts = compilations(step, twenty, dynamic=False)
    recompiled = {"sizes": SIZES, "shapes": shapes, "most": counts[-1]}
    report("breaks", place, graphs=graphs, same=same, messages=messages, **recompiled)


if __name__ == "__main__":
    main()
