"""Train an encoder–decoder with FSDP to write the first line of a docstring from the rest of it.

Does it read its source? Its loss is also measured with the source of another docstring.

Run:  python summary.py --steps 20
      torchrun --standalone --nproc-per-node=2 summary.py --steps 340
"""

from argparse import ArgumentParser

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard
from torch.nn.utils import clip_grad_norm_

from corpus import HELD_OUT, f1, readable, text
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


def of_others(source: Tensor) -> Tensor:
    """For each pair the source of the pair before."""
    return source.roll(1, 0)


@torch.no_grad()
def validate(model: nn.Module, own: Tensor, other: Tensor, target: Tensor) -> dict[str, float]:
    """Loss on pairs that are held out, with their own sources and with those of other pairs."""
    return {"own": model(own, target).item(), "other": model(other, target).item()}


def count_words(target: Tensor, pad: int) -> int:
    """How many words a loss is the mean of: all of a target but the first, which is given."""
    is_word = target[:, 1:] != pad
    return int(is_word.sum())


def mean_of_ranks(losses: dict[str, float], words: int, place: Place) -> dict[str, float]:
    """The losses on all ranks' words, on every rank. Each rank's own are means of its `words`."""
    sums = [loss * words for loss in losses.values()]
    totals = torch.tensor([*sums, words], dtype=torch.float64, device=place.device)
    dist.all_reduce(totals)
    means = totals[:-1] / totals[-1]
    return dict(zip(losses, means.tolist(), strict=True))


@torch.no_grad()
def write(model: nn.Module, source: Tensor, begin: int, length: int) -> Tensor:
    """The likeliest word after the other."""
    target = torch.full((len(source), length), begin, device=source.device)
    for place in range(1, length):
        guesses = model(source, target[:, :place], guess=True)
        target[:, place] = guesses[:, -1]
    return target


def mean_f1(rows: list[list[int]], truths: list[list[int]], place: Place) -> float:
    """The mean over the texts of all ranks, which have equally many."""
    total = 0.0
    for row, truth in zip(rows, truths, strict=True):
        total += f1(row, truth)
    sum_of_ranks = torch.tensor(total, device=place.device)
    dist.all_reduce(sum_of_ranks)
    texts = len(rows) * place.world_size
    return sum_of_ranks.item() / texts


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
    held_other = of_others(source[:HELD_OUT])[share]
    held_target = target[share]
    held_words = count_words(held_target, data["pad"])

    lr = LR_PRETRAINED if args.model else LR
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.05)
    torch.manual_seed(100 + place.rank)  # each rank draws its own pairs
    curve = {}
    for step in range(args.steps + 1):
        if step % args.every == 0 or step == args.steps:
            losses = validate(model, held_source, held_other, held_target)
            curve[step] = mean_of_ranks(losses, held_words, place)
            if place.rank == 0 and step % (4 * args.every) == 0:
                both = "{own:.2f}, with another's source {other:.2f}".format(**curve[step])
                print(f"step {step}: validation loss {both}")
        if step == args.steps:
            break
        warmup = min(1, (step + 1) / 50)
        optimizer.param_groups[0]["lr"] = lr * warmup
        rows = torch.randint(HELD_OUT, len(source), (BATCH,)).to(place.device)
        optimizer.zero_grad()
        loss = model(source[rows], target[rows])
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    scored = SCORED // place.world_size  # by each rank
    written = write(model, held_source[:scored], data["begin"], held_target.shape[1])
    texts = [text(row, data) for row in written]
    truths = [text(row, data) for row in held_target[:scored]]
    leads = [text(row, data)[:8] for row in held_source[:scored]]
    scores = {
        "model": mean_f1(texts, truths, place),
        "first words of the source": mean_f1(leads, truths, place),
    }
    examples = []
    for number in range(4):
        examples.append([readable(texts[number], data), readable(truths[number], data)])
    report("summary", place, curve=curve, scores=scores, examples=examples, pairs=len(source))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
