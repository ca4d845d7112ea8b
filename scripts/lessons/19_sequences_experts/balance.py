"""A router that begins with a favourite expert: does it learn to use the others?

Run:  python balance.py --steps 150
      torchrun --standalone --nproc-per-node=2 balance.py --steps 150
"""

from argparse import ArgumentParser

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.optim import Adam

from devices import Place, here, report, start
from mixture import Mixture

WIDTH = 32
EXPERTS = 4
TOKENS = 512  # of all ranks, in one step
KINDS = 8  # of tokens: each is to be multiplied by a matrix of its own
WEIGHT = 0.05  # of the balance loss


def batch(generator: torch.Generator, centres: Tensor, matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens of all ranks, and what should become of them."""
    kind = torch.randint(KINDS, (TOKENS,), generator=generator)
    noise = torch.randn(TOKENS, WIDTH, generator=generator)
    x = centres[kind] + 0.3 * noise + 0.5
    y = torch.einsum("nd,nde->ne", x, matrices[kind])
    return x, y


def own_rows(whole: Tensor, place: Place) -> Tensor:
    """This rank's share of the rows, on the device where it computes."""
    share = whole.chunk(place.world_size)[place.rank]
    return share.to(place.device)


def balance_loss(counts: Tensor, probabilities: Tensor) -> Tensor:
    """This rank's part of E · Σ f p: 1 for equal loads, E if one expert surely gets all tokens.

    f is the share of all ranks' tokens that go to an expert, p its mean probability. f is counted,
    so it has no gradient; p has one, and it lowers what is chosen often.
    """
    total = counts.clone()
    dist.all_reduce(total)
    share = total / total.sum()
    mean = probabilities.sum(0) / TOKENS
    return EXPERTS * (share * mean).sum()


def train(weight: float, steps: int, place: Place) -> dict:
    """Losses, and the share of the tokens that each expert got, step by step."""
    generator = torch.Generator().manual_seed(2)
    centres = torch.randn(KINDS, WIDTH, generator=generator)
    matrices = torch.randn(KINDS, WIDTH, WIDTH, generator=generator)
    matrices = matrices / WIDTH**0.5
    torch.manual_seed(1)
    model = Mixture(WIDTH, EXPERTS, 1, place.world_size, place.rank)
    with torch.no_grad():
        model.router.weight.normal_(std=0.02)
        model.router.weight[0] += 0.05  # on purpose: expert 0 is everybody's first choice
    model = model.to(place.device)
    optimizer = Adam(model.parameters(), 3e-3)

    losses = []
    loads = []
    for _ in range(steps):
        all_x, all_y = batch(generator, centres, matrices)
        x = own_rows(all_x, place)
        y = own_rows(all_y, place)
        optimizer.zero_grad()
        out = model(x)
        # Parts of sums over all ranks: added up, they are the loss of all tokens.
        squares = (out - y).square()
        error = squares.sum() / (TOKENS * WIDTH)
        balance = balance_loss(model.counts, model.probabilities)
        loss = error + weight * balance
        loss.backward()
        dist.all_reduce(model.router.weight.grad)  # the experts' gradients are whole already
        optimizer.step()

        # What all ranks did, for the report: rows of each expert, and the error.
        counts = model.counts.to(error)
        sums = torch.cat([counts, error.detach()[None]])
        dist.all_reduce(sums)
        *all_counts, whole_error = sums.tolist()
        loads.append([count / TOKENS for count in all_counts])
        losses.append(whole_error)
    return {"losses": losses, "loads": loads, "rows": model.rows}


@record
def main() -> None:
    place = here()
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    args = parser.parse_args()
    start(place)
    weights = {"alone": 0.0, "balanced": WEIGHT}
    runs = {}
    for name, weight in weights.items():
        runs[name] = train(weight, args.steps, place)
        if place.rank == 0:
            last_loads = runs[name]["loads"][-1]
            shares = [f"{share:.2f}" for share in last_loads]
            print(f"{name}: shares of the experts after {args.steps} steps", *shares)
    report("balance", place, runs=runs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
