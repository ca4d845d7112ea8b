"""Rare pictures more often, on several ranks: each rank has its own draw, or a share of one draw.

Run:  torchrun --standalone --nproc-per-node=2 weighted.py
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record
from torch.utils.data import Sampler, WeightedRandomSampler

from devices import Place, here, report, start

COMMON = 90  # pictures 0 to 89
RARE = 10  # pictures 90 to 99: drawn nine times as often each, so half of all draws
DRAWS = 400  # in an epoch


class WeightedShare(Sampler[int]):
    """This rank's share of a weighted draw, which is the same on all ranks.

    Call `set_epoch` before each epoch, as with DistributedSampler. All ranks get equally many.
    """

    def __init__(self, weights: Tensor, draws: int, place: Place, seed: int = 0):
        self.weights = weights
        self.share = draws // place.world_size
        self.place = place
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.share

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        draws = self.share * self.place.world_size
        drawn = torch.multinomial(self.weights, draws, replacement=True, generator=generator)
        mine = drawn[self.place.rank :: self.place.world_size]
        return iter(mine.tolist())


def own_draw(weights: Tensor, seed: int) -> list[int]:
    """The pictures that PyTorch's sampler draws for an epoch."""
    generator = torch.Generator().manual_seed(seed)
    return list(WeightedRandomSampler(weights, DRAWS, generator=generator))


@record
def main() -> None:
    place = here(gpus=0)
    start(place)
    weights = torch.ones(COMMON + RARE, dtype=torch.float64)
    weights[COMMON:] = COMMON / RARE

    drawn = {}
    drawn["a draw each, one seed"] = own_draw(weights, seed=0)
    drawn["a draw each, own seeds"] = own_draw(weights, seed=place.rank)
    sampler = WeightedShare(weights, DRAWS, place)
    for epoch in (0, 1):
        sampler.set_epoch(epoch)
        drawn[f"a share each, epoch {epoch}"] = list(sampler)
    report("weighted", place, drawn=drawn)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
