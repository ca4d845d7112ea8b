"""Two networks with the same seed, built in one process by two calls at the same time.

Run:  python racing.py
      torchrun --standalone --nproc-per-node=2 racing.py
"""

import threading
from argparse import ArgumentParser

import torch
import torch.distributed.rpc as rpc
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from workers import join

lock = threading.Lock()


def network() -> Tensor:
    """The weights of a network of four layers, drawn with seed 0."""
    torch.manual_seed(0)
    layers = [nn.Linear(128, 128) for _ in range(4)]
    model = nn.Sequential(*layers)
    weights = [weight.detach().flatten() for weight in model.parameters()]
    return torch.cat(weights)


def locked_network() -> Tensor:
    """The same, but only one call at a time draws."""
    with lock:
        return network()


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=30)
    args = parser.parse_args()
    place = here(gpus=0)
    join(place)
    told = {}
    if place.rank == 0:
        last = f"worker{place.world_size - 1}"
        right = network()
        for build in [network, locked_network]:
            wrong = 0
            for _ in range(args.pairs):
                futures = [rpc.rpc_async(last, build) for _ in range(2)]
                built = torch.futures.wait_all(futures)
                equal = [torch.equal(weights, right) for weights in built]
                if not all(equal):
                    wrong += 1
            told[build.__name__] = wrong
        print(f"of {args.pairs} pairs, so many are not those of seed 0: {told}")
    report("racing", place, pairs=args.pairs, wrong=told)
    rpc.shutdown()


if __name__ == "__main__":
    main()
