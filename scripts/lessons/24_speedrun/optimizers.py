"""SGD for all weights, or Muon for the convolutions and SGD for the rest.

Muon makes the momentum of a matrix (nearly) orthogonal before it is taken as a step: all directions
then move by as much. torch.optim.Muon takes matrices only, so it is shown each convolution as one.

Run:  python optimizers.py
"""

import torch
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report

MUON = 0.1  # Muon's learning rate, as a part of SGD's


def matrix(weight: Tensor) -> Tensor:
    """A convolution's weight (out, in, height, width) as a matrix (out, all others).

    It shares the memory of the weight, in either layout: torch's own, or channels last.
    """
    last = weight.is_contiguous(memory_format=torch.channels_last)
    ordered = weight.permute(0, 2, 3, 1) if last else weight
    return ordered.view(len(weight), -1)  # raises if it could only be a copy


class ConvolutionMuon(torch.optim.Muon):
    """torch's Muon for convolutions. Call `take_gradients` between backward and step."""

    def __init__(self, weights: list[Tensor], lr: float, weight_decay: float):
        self.weights = weights
        shared = [nn.Parameter(matrix(weight.detach())) for weight in weights]
        super().__init__(shared, lr=lr, weight_decay=weight_decay)

    def take_gradients(self) -> None:
        """Show the gradients of the convolutions to the matrices, in the matrices' order."""
        (group,) = self.param_groups
        for weight, shared in zip(self.weights, group["params"], strict=True):
            gradient = torch.empty_like(weight).copy_(weight.grad)  # in the weight's layout
            shared.grad = matrix(gradient)

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        for weight in self.weights:
            weight.grad = None


def optimizers_of(model: nn.Module, muon: bool, fused: bool | None) -> list[torch.optim.Optimizer]:
    """SGD with momentum; with `muon` for all but the convolutions. Rates are set in each step."""
    convolutions = []
    rest = []
    for weight in model.parameters():
        group = convolutions if muon and weight.dim() == 4 else rest
        group.append(weight)
    options = {"momentum": 0.9, "weight_decay": 5e-4, "nesterov": True, "fused": fused}
    found: list[torch.optim.Optimizer] = [torch.optim.SGD(rest, 1.0, **options)]
    if convolutions:
        found.append(ConvolutionMuon(convolutions, MUON, weight_decay=5e-3))
    for optimizer in found:
        for group in optimizer.param_groups:
            group["share"] = group["lr"]  # of the learning rate of the step
    return found


def begin(optimizers: list[torch.optim.Optimizer], rate: float) -> None:
    """A new step at this learning rate, of which Muon takes its share."""
    for optimizer in optimizers:
        optimizer.zero_grad()
        for group in optimizer.param_groups:
            group["lr"] = group["share"] * rate


def step(optimizers: list[torch.optim.Optimizer], scaler: torch.amp.GradScaler) -> None:
    """Move all weights by their gradients, from which the scaler takes its scale."""
    for optimizer in optimizers:
        if isinstance(optimizer, ConvolutionMuon):
            optimizer.take_gradients()
        scaler.step(optimizer)
    scaler.update()


@record
def main() -> None:
    torch.manual_seed(0)
    model = nn.Conv2d(3, 8, 3, bias=False)
    before = matrix(model.weight).detach().clone()
    model(torch.randn(4, 3, 8, 8)).square().sum().backward()
    _, muon = optimizers_of(nn.Sequential(model, nn.Linear(1, 1)), muon=True, fused=None)
    muon.take_gradients()
    muon.step()
    moved = torch.linalg.svdvals(matrix(model.weight) - before) / muon.param_groups[0]["lr"]
    low = moved.min().item()
    high = moved.max().item()
    print(f"one step moves every direction by {low:.2f} to {high:.2f} times the rate")
    report("optimizers", here(), low=low, high=high)


if __name__ == "__main__":
    main()
