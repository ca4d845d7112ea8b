"""The speed-run without its trainings: what is kept, what is trained again, what is written."""

import io
import json
import math
import random
from argparse import Namespace
from pathlib import Path

import pytest
from tqdm import tqdm

from course.measure import machine
from course.measure.speedrun import __main__ as speedrun
from course.measure.speedrun import final, runs
from course.measure.speedrun.runs import Runs
from course.measure.speedrun.search import Search, search
from course.measure.speedrun.waterfall import (
    CANDIDATES,
    MOST,
    START,
    TRIES,
    Candidate,
    errors_at,
    joined,
    longest,
    ratio,
    recipe_of,
    waterfall,
)

SEEDS = 4
FEW = [Candidate("batches"), Candidate("nothing"), Candidate("cycle", (1.0, 2.0, 4.0))]


class Made(Runs):
    """Trainings whose scores are made up: some points for each switch, and noise."""

    def __init__(self, gains: dict[str, float], noise: float = 1.0, seed: int = 0):
        self.gains = gains
        self.noise = noise
        self.rng = random.Random(seed)
        self.ways: list[str] = []

    def make(self, ways: list[str], together: int = 1) -> list[dict]:
        self.ways += ways
        runs = []
        for way in ways:
            recipe, _, rate = way.partition(":")[0].partition("@")
            points = 50 + sum(self.gains.get(name, 0) for name in recipe.split("+"))
            right = points + self.rng.gauss(0, self.noise)
            run = {"way": way, "lr": float(rate), "mirrored": right / 100}
            runs.append(run | {"pace": 1000.0, "seconds": 10.0})
        return runs


def test_what_helps_is_kept_and_a_do_nothing_is_left_out(capsys) -> None:
    made = Made({"batches": 9, "cycle": 8}, noise=0.3)
    rows = waterfall(made, FEW, SEEDS)
    assert [row["kept"] for row in rows] == [True, False, True]
    assert rows[0]["low"] > 0 and rows[0]["error"] == pytest.approx([50, 41], abs=1)
    recipe, rate = recipe_of(rows)
    assert recipe == "batches+cycle" and rate == rows[2]["rates"][1]
    assert capsys.readouterr().out.count("kept") == 2


def test_the_next_candidate_begins_with_what_was_kept_and_with_fresh_seeds() -> None:
    made = Made({"batches": 9}, noise=0.1)
    waterfall(made, FEW, SEEDS)
    last = [way for way in made.ways if "cycle" in way]
    assert all(way.startswith("batches+cycle@") for way in last)
    own = []
    for name in ("nothing", "cycle"):
        own.append({way.partition(":")[2] for way in made.ways if name in way})
    assert own[1] - {"900", "901"} and not own[0] & own[1]


def test_a_rate_is_tried_equally_often_for_the_start_and_for_what_learns_otherwise() -> None:
    made = Made({"batches": 9}, noise=0.1)
    rows = waterfall(made, FEW, SEEDS)
    tries = [way.partition("@")[0] for way in made.ways if way[-4:] in (":900", ":901")]
    assert tries[:6] == 6 * ["plain"] and {"batches", "batches+cycle"} == set(tries) - {"plain"}
    assert tries.count("batches") == tries.count("batches+cycle") >= 6  # both sides
    assert [side["tries"] for side in rows[2]["search"]] == 2 * [tries.count("batches") / 2]
    assert all(len(each.rates or each.times) in (1, 3) for each in CANDIDATES)


def test_a_rate_is_the_best_in_the_mean_of_both_seeds() -> None:
    scores = {"plain@1:900": 60, "plain@1:901": 30, "plain@2:900": 50, "plain@2:901": 45}

    class Fixed:
        def make(self, ways: list[str], together: int = 1) -> list[dict]:
            return [{"mirrored": scores[way] / 100} for way in ways]

    assert errors_at(Fixed(), "plain", [1.0, 2.0]) == pytest.approx([55, 52.5])
    assert errors_at(Fixed(), "plain", [1.0, 2.0], seeds=1) == pytest.approx([40, 50])


def bowl(best: float):
    """Errors that are fewest at this rate."""
    return lambda rates: [10 + abs(math.log2(rate / best)) for rate in rates]


@pytest.mark.parametrize("best", [0.001, 0.03, 0.11, 0.9])
@pytest.mark.parametrize("worse", [1, 2])
def test_a_search_goes_on_until_the_best_rate_lies_inside(best: float, worse: int) -> None:
    side = Search([0.03, 0.06, 0.12], bowl(best))
    search([side], worse, 30)
    assert side.inside(worse) and abs(math.log2(side.best / best)) <= 0.51
    rates = sorted(side.tried)
    at = rates.index(side.best)
    assert worse <= at < len(rates) - worse and min(side.tried.values()) == side.tried[side.best]


