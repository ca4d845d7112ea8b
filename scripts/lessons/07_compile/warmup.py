"""Rank 0 alone warms up its compiled model, or every rank does: who waits in the first step?

Run:  torchrun --standalone --nproc-per-node=2 warmup.py
"""

import time

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from devices import Place, here, report, start


def first_step(warm: bool, place: Place) -> dict[str, list]:
    """Warm up or not, meet the others, take a step: when each part ended, and the graphs so far."""
    compiled = []

    def compiler(graph, inputs):  # a stand-in: the graph will run as it is
        time.sleep(1)
        compiled.append(graph)
        return graph.forward

    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64).to(place.device)
    x = torch.randn(32, 64, device=place.device) + place.rank
    ddp_model = DistributedDataParallel(torch.compile(model, backend=compiler))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dist.barrier()
    moments = [time.monotonic()]  # a clock that all processes of a machine share
    if warm:
        with ddp_model.no_sync():  # no gradient is sent, so nobody is waited for
            ddp_model(x).square().mean().backward()
        optimizer.zero_grad()  # this was no step of the training
    moments.append(time.monotonic())
    graphs = [len(compiled)]
    dist.barrier()
    moments.append(time.monotonic())
    loss = ddp_model(x).square().mean()  # without a warm-up it is compiled here
    moments.append(time.monotonic())
    loss.backward()  # the first all-reduce of gradients
    optimizer.step()
    weights = model.weight.flatten().tolist()  # waits for a GPU
    moments.append(time.monotonic())
    graphs.append(len(compiled))
    return {"moments": moments, "graphs": graphs, "weights": weights}


@record
def main() -> None:
    place = here()
    start(place)
    alone = first_step(place.rank == 0, place)
    report("warmup", place, alone=alone, every=first_step(True, place))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
