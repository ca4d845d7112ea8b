"""Two ranks learn one sine curve: rank 0 sees its left half, rank 1 its right half.

Run:  python average.py                                              # one process, the whole curve
      torchrun --standalone --nproc-per-node=2 average.py            # two ranks, half a curve each
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.utils import parameters_to_vector

from devices import Place, here, report
from yardstick import apart


def mean_gradient(model: nn.Module, x: Tensor, y: Tensor, place: Place) -> Tensor:
    """The mean of all ranks' gradients in one vector, gathered; `.grad` stays as it is."""
    output = model(x)
    loss = nn.functional.mse_loss(output, y)
    gradients = torch.autograd.grad(loss, model.parameters())
    own = parameters_to_vector(gradients)
    of_ranks = [torch.empty_like(own) for _ in range(place.world_size)]
    dist.all_gather(of_ranks, own)
    return torch.stack(of_ranks).mean(0)


def train(model: nn.Module, x: Tensor, y: Tensor, place: Place) -> dict:
    """Fit y (N, 1) to x (N, 1) in 500 steps; returns what `report` shall tell of them."""
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    weights = []
    followed = []
    means = []
    for _ in range(500):
        mean = mean_gradient(model, x, y, place)  # for the check: the goal, worked out separately
        optimizer.zero_grad()
        output = model(x)
        loss = criterion(output, y)
        loss.backward()
        # BEGIN SOLUTION
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= place.world_size
        # STUB # each rank goes its own way: `step` follows its own gradient
        # END SOLUTION
        optimizer.step()

        gradients = [parameter.grad for parameter in model.parameters()]
        followed.append(parameters_to_vector(gradients))
        means.append(mean)
        last_layer = model[2]
        weight = last_layer.weight[0, 0]
        weights.append(weight.item())

    # Was it the mean that `step` followed?
    wanted = torch.stack(means)
    gap = apart(torch.stack(followed), wanted, wrong=0 * wanted)
    return {"loss": loss.item(), "weights": weights, "gap": gap}


@record
def main() -> None:
    place = here()
    limit = timedelta(seconds=60)
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)

    # The same network on every rank, but only a part of the curve for each.
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    model.to(place.device)
    curve = torch.linspace(-3, 3, 200).to(place.device)
    curve = curve.unsqueeze(1)  # (200, 1)
    x = curve.chunk(place.world_size)[place.rank]
    y = torch.sin(x)
    history = train(model, x, y, place)

    # How well does this rank draw the whole curve, with the half that it never saw?
    with torch.no_grad():
        output = model(curve)
    sine = torch.sin(curve)
    error = nn.functional.mse_loss(output, sine).item()
    own_error = history["loss"]
    errors = f"{own_error:.5f} on its own part, {error:.5f} on the whole curve"
    print(f"rank {place.rank}: mean squared error {errors}\n", end="")

    points = curve.flatten().tolist()
    heights = output.flatten().tolist()
    report("average", place, x=points, output=heights, error=error, **history)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