def test_both_sides_search_as_long_as_the_slower_one_and_not_for_ever() -> None:
    near = Search([0.03, 0.06, 0.12], bowl(0.06))
    far = Search([0.03, 0.06, 0.12], bowl(1.0))
    search([near, far], 2, 30)
    assert near.tries == far.tries == len(near.tried) and near.inside(2) and far.inside(2)
    assert min(abs(rate - 0.06) for rate in set(near.tried) - {0.06}) < 0.03  # between two
    falling = Search([1.0], lambda rates: [1 / rate for rate in rates])
    search([falling], 2, 7)
    assert falling.tries == 7 and not falling.inside(2) and falling.best == 32
    assert falling.told(2) | {"tried": {}} == {"inside": False, "tries": 7, "tried": {}}


def test_sides_that_begin_with_unequal_tries_are_refused() -> None:
    sides = [Search([1.0, 2.0], bowl(1)), Search([], bowl(1), known={1.0: 10}, spent=2)]
    with pytest.raises(ValueError, match=r"not equal: \[2, 3\] tries"):
        search(sides, 1, 9)


def test_the_race_gives_both_sides_as_many_tries_and_takes_the_best_recipe() -> None:
    made = Made({"muon": 5, "resnet": 10}, noise=0.1)
    recipes = ["resnet", "resnet+bits", "resnet+wide", "resnet+muon"]
    ways, sides = final.searched(made, recipes, 0.28)
    assert ways[1].startswith("resnet+muon@") and ways[0].startswith(f"{final.TUTORIAL}@")
    theirs = [way for way in made.ways if way.startswith(final.TUTORIAL)]
    assert len(theirs) == len(made.ways) - len(theirs) == sides[0].tries == sides[1].tries
    assert all(way.endswith(":900") for way in made.ways)  # seeds that no comparison uses


def test_what_pays_only_later_gets_longer_trainings_in_which_both_sides_choose() -> None:
    few = [Candidate("batches"), Candidate("resnet", rates=(0.1, 0.2, 0.4), long=True)]
    few += [Candidate("sizes", needs="resnet"), Candidate("nothing")]
    short = Made({"batches": 9}, noise=0.1)
    long = Made({"resnet": 9}, noise=0.1)
    rows = waterfall(short, few, SEEDS, long)
    assert [row["kept"] for row in rows] == [True, True, False, False]
    assert [row["long"] for row in rows] == [False, True, False, False]
    tries = [way.partition("@")[0] for way in long.ways if way.endswith(":900")]
    assert tries[:6] == 3 * ["batches"] + 3 * ["batches+resnet"]
    assert tries.count("batches") == tries.count("batches+resnet") == len(tries) / 2 <= MOST
    assert len(long.ways) == len(tries) + 2 * SEEDS
    assert any("resnet+sizes" in way for way in short.ways)
    made = len(set(short.ways)) + len(set(long.ways))
    assert made <= longest(few, SEEDS)


def test_what_a_long_training_chose_says_nothing_of_short_ones() -> None:
    few = [Candidate("resnet", rates=(0.1, 0.2, 0.4), long=True), Candidate("nothing")]
    [alone] = waterfall(Made({}, noise=0.1), few[1:], SEEDS)
    rates = set()
    for seed in range(5):
        long = Made({"resnet": -9}, noise=0.1, seed=seed)
        left_out, after = rows = waterfall(Made({}, noise=0.1), few, SEEDS, long)
        assert after["rates"] == alone["rates"] and recipe_of(rows[:1])[1] == START.rates[0]
        rates.add(left_out["rates"][0])
    assert len(rates) > 1  # in long trainings the base chose others


def test_what_needs_a_switch_that_was_left_out_is_not_tried(capsys) -> None:
    few = [Candidate("resnet"), Candidate("sizes", needs="resnet"), Candidate("nothing")]
    made = Made({"resnet": -9}, noise=0.1)
    assert [row["row"] for row in waterfall(made, few, SEEDS)] == ["resnet", "nothing"]
    assert "sizes         needs resnet: not tried" in capsys.readouterr().out


def test_no_comparison_uses_a_seed_that_chose_a_rate() -> None:
    made = Made({}, noise=0.1)
    waterfall(made, [Candidate(f"idle{number}") for number in range(13)], 6)
    used = {int(way.partition(":")[2]) for way in made.ways if not way.startswith("plain@")}
    assert len(used) >= 13 * 3 and not used & set(TRIES)


