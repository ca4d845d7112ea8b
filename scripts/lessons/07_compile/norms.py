"""An `if` on a number of Python's breaks no graph, but it is a guard: which calls compile again?

Run:  TORCH_LOGS=recompiles python norms.py     # Dynamo says why it compiles again
"""

import torch
from torch.distributed.elastic.multiprocessing.errors import record

from breaks import clip, compilations
from devices import here, report

FACTORS = [3, 0.01, 5, 0.02, 2, 0.03]  # the norm is above 1, below, above, …


@record
def main() -> None:
    place = here()
    torch.manual_seed(0)
    x = torch.randn(64, 8, device=place.device)
    graphs = compilations(clip, [factor * x for factor in FACTORS])
    report("norms", place, graphs=graphs, factors=FACTORS)


if __name__ == "__main__":
    main()
