"""Lesson 10 where its notebook does not look: three ranks, some of them without any sample."""

import pytest
import torch
from ranks import launch

from course import rooms
from devices import Place
from exam import CENTRES, exam

# On three ranks: no sample for one or two of them, and batches of all sizes.
SIZES = [1, 2, 3, 10, 31, 61, 62, 97]

PROGRAM = f"""
import torch, torch.distributed as dist
from devices import here, report
from exact import evaluate, gather, medians
from exam import exam, practise
from join import price
from momentum import train

place = here()
dist.init_process_group("gloo")
model, x, y = exam(place)
model[0].running_mean += place.rank  # as after a training: each rank has statistics of its own
scores = [evaluate(model, x[:n], y[:n], place) for n in {SIZES}]
orders = [gather(torch.arange(n)[place.rank :: place.world_size], place).tolist() for n in {SIZES}]
found = {{way: train(way, place)["ends"] for way in ["SGD, mended", "ZeRO", "ZeRO, mended"]}}
median = medians(model, x, y, place)
mean = model[0].running_mean.tolist()
worn = exam(place)[0]
practise(worn, place)
worn = worn[0].running_mean.tolist()
prices = [price(place, enable) for enable in (False, True)]
numbers = {{"scores": scores, "orders": orders, "found": found, "median": median, "mean": mean}}
numbers |= {{"worn": worn, "prices": prices}}
report("three", place, **numbers)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> list[dict]:
    """What each of three ranks reported."""
    folder = tmp_path_factory.mktemp("three")
    (folder / "three.py").write_text(PROGRAM)
    return launch(folder, 3, "three.py").reports("three", 3)


def by_hand() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The test set's points, classes and losses: the nearer a centre, the larger the score."""
    _, x, y = exam(Place(0, 0, 1, torch.device("cpu"), "gloo"))
    scores = -torch.cdist(x, torch.tensor(CENTRES, dtype=torch.float64)).square() / 2
    losses = -scores.log_softmax(1)[torch.arange(len(y)), y]
    return x, y, losses


def test_an_evaluation_is_exact_even_where_a_rank_has_nothing(three):
    x, y, losses = by_hand()
    correct = torch.cdist(x, torch.tensor(CENTRES, dtype=torch.float64)).argmin(1) == y
    for number, n in enumerate(SIZES):
        right = int(correct[:n].sum())
        for rank in three:
            score = rank["scores"][number]
            assert (score["right"], score["count"]) == (right, n)
            assert score["accuracy"] == right / n
            assert score["loss"] == pytest.approx(losses[:n].mean().item(), rel=1e-9)


def test_an_evaluation_leaves_all_ranks_with_the_model_of_rank_0(three):
    means = [rank["mean"] for rank in three]
    assert means[0] == means[1] == means[2]


def test_a_training_leaves_each_rank_with_statistics_of_its_own(three):
    worn = [rank["worn"] for rank in three]
    assert worn[0] != worn[1] and worn[1] != worn[2] and worn[2] != worn[0]


def test_join_costs_collectives_in_every_step(three):
    for rank in three:
        without, under_join = rank["prices"]
        assert without == 1 < under_join < 10


def test_a_median_is_that_of_all_losses(three):
    losses = by_hand()[2]
    own = [losses[rank::3].median().item() for rank in range(3)]
    for rank in three:
        assert rank["median"]["exact"] == pytest.approx(losses.median().item(), rel=1e-9)
        assert rank["median"]["mean"] == pytest.approx(sum(own) / 3, rel=1e-9)


def test_what_is_gathered_stands_in_the_order_of_the_test_set(three):
    for rank in three:
        assert rank["orders"] == [list(range(n)) for n in SIZES]


def test_mended_shards_follow_the_average_gradient(three):
    """Ranks with 3, 6 and 9 batches, two epochs with momentum: each weight as in one process."""
    w = 0.0
    v = 0.0
    ends = []
    for _ in range(2):
        for step in range(9):
            v = 0.9 * v + sum(2 * (w - (step + 1)) for batches in (3, 6, 9) if step < batches) / 3
            w -= 0.05 * v
        ends.append(w)
    for rank in three:
        for way in ["SGD, mended", "ZeRO, mended"]:
            assert rank["found"][way] == [pytest.approx([end] * 3, rel=1e-12) for end in ends]
        first_epoch = rank["found"]["ZeRO"][0]
        assert first_epoch[2] == pytest.approx(ends[0]), "the last to end has the right gradients"
        assert abs(first_epoch[0] - ends[0]) > 0.01, "the first to end does not"


def test_a_worker_draws_what_no_other_draws_only_if_seeds_and_generators_differ(tmp_path):
    """Three ranks with two workers each, two epochs of eight pictures: 48 changes."""
    command = str(rooms.program("augment"))
    for rank in launch(tmp_path, 3, command).reports("augment", 3):
        assert rank["ways"]["one seed"] == {"torch": 16, "random": 16, "numpy": 16, "own": 4}
        assert rank["ways"]["a seed for each rank"]["own"] == 4
        assert set(rank["ways"]["and worker_init_fn"].values()) == {48} == {rank["pictures"]}


def test_ranks_share_one_weighted_draw_in_equal_parts(tmp_path):
    """400 draws do not go into three: each rank gets 133."""
    ranks = launch(tmp_path, 3, str(rooms.program("weighted"))).reports("weighted", 3)
    weights = torch.ones(100, dtype=torch.float64)
    weights[90:] = 9
    for epoch in (0, 1):
        generator = torch.Generator().manual_seed(epoch)
        drawn = torch.multinomial(weights, 399, replacement=True, generator=generator)
        shares = [rank["drawn"][f"a share each, epoch {epoch}"] for rank in ranks]
        assert shares == drawn.view(133, 3).T.tolist()


def test_a_mapped_file_is_nobody_s_own_memory(tmp_path):
    for rank in launch(tmp_path, 2, str(rooms.program("mapped"))).reports("mapped", 2):
        for way, grown in rank["grown"].items():
            if grown is None:
                pytest.skip("this system does not tell how much memory is a process's own")
            own = grown["Anonymous"] / rank["megabytes"]
            assert own < 0.1 if "mmap" in way else 0.9 < own < 1.2
    assert not (tmp_path / "mapped").exists()
