"""What a link does to an all-reduce, by size, and to a step of DDP, by the number of parameters.

Run:  python over_link.py                                              # one process
      torchrun --standalone --nproc-per-node=2 over_link.py            # two ranks
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import here, report, start
from stopwatch import in_turns

SIZES = [4, 1 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20]  # bytes
WIDTHS = [64, 512, 1024]  # of the hidden layers
BATCH = 256
FEATURES = 256


def network(width: int) -> nn.Module:
    """Three layers, alike on every rank."""
    torch.manual_seed(0)
    hidden = [nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(width, 10))


def step_of(model: nn.Module):
    """A function that makes one training step of the model, on numbers made once."""
    inputs = torch.randn(BATCH, FEATURES)
    labels = torch.randint(10, (BATCH,))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="of which the median is taken")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="bytes of an all-reduce")
    parser.add_argument("--widths", type=int, nargs="*", default=WIDTHS)
    args = parser.parse_args()
    place = here()
    torch.set_num_threads(1)
    start(place)

    # One size after the other: a large message leaves packets in the link's queue for the next one.
    sizes = {}
    for size in SIZES:
        if size > args.largest:
            break
        numbers = torch.zeros(size // 4)
        ways = {"all_reduce": lambda numbers=numbers: dist.all_reduce(numbers)}
        times = in_turns(ways, args.rounds, place.device, before=dist.barrier)
        sizes[size] = times["all_reduce"]

    steps = []
    for width in args.widths:
        model = network(width)
        parameters = sum(each.numel() for each in model.parameters())
        alone = step_of(model)
        # Its own copy: DDP's hooks would otherwise reduce the gradients of the lone step, too.
        together = step_of(DistributedDataParallel(network(width)))
        ways = {"alone": alone, "ddp": together}
        times = in_turns(ways, args.rounds, place.device, settle=2, before=dist.barrier)
        steps.append({"parameters": parameters} | times)

    report("over_link", place, sizes=sizes, steps=steps)
    dist.barrier()  # rank 0 holds the store, and leaves last
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
