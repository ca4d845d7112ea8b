"""A training that machines may join and leave; every rank notes each step that it makes.

Run:  python members.py                                          # one process
      torchrun --standalone --nproc-per-node=2 members.py        # two ranks
"""

import argparse
import json
import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from devices import Place, here, report, start
from yardstick import apart

AGENT = os.getppid()  # torchrun, if torchrun has started this rank
ROWS = 12  # in a global batch
STATE = Path("members.pt")
LOG = Path("members.log")


def batch(step: int) -> tuple[Tensor, Tensor]:
    """The rows of one step, the same on every rank: x (ROWS, 4) and y (ROWS, 1)."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(ROWS, 4, dtype=torch.float64, generator=generator)
    return x, x.prod(1, keepdim=True)


class Training:
    """A small network and its optimizer."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        layers = [nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)]
        self.model = nn.Sequential(*layers).double()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def step(self, forward: nn.Module, x: Tensor, y: Tensor) -> None:
        """One update; `forward` is the network, or DDP around it."""
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(forward(x), y)
        loss.backward()
        self.optimizer.step()

    def save(self, done: int) -> None:
        """Keep the state after `done` steps; the old file stays until the new one is whole."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "done": done,
        }
        part = STATE.with_suffix(".part")
        torch.save(state, part)
        part.replace(STATE)

    def load(self) -> int:
        """Take up what was saved last; the number of steps that it has behind it."""
        if not STATE.exists():
            return 0
        state = torch.load(STATE)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return state["done"]

    def weights(self) -> Tensor:
        return parameters_to_vector(self.model.parameters()).detach()


def undisturbed(steps: int) -> Tensor:
    """The weights of one process that makes all steps in one go."""
    training = Training()
    for step in range(steps):
        training.step(training.model, *batch(step))
    return training.weights()


def note(name: str, step: int, place: Place) -> None:
    """One line of the log, which all ranks of all machines write together."""
    row = {
        "machine": name,
        "step": step,
        "rank": place.rank,
        "local_rank": place.local_rank,
        "world_size": place.world_size,
        "restarts": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        "time": time.time(),
    }
    with LOG.open("a") as log:
        log.write(json.dumps(row) + "\n")


def leave(place: Place) -> None:
    """This machine crashes: its agent and its ranks end, without a word."""
    if place.local_rank == 0:
        os.kill(AGENT, signal.SIGKILL)
    while os.getppid() == AGENT:  # the agent first, or it would start its ranks again
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="only", help="of this machine")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--every", type=int, default=4, help="steps from checkpoint to checkpoint")
    parser.add_argument("--hold-at", type=int, help="step at which one rank waits for company")
    parser.add_argument("--leave-at", type=int, help="step at which this machine fails")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds added to a step")
    args = parser.parse_args()
    # gloo on the CPU everywhere: two agents on one machine would hand out the same GPUs twice.
    place = here(gpus=0)
    start(place)

    # Whoever is here takes up what was saved last.
    training = Training()
    done = training.load()
    who = f"machine {args.name}: rank {place.rank} of {place.world_size}"
    print(f"{who}, from step {done} on\n", end="", flush=True)

    ddp_model = DistributedDataParallel(training.model)
    for step in range(done, args.steps):
        while step == args.hold_at and place.world_size == 1:
            time.sleep(0.1)  # torchrun ends this rank when another machine asks to join
        if step == args.leave_at:
            leave(place)
        # The same rows, whatever the number of ranks: each takes its equal share.
        x, y = batch(step)
        own_x = x.chunk(place.world_size)[place.rank]
        own_y = y.chunk(place.world_size)[place.rank]
        training.step(ddp_model, own_x, own_y)
        time.sleep(args.pause)
        note(args.name, step, place)
        if place.rank == 0 and (step + 1) % args.every == 0:
            training.save(step + 1)
    gap = apart(training.weights(), undisturbed(args.steps), wrong=undisturbed(0))
    report("members", place, weights=training.weights().tolist(), gap=gap)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
