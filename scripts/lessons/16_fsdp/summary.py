"""Train an encoder–decoder with FSDP to write the first line of a docstring from the rest of it.

Does it read its source? Its loss is also measured with the source of another docstring.

Run:  python summary.py --steps 20
      torchrun --standalone --nproc-per-node=2 summary.py --steps 340
"""

from argparse import ArgumentParser
from collections import Counter

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard
from torch.nn.utils import clip_grad_norm_

from corpus import HELD_OUT
from devices import Place, here, report, start
from encdec import Summarizer
from pretrained import load

BATCH = 48  # pairs of each rank
SCORED = 128  # of the pairs that are held out: for these the model writes the first line
LR = 2e-3
LR_PRETRAINED = 3e-4  # a T5 has learnt already: larger steps would undo that


def ready(place: Place, name: str) -> tuple[nn.Module, dict]:
    """The model, sharded, with a unit for each block; and the numbers of all pairs."""
    data = torch.load("docs.pt")
    torch.manual_seed(0)
    if name:
        model, data = load(name, data)
    else:
        model = Summarizer()
    model.to(place.device)
    mesh = init_device_mesh(place.device.type, (place.world_size,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh), data


@torch.no_grad()
def validate(model: nn.Module, source: Tensor, target: Tensor) -> dict[str, float]:
    """Loss on pairs that are held out, with their own source and with that of the pair before."""
    other = source.roll(1, 0)
    return {"own": model(source, target).item(), "other": model(other, target).item()}


def mean_of_ranks(losses: dict[str, float], place: Place) -> dict[str, float]:
    """Each rank has validated on its own share, all of one size: the mean, on every rank."""
    values = torch.tensor(list(losses.values()), device=place.device)
    dist.all_reduce(values)
    return dict(zip(losses, (values / place.world_size).tolist(), strict=True))


@torch.no_grad()
def write(model: nn.Module, source: Tensor, begin: int, length: int) -> Tensor:
    """The likeliest word after the other."""
    target = torch.full((len(source), length), begin, device=source.device)
    for place in range(1, length):
        guesses = model(source, target[:, :place], guess=True)
        target[:, place] = guesses[:, -1]
    return target


def f1(row: list[int], truth: list[int]) -> float:
    """How many words agree, wherever they are: from 0 to 1."""
    overlap = (Counter(row) & Counter(truth)).total()
    return 2 * overlap / max(1, len(row) + len(truth))


def text(row: Tensor, data: dict) -> list[int]:
    """The words of a row up to its end, without special ones, such as an unknown word."""
    numbers = row.tolist()[1:] if row[0] == data["begin"] else row.tolist()
    if data["end"] in numbers:
        numbers = numbers[: numbers.index(data["end"])]
    return [number for number in numbers if number not in data["special"]]


@record
def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=340)
    parser.add_argument("--every", type=int, default=20, help="steps between two validations")
    parser.add_argument("--model", default="", help="a T5 of Hugging Face, as t5-small")
    args = parser.parse_args()
    place = here()
    if place.backend == "gloo":
        place = place._replace(device=torch.device("cpu"))  # also where ranks share a GPU
    start(place)
    model, data = ready(place, args.model)
    source = data["source"].to(place.device)
    target = data["target"].to(place.device)
    share = slice(place.rank, HELD_OUT, place.world_size)  # of what is held out, for this rank
    held_source = source[share]
    held_target = target[share]

    lr = LR_PRETRAINED if args.model else LR
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.05)
    torch.manual_seed(100 + place.rank)  # each rank draws its own pairs
    curve = {}
    for step in range(args.steps + 1):
        if step % args.every == 0 or step == args.steps:
            curve[step] = mean_of_ranks(validate(model, held_source, held_target), place)
            if place.rank == 0 and step % (4 * args.every) == 0:
                losses = "{own:.2f}, with another's source {other:.2f}".format(**curve[step])
                print(f"step {step}: validation loss {losses}")
        if step == args.steps:
            break
        optimizer.param_groups[0]["lr"] = lr * min(1, (step + 1) / 50)
        rows = torch.randint(HELD_OUT, len(source), (BATCH,)).to(place.device)
        optimizer.zero_grad()
        model(source[rows], target[rows]).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    scored = SCORED // place.world_size  # by each rank
    written = write(model, held_source[:scored], data["begin"], held_target.shape[1])
    texts = [text(row, data) for row in written]
    truths = [text(row, data) for row in held_target[:scored]]
    leads = [text(row, data)[:8] for row in held_source[:scored]]
    scores = {}
    for name, rows in {"model": texts, "first words of the source": leads}.items():
        total = sum(f1(*each) for each in zip(rows, truths, strict=True))
        total = torch.tensor(total, device=place.device)
        dist.all_reduce(total)
        scores[name] = total.item() / (scored * place.world_size)
    examples = []
    for each in range(4):
        named = [texts[each], truths[each]]
        examples.append([" ".join(data["vocabulary"][number] for number in row) for row in named])
    report("summary", place, curve=curve, scores=scores, examples=examples, pairs=len(source))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