def test_a_hopeless_change_ends_after_three_pairs() -> None:
    made = Made({"batches": -9}, noise=0.1)
    (row,) = waterfall(made, FEW[:1], 6)
    assert len(row["differences"]) == 3 and not row["kept"]
    begun = [way for way in made.ways if way[-4:] in (":900", ":901")]
    assert len(made.ways) == len(begun) + 6 < longest(FEW[:1], 6)


def test_hardly_a_whole_waterfall_of_do_nothings_keeps_one(capsys) -> None:
    idle = [Candidate(name) for name in ("batches", "last", "fused", "views", "nothing")]
    kept = 0
    for number in range(300):
        kept += any(row["kept"] for row in waterfall(Made({}, seed=number), idle, SEEDS))
    assert kept <= 24  # 15 on average at the level of the rule


def test_only_what_is_missing_is_trained(tmp_path: Path, monkeypatch) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"way": "plain@1:1", "lr": 1}) + '\n{"way": "plain@1:2", "l')
    commands = []

    def sprint(self, command: list[object], cache: Path) -> None:
        words = [*map(str, command)]
        commands.append(words)
        with log.open("a") as lines:
            for way in words[words.index("--ways") + 1 :]:
                lines.write(json.dumps({"way": way}) + "\n")

    monkeypatch.setattr(Runs, "sprint", sprint)
    bar = tqdm(file=io.StringIO())
    trained = Runs(log, tmp_path, bar, "--seconds", 3)
    ways = ["plain@1:1", "plain@1:2", "compile@1:1", "last@1:1"]
    assert [run["way"] for run in trained.make(ways)] == ways
    told = [[word for word in command if "@" in word] for command in commands]
    assert told == [["plain@1:2"], ["compile@1:1"], ["last@1:1"]]  # in order, each side alone
    assert commands[0][:2] == ["--seconds", "3"] and bar.n == 4
    trained.make(ways)
    assert len(commands) == 3
    trained.make(["last@1:2", "plain@1:3"])
    assert ["--settle" in command for command in commands] == 3 * [False] + [True]
    trained.make(["last@1:2", "plain@1:4"], together=2)
    assert {"last@1:2", "plain@1:4"} <= set(commands[-1])  # a pair stands side by side
    assert not [*tmp_path.glob("cold-*")]


def test_the_two_sides_of_a_pair_take_turns_in_an_order_that_is_drawn() -> None:
    made = Made({"b": 9}, noise=0.1)
    pairs = made.pairs(["a@1", "b@1"], [*range(20)])
    assert [[run["way"] for run in pair] for pair in pairs] == [
        [f"a@1:{seed}", f"b@1:{seed}"] for seed in range(20)
    ]
    for seed, pair in enumerate(zip(made.ways[::2], made.ways[1::2], strict=True)):
        assert sorted(pair) == [f"a@1:{seed}", f"b@1:{seed}"]
    assert 4 < sum(way.startswith("a") for way in made.ways[::2]) < 16
    made.ways.clear()
    made.pairs(["a@1", "b@1"], [1, 2, 3])  # those of the race
    assert {way[0] for way in made.ways[::2]} == {"a", "b"}


def test_the_race_leaves_out_what_needs_a_switch_that_was_not_kept() -> None:
    assert final.fitting("batches+cycle", final.SMALL) == "batches+cycle"
    whole = final.fitting("resnet+last+batches", final.LARGE)
    assert whole == "resnet+last+batches+cycle+sizes+bits+fused+views+smooth+wide"
    assert "wide" not in final.fitting("batches", final.LARGE)


def test_a_network_that_60_seconds_left_out_is_tried_in_120_at_its_own_rate() -> None:
    rows = [{"row": "resnet+last", "kept": False, "rates": [0.1, 0.05]}]
    assert final.with_network(rows, "batches", 0.1) == ("batches+resnet+last", 0.05)
    assert final.with_network(rows, "plain", 0.1) == ("resnet+last", 0.05)
    assert final.with_network(rows, "batches+resnet+last", 0.2) == ("batches+resnet+last", 0.2)
    assert final.with_network([], "batches", 0.1) == ("batches", 0.1)


