"""Lesson 24 where its notebook does not look.

The rule and its table of t, the clock, the order of the pictures, what both sides of a comparison
are tested on, and the record's method, whose steps are checked one by one.
"""

import json
from itertools import islice
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from ranks import SEVERAL, launch
from torch import nn

import clocked
import judge
import optimizers
import sprint
import sprinter
import whitelayers
import whitened
from devices import Place
from ingredients import SWITCHES, factor, network, parse, side
from loader import Pictures, normalise
from model import count
from shapes import generate
from sprinter import Sprint, stream

CPU = torch.device("cpu")
ONLY = Place(0, 0, 1, CPU, "gloo")


@pytest.fixture
def group():
    """A process group of this process alone."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def pictures(count: int) -> Pictures:
    """Generated pictures, without a file."""
    made = object.__new__(Pictures)
    made.x, made.y = generate(count, 1)["train"]
    made.source = "generated pictures"
    return made


# From the tables of Student's t, one-sided: pairs, chance, t.
@pytest.mark.parametrize(
    ("pairs", "chance", "t"),
    [(2, 0.05, 6.314), (3, 0.05, 2.920), (6, 0.05, 2.015), (6, 0.005, 4.032), (11, 0.01, 2.764)],
)
def test_t_is_that_of_the_tables(pairs: int, chance: float, t: float) -> None:
    assert judge.needed(pairs, chance) == pytest.approx(t, abs=6e-4)
    assert judge.tail(t, pairs - 1) == pytest.approx(chance, rel=2e-3)


@pytest.mark.parametrize("kind", ["normal", "strays"])
def test_at_most_five_per_cent_of_whole_waterfalls_keep_what_does_nothing(kind: str) -> None:
    """Beside it, what people do: better on average."""
    waterfalls = 40_000
    hits = judge.kept_any(judge.keeps, waterfalls, 14, 6, kind)
    low, high = judge.interval(hits, waterfalls)
    assert 0.03 < low <= 0.05 and high < 0.053
    assert judge.kept_any(judge.naive, 2000, 14, 6, kind) > 1900


def test_a_real_gain_is_kept_and_one_that_starts_badly_is_given_up() -> None:
    good = torch.tensor([2.0, 2.2, 1.9, 2.1, 2.0, 1.8])
    late = torch.tensor([-0.1, -0.1, 0.1, 9.0, 9.0, 9.0])
    assert judge.keeps(good, 14) and not judge.keeps(-good, 14)
    assert judge.naive(late, 14) and not judge.keeps(late, 1)


def test_wilsons_interval_is_that_of_the_textbooks() -> None:
    assert judge.interval(0, 10) == (pytest.approx(0, abs=1e-9), pytest.approx(0.2775, abs=1e-4))
    assert judge.interval(50, 100) == (
        pytest.approx(0.4038, abs=1e-4),
        pytest.approx(0.5962, abs=1e-4),
    )


def test_the_rate_goes_up_for_a_quarter_of_the_seconds_and_ends_at_zero() -> None:
    way = parse("cycle@0.2")
    shares = [0, 0.125, 0.25, 0.625, 1, 1.05]
    assert [factor(way, share) for share in shares] == pytest.approx([0.1, 0.55, 1, 0.5, 0, 0])
    assert [factor(parse("plain"), share) for share in shares] == [1] * 6


def test_pictures_are_small_at_first_only_if_the_switch_is_on() -> None:
    assert [side(parse("sizes"), share) for share in (0, 0.49, 0.5, 1)] == [24, 24, 32, 32]
    assert side(parse("cycle"), 0) == 32


def test_a_way_is_read_from_its_name() -> None:
    way = parse("batches+resnet@0.25:7")
    assert way == ({"batches", "resnet"}, 0.25, 7) and way.batch_size == 256
    assert parse("plain") == (set(), 0.05, 0) and parse("plain").batch_size == 128
    with pytest.raises(ValueError, match="no switch turbo"):
        parse("batches+turbo")


def test_ranks_share_each_epoch_and_the_seed_decides_about_the_order() -> None:
    places = [Place(rank, rank, 2, CPU, "gloo") for rank in range(2)]
    ranks = [list(islice(stream(21, 4, 3, place), 4)) for place in places]
    for epoch in (slice(0, 2), slice(2, 4)):
        seen = torch.cat([torch.cat(own[epoch]) for own in ranks])
        assert len(seen.unique()) == 16  # whole batches of 4 on two ranks, no picture twice
    assert not torch.equal(ranks[0][0], ranks[0][2])
    assert not torch.equal(ranks[0][0], next(stream(21, 4, 4, places[0])))


def test_the_clock_looks_at_every_step_on_a_cpu_and_at_every_eighth_on_a_gpu(
    group, monkeypatch
) -> None:
    watch = iter(range(100))
    monkeypatch.setattr(clocked, "time", SimpleNamespace(perf_counter=lambda: next(watch)))
    clock = clocked.Clock(10, ONLY)
    assert [clock.share() for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    clock.every = 8
    clock.steps = 0
    assert len({clock.share() for _ in range(8)}) == 1 and clock.share() > 0.4


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> tuple[list[dict], list[dict], list[dict]]:
    """What two ranks of different speed left: their looks at the clock, sprints, a record."""
    folder = tmp_path_factory.mktemp("sprint")
    (folder / "data").mkdir()
    torch.save(generate(2048, 300), folder / "data" / "generated.pt")
    ways = ["batches+cycle+resnet+last+views+fused+smooth+sizes+ema+wide:1", "plain:1", "plain:2"]
    options = "--seconds 0.6 --points 2 --validation --lines lines --ways"
    record = "whitened --epochs 2 --widths 8 8 8"
    ended = launch(folder, 2, SEVERAL, "clocked", f"sprint {options} {' '.join(ways)}", record)
    lines = [json.loads(line) for line in (folder / "lines").read_text().splitlines()]
    assert [line["way"] for line in lines] == ways
    return tuple(ended.reports(str(number), 2) for number in range(3))


def test_all_ranks_stop_at_the_same_look_at_the_clock(two) -> None:
    assert two[0][0]["looks"] == two[0][1]["looks"] > 3


def test_all_ranks_do_the_same_steps_and_tell_the_same_score(two) -> None:
    ours = two[1][0]["runs"]
    theirs = two[1][1]["runs"]
    assert ours == theirs
    assert all(run["seconds"] >= 0.6 and run["steps"] > 0 for run in ours)
    assert all(len(run["curve"]) == 2 and run["curve"][0]["seconds"] >= 0.3 for run in ours)
    assert two[1][0]["pictures"] == 205  # the last tenth of 2,048


def test_the_record_runs_on_two_ranks(two) -> None:
    assert two[2][0]["steps"] == 4 and len(two[2][0]["curve"]) == 2


def test_validation_trains_on_none_of_the_pictures_that_it_tests(monkeypatch) -> None:
    monkeypatch.setattr(sprint, "Pictures", lambda train, size=None: pictures(50))
    train_set, test_set = sprint.split(None, True)
    whole = pictures(50)
    assert (len(train_set), len(test_set)) == (45, 5)
    assert torch.equal(torch.cat([train_set.x, test_set.x]), whole.x)
    assert torch.equal(torch.cat([train_set.y, test_set.y]), whole.y)


def test_the_seed_decides_about_the_weights_too(group) -> None:
    made = pictures(8)
    trainings = [Sprint(parse(f"plain:{seed}"), made, ONLY) for seed in (1, 1, 2)]
    weights = [each.model[0].weight for each in trainings]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_a_do_nothing_is_the_same_training(group) -> None:
    made = pictures(256)
    models = []
    for name in ("batches", "batches+nothing"):
        training = Sprint(parse(f"{name}:5"), made, ONLY)
        for chosen in islice(stream(256, 64, 5, ONLY), 3):
            training.step(chosen, 0.3)
        models.append(nn.utils.parameters_to_vector(training.model.parameters()))
    assert torch.equal(*models)


def moved(way: str, share: float) -> torch.Tensor:
    """How far one step moves the weights, when this share of the seconds is over."""
    training = Sprint(parse(way), pictures(16), ONLY)
    before = nn.utils.parameters_to_vector(training.model.parameters()).detach().clone()
    training.step(torch.arange(16), share)
    return nn.utils.parameters_to_vector(training.model.parameters()).detach() - before


def test_a_step_is_as_long_as_the_cycle_says(group) -> None:
    first = moved("batches+cycle@0.1:1", 0)
    top = moved("batches+cycle@0.1:1", 0.25)
    last = moved("batches+cycle@0.1:1", 1)
    assert torch.allclose(10 * first, top, rtol=1e-3, atol=1e-6) and top.abs().max() > 1e-4
    assert not last.any()


def conv(layout: torch.memory_format) -> nn.Conv2d:
    """A convolution in this layout, the same weights each time."""
    torch.manual_seed(4)
    return nn.Conv2d(3, 8, 3, bias=False).to(memory_format=layout)


def muon_step(layout: torch.memory_format, of_gradient: torch.memory_format) -> torch.Tensor:
    """What one step of Muon takes away from the weights (8, 3, 3, 3), in units of its rate."""
    layer = conv(layout)
    before = layer.weight.detach().clone()
    _, muon = optimizers.optimizers_of(nn.Sequential(layer, nn.Linear(2, 2)), True, None)
    made = torch.randn(before.shape, generator=torch.Generator().manual_seed(1))
    layer.weight.grad = made.contiguous(memory_format=of_gradient)
    muon.take_gradients()
    (group,) = muon.param_groups
    group["weight_decay"] = 0.0
    muon.step()
    return (before - layer.weight.detach()) / group["lr"]


def test_muon_moves_all_directions_by_about_as_much_and_goes_down() -> None:
    contiguous = torch.contiguous_format
    step = muon_step(contiguous, contiguous).flatten(1)
    sizes = torch.linalg.svdvals(step)
    assert 0.5 < sizes.min() < sizes.max() < 1.5  # Muon's own bounds
    gradient = torch.randn(step.shape, generator=torch.Generator().manual_seed(1))
    assert (step * gradient).sum() > 0
    assert torch.linalg.svdvals(gradient).max() > 1.5  # the yardstick, shown a plain gradient


def test_muon_takes_the_same_step_in_every_layout_of_weights_and_gradients() -> None:
    layouts = (torch.contiguous_format, torch.channels_last)
    steps = [muon_step(mine, of_gradient) for mine in layouts for of_gradient in layouts]
    assert all(torch.allclose(steps[0], step, atol=0.02) for step in steps)  # in 16 bits
    assert not torch.allclose(steps[0], steps[0].flip(1), atol=0.02)


def test_muon_is_for_convolutions_and_sgd_for_all_else() -> None:
    model = network(parse("resnet"))
    sgd, muon = optimizers.optimizers_of(model, True, None)
    convolutions = sum(weight.numel() for weight in model.parameters() if weight.dim() == 4)
    counts = []
    for optimizer in (muon, sgd):
        counts.append(sum(p.numel() for p in optimizer.param_groups[0]["params"]))
    assert counts[0] == convolutions and sum(counts) == count(model)
    (alone,) = optimizers.optimizers_of(model, False, None)
    assert len(alone.param_groups[0]["params"]) == len(list(model.parameters()))


def test_each_optimizer_gets_its_share_of_the_rate(group) -> None:
    training = Sprint(parse("batches+resnet+muon@0.4:1"), pictures(16), ONLY)
    training.step(torch.arange(16), 0.25)
    rates = [optimizer.param_groups[0]["lr"] for optimizer in training.optimizers]
    assert rates == pytest.approx([0.4, 0.04])


def test_each_rank_draws_shifts_of_its_own(group) -> None:
    drawn = []
    for rank in (0, 1):
        Sprint(parse("plain:3"), pictures(4), Place(rank, rank, 2, CPU, "gloo"))
        drawn.append(torch.rand(4))
    assert not torch.equal(*drawn)


def test_all_ranks_test_with_the_statistics_of_rank_0(group, monkeypatch) -> None:
    """Rank 1, whose own statistics have become useless; the broadcast brings those of rank 0."""
    made = pictures(40)
    training = Sprint(parse("batches+resnet+views"), made, ONLY)
    wanted = training.evaluate(made)
    of_rank_0 = [each.clone() for each in training.model.buffers()]
    for each in training.model.buffers():
        each.zero_().sub_(1)
    brought = iter(of_rank_0)
    monkeypatch.setattr(sprinter.dist, "broadcast", lambda own, src: own.copy_(next(brought)))
    assert training.evaluate(made) == wanted


def test_the_seconds_of_a_test_do_not_count(group, monkeypatch) -> None:
    now = [0.0]

    def takes(seconds: float):
        def passes(*_: object) -> dict:
            now[0] += seconds
            return {"plain": 0.5, "mirrored": 0.5}

        return passes

    for module in (clocked, sprinter):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    made = pictures(400)
    training = Sprint(parse("batches"), made, ONLY)
    monkeypatch.setattr(training, "step", takes(1))
    monkeypatch.setattr(training, "evaluate", takes(100))
    run = training.run(clocked.Clock(10, ONLY), made, 2)
    assert [point["seconds"] for point in run["curve"]] == [5, 10] and run["steps"] == 10
    assert run["pace"] == 128


@pytest.mark.parametrize("switch", sorted(set(SWITCHES) - {"compile", "warm"}))
def test_every_switch_can_be_used(switch: str, group) -> None:
    made = pictures(16)
    names = "resnet" if switch == "sizes" else "batches"
    training = Sprint(parse(f"{names}+{switch}"), made, ONLY)
    before = [each.detach().clone() for each in training.model.parameters()]
    training.step(torch.arange(8), 0.2)
    after = list(training.model.parameters())
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert 0 <= training.evaluate(made)["mirrored"] <= 1


def test_both_scores_are_what_one_works_out_by_hand(group) -> None:
    made = pictures(40)
    training = Sprint(parse("batches"), made, ONLY)
    training.model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))  # its answers differ
    found = training.evaluate(made)
    with torch.no_grad():
        x = normalise(made.x)
        plain = training.model(x)
        both = plain + training.model(torch.flip(x, [3]))
    wanted = [(scores.argmax(1) == made.y).double().mean().item() for scores in (plain, both)]
    assert [found["plain"], found["mirrored"]] == pytest.approx(wanted)
    assert plain.argmax(1).ne(both.argmax(1)).any()


def test_the_average_of_the_weights_is_tested_and_not_the_weights(group) -> None:
    made = pictures(30)
    training = Sprint(parse("batches+ema:1"), made, ONLY)
    training.step(torch.arange(30), 0.5)
    before = training.evaluate(made)
    with torch.no_grad():
        for each in training.model.parameters():
            each.zero_()
    assert training.evaluate(made) == before


def test_the_larger_network_is_larger() -> None:
    sizes = [
        sum(p.numel() for p in network(parse(name)).parameters())
        for name in ("plain", "resnet", "resnet+wide")
    ]
    assert sizes == [62_006, 205_770, sizes[2]] and sizes[2] > 2 * sizes[1]


def test_whitening_makes_patches_uncorrelated_and_of_equal_size() -> None:
    x = normalise(pictures(200).x)
    layer = nn.Conv2d(3, 24, 2)
    nn.init.zeros_(layer.bias)
    whitelayers.whiten(layer, x)
    out = layer(x).transpose(0, 1).flatten(1)
    moments = out @ out.T / out.shape[1]
    assert torch.allclose(moments[:12, :12], torch.eye(12), atol=0.02)
    assert torch.allclose(moments[:12, 12:], -moments[:12, :12])


def test_biases_of_the_records_batchnorm_learn_64_times_as_fast() -> None:
    model = whitelayers.Whitened((4, 4, 4))
    others, biases, white = whitelayers.groups_of(model)
    assert biases["top"] == 64 * others["top"] == 64 * white["top"]
    assert len(biases["params"]) == 6 and len(others["params"]) == 7
    assert white["params"] == [model.white.bias] and not model.white.bias.any()
    assert [each["lr"] * each["weight_decay"] for each in (others, biases)] == [0.002, 0.002]


def test_convolutions_begin_as_the_identity() -> None:
    layer = whitelayers.convolution(4, 10)
    x = torch.randn(2, 4, 8, 8)
    assert torch.allclose(layer(x)[:, :4], x)


def test_a_shift_moves_by_two_pixels_at_most() -> None:
    torch.manual_seed(0)
    x = torch.arange(32.0).expand(64, 3, 32, 32).clone()
    middles = whitelayers.shifted(x)[:, 0, 16, 16]
    assert set(middles.tolist()) == {14.0, 15.0, 16.0, 17.0, 18.0}


def test_six_views_weigh_as_much_as_the_paper_says() -> None:
    total = whitelayers.views(lambda x: torch.ones(len(x), 10), torch.zeros(2, 3, 32, 32))
    assert total.tolist() == [[8.0] * 10] * 2
    for column in (0, 1):  # one is at the edge in the picture itself, the other in both shifts
        x = torch.zeros(1, 3, 32, 32)
        x[..., column] = 1
        assert whitelayers.views(lambda x: x[:, 0, 5, :1], x).item() == 2.0


def test_slow_weights_take_over_at_the_end(group) -> None:
    training = whitened.Training(ONLY, [4, 4, 4], torch.randn(8, 3, 32, 32), steps=10)
    slow = [each.clone() for each in training.slow]
    with torch.no_grad():
        training.model.head.weight += 1
    training.look_ahead(0.5)
    assert torch.allclose(training.model.head.weight, slow[-1] + 0.5)
    training.look_ahead(1.0)
    assert torch.allclose(training.model.head.weight, slow[-1] + 0.5)


def test_the_records_rate_starts_at_a_fifth_and_ends_at_seven_hundredths(group) -> None:
    training = whitened.Training(ONLY, [4, 4, 4], torch.randn(8, 3, 32, 32), steps=100)
    rates = []
    for training.done in (0, 23, 100):
        training.rates(0)
        rates.append(training.optimizer.param_groups[0]["lr"] / 1.5)
    assert rates == pytest.approx([0.2, 1, 0.07])
    training.rates(whitened.WHITE_EPOCHS)
    assert training.optimizer.param_groups[2]["lr"] == 0


def test_every_second_epoch_of_the_record_sees_the_other_side(group, monkeypatch) -> None:
    seen = []
    monkeypatch.setattr(whitened, "BATCH", 8)
    monkeypatch.setattr(whitened, "shifted", lambda x: x)
    made = pictures(8)
    training = whitened.Training(ONLY, [4, 4, 4], normalise(made.x), steps=99)
    run = training.ddp_model.forward
    monkeypatch.setattr(training.ddp_model, "forward", lambda x: seen.append(x) or run(x))
    for number in (0, 1, 2):
        training.epoch(made, number, seed=0)
    kinds = [x.sort(0).values for x in seen]
    assert torch.equal(kinds[0], kinds[2]) and torch.equal(kinds[0].flip(3), kinds[1])
