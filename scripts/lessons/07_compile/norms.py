"""An `if` on a number of Python's breaks no graph, but it is a guard: which calls compile again?

Run:  TORCH_LOGS=recompiles python norms.py     # Dynamo says why it compiles again
"""

import torch
from torch.distributed.elastic.multiprocessing.errors import record

from breaks import clip
from devices import here, report
from speed import Counting

FACTORS = [3, 0.01, 5, 0.02, 2, 0.03]  # the norm is above 1, below, above, …


def compilations(factors: list[float], x: torch.Tensor) -> list[int]:
    """How many graphs torch.compile has made of `clip` after each call with x times a factor."""
    backend = Counting("eager")
    compiled = torch.compile(clip, backend=backend)
    counts = []
    for factor in factors:
        compiled(factor * x)
        counts.append(len(backend.graphs))
    return counts


@record
def main() -> None:
    place = here()
    torch.manual_seed(0)
    x = torch.randn(64, 8, device=place.device)
    report("norms", place, graphs=compilations(FACTORS, x), factors=FACTORS)


if __name__ == "__main__":
    main()