def test_a_ratio_has_the_interval_of_its_mean_logarithm() -> None:
    assert ratio([10, 10, 10], [20, 20, 20]) == {"ratio": 0.5, "low": 0.5, "high": 0.5}
    found = ratio([10, 11, 9], [20, 20, 20])
    assert found["low"] < 0.4 < found["ratio"] < 0.5 < 0.6 < found["high"]
    assert joined("plain", "batches") == "batches"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch) -> Path:
    """Where the speed-run keeps its parts; beside it is assets/."""
    monkeypatch.setattr(speedrun, "ROOT", tmp_path)
    monkeypatch.setattr(final, "KEPT", tmp_path / "build")
    monkeypatch.setattr(speedrun, "KEPT", tmp_path / "build")
    return tmp_path / "build"


def test_what_was_measured_becomes_one_small_file_and_a_line(kept: Path, capsys) -> None:
    facts = {"cores": 3, "device": "CPU, 3 cores", "torch": "2.15.0+cpu", "data": "pictures"}
    rows = waterfall(Made({"batches": 9}, noise=0.1), FEW, SEEDS)
    machine.write(kept / "waterfall.json", facts | {"seconds": 10}, rows)
    curve = [{"seconds": 60.0, "mirrored": 0.5, "plain": 0.4}]
    same = {"plain": 0.4, "seconds": 120.0, "pace": 9.0, "curve": curve}
    pair = [same | {"mirrored": right} for right in (0.7, 0.85)]
    sides = [Search([], bowl(1), known={1.0: 10.0, 2.0: 11.0}), Search([], bowl(2), {2.0: 10.0})]
    final.keep_final(facts | {"seconds": 120}, ["theirs@1", "ours@2"], sides, [pair, pair])
    speedrun.keep("a note", gpus=False)
    run = json.loads((kept.parent / "assets" / "speedrun-3-cores.json").read_text())
    assert run["machine"]["seconds"] == {"waterfall": 10, "final": 120}
    assert run["machine"]["note"] == "a note" and run["rows"][:3] == rows
    assert run["rows"][3]["ratio"] == 0.5
    assert run["rows"][3]["tutorial"]["way"] == "theirs@1"
    assert run["rows"][3]["fastest"]["mirrored"] == [85.0, 85.0]
    told = {"inside": False, "tries": 2, "tried": {"1": 10.0, "2": 11.0}}
    assert run["rows"][3]["tutorial"]["search"] == told
    line = capsys.readouterr().out.splitlines()[-1]
    scores = "120 s, 2 seeds | 70.0 % → 85.0 % | 0.50 (0.50 – 0.50)"
    assert line == f"| CPU, 3 cores | torch 2.15.0 | pictures | {scores} | `ours@2` |"


def test_what_gpus_did_is_kept_under_the_name_of_the_card(kept: Path) -> None:
    curves = []
    for rights, last in (((0.5, 0.95, 0.96), 3.004), ((0.5, 0.6, 0.92), 5.0)):
        curve = zip((1.0, 2.0, last), rights, strict=True)
        curves.append([{"seconds": after, "accuracy": right} for after, right in curve])
    rows = final.gpu_rows({"fast.py, GPUs: 1": curves})
    machine.write(kept / "gpus.json", {"device": "Tesla T4"}, rows)
    with pytest.raises(speedrun.Failed, match=r'nothing was measured: .*"--data FOLDER"'):
        speedrun.keep("another note", gpus=False)  # of the processor
    speedrun.keep("a note", gpus=True)
    assert [path.name for path in kept.parent.glob("assets/*")] == ["speedrun-tesla-t4.json"]
    run = json.loads((kept.parent / "assets" / "speedrun-tesla-t4.json").read_text())
    assert run["machine"] == {"device": "Tesla T4", "note": "a note"}
    scores = {"right": 94.0, "seconds": 4.0, "reached": [2.0, None]}
    assert run["rows"] == [{"row": "fast.py, GPUs: 1"} | scores]


def test_without_units_there_is_no_candidate_for_16_bits() -> None:
    usable = {}
    for kind in ("fp32", "bf16"):
        usable[kind] = {each.switches for each in speedrun.chosen(None, kind)}
    assert usable["bf16"] - usable["fp32"] == {"bits"} and "nothing" in usable["fp32"]
    assert [each.switches for each in speedrun.chosen(["cycle", "bits"], "fp32")] == ["cycle"]


def test_processors_of_one_name_and_two_models_share_no_log(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(runs, "rates", dict)
    folder = speedrun.programs(tmp_path / "programs", tmp_path)
    logs = []
    for model in ("6-143", "6-207", ""):
        monkeypatch.setattr(machine, "cpu_model", lambda model=model: model)
        facts = runs.about(Namespace(data=None, source="", seconds=1))
        assert (model in facts["device"]) and ("model" in facts["device"]) == bool(model)
        logs.append(runs.log_of("kind", facts, folder))
    assert len(set(logs)) == 3
