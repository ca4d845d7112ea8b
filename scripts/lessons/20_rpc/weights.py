"""A server that holds the weights of one network: `from weights import Server`.

A gradient updates the weights at once (`push`), or together with those of all other trainers
(`push_together`).
"""

import threading

import torch
import torch.distributed.rpc as rpc
from torch import Tensor, nn
from torch.futures import Future
from torch.nn.functional import cross_entropy
from torch.optim import SGD

LR = 0.2


def network() -> nn.Module:
    torch.manual_seed(0)  # the same weights wherever it is called
    layers = [nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 4)]
    return nn.Sequential(*layers).double()


def loss_of(model: nn.Module, step: int, trainer: int, trainers: int) -> Tensor:
    """The loss of this trainer's rows of batch `step`."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(64, 20, generator=generator, dtype=torch.float64)
    y = x[:, :4].argmax(1)
    own = slice(trainer, None, trainers)
    logits = model(x[own])
    return cross_entropy(logits, y[own])


class Server:
    """Holds the weights. Their version is the number of updates so far."""

    def __init__(self, trainers: int) -> None:
        self.model = network()
        self.optimizer = SGD(self.model.parameters(), LR)
        self.trainers = trainers
        self.version = 0
        self.pushes = []  # for each gradient that came: whose, and how many versions old
        self.lock = threading.Lock()  # calls run in several threads
        self.waiting = {}  # trainer → gradients; only for `push_together`
        self.answer = Future()

    def weights(self) -> tuple[int, list[Tensor]]:
        weights = [weight.detach().clone() for weight in self.model.parameters()]
        return self.version, weights

    def update(self, gradients: list[Tensor]) -> None:
        for weight, gradient in zip(self.model.parameters(), gradients, strict=True):
            weight.grad = gradient
        self.optimizer.step()
        self.version += 1

    def push(self, trainer: int, version: int, gradients: list) -> tuple[int, list[Tensor]]:
        """Asynchronous: update at once, whatever the others do."""
        with self.lock:
            self.pushes.append((trainer, self.version - version))
            self.update(gradients)
            return self.weights()

    @staticmethod
    @rpc.functions.async_execution  # the caller gets what this Future will hold
    def push_together(rref: rpc.RRef, trainer: int, version: int, gradients: list) -> Future:
        """Synchronous: keep the gradients. Update and answer when all trainers' have come."""
        server = rref.local_value()
        with server.lock:
            server.pushes.append((trainer, server.version - version))
            server.waiting[trainer] = gradients
            answer = server.answer
            complete = len(server.waiting) == server.trainers
            if complete:
                columns = zip(*server.waiting.values(), strict=True)
                means = [sum(column) / server.trainers for column in columns]
                server.update(means)
                server.waiting = {}
                server.answer = Future()
                weights = server.weights()
        if complete:
            answer.set_result(weights)  # without the lock: who waits for it may run in this thread
        return answer
