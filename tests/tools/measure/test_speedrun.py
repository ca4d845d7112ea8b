"""The speed-run without its trainings: what is kept, what is trained again, what is written."""

import io
import json
import random
from argparse import Namespace
from pathlib import Path

import pytest
from tqdm import tqdm

from course.measure import machine
from course.measure.speedrun import __main__ as speedrun
from course.measure.speedrun import final, runs
from course.measure.speedrun.runs import Runs
from course.measure.speedrun.waterfall import (
    CANDIDATES,
    TRIES,
    Candidate,
    best_rate,
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
    waterfall(made, FEW, SEEDS)
    tries = [way.partition("@")[0] for way in made.ways if way[-4:] in (":900", ":901")]
    assert tries == 6 * ["plain"] + 6 * ["batches"] + 6 * ["batches+cycle"]  # both sides
    assert all(len(each.rates or each.times) in (1, 3) for each in CANDIDATES)


def test_a_rate_is_the_best_in_the_mean_of_both_seeds() -> None:
    scores = {"plain@1:900": 60, "plain@1:901": 30, "plain@2:900": 50, "plain@2:901": 45}
    scores |= {"plain@3:900": 10, "plain@3:901": 55}

    class Fixed:
        def make(self, ways: list[str], together: int = 1) -> list[dict]:
            return [{"mirrored": scores[way] / 100} for way in ways]

    assert best_rate(Fixed(), "plain", [1.0, 2.0, 3.0]) == 2.0
    assert best_rate(Fixed(), "plain", [1.0, 2.0, 3.0], seeds=1) == 1.0


def test_what_pays_only_later_gets_longer_trainings_in_which_both_sides_choose() -> None:
    few = [Candidate("batches"), Candidate("resnet", rates=(0.1, 0.2, 0.4), long=True)]
    few += [Candidate("sizes", needs="resnet"), Candidate("nothing")]
    short = Made({"batches": 9}, noise=0.1)
    long = Made({"resnet": 9}, noise=0.1)
    rows = waterfall(short, few, SEEDS, long)
    assert [row["kept"] for row in rows] == [True, True, False, False]
    assert [row["long"] for row in rows] == [False, True, False, False]
    tries = [way.partition("@")[0] for way in long.ways if way.endswith(":900")]
    assert tries == 3 * ["batches"] + 3 * ["batches+resnet"]
    assert len(long.ways) == 6 + 2 * SEEDS
    assert any("resnet+sizes" in way for way in short.ways)
    made = len(set(short.ways)) + len(set(long.ways))
    assert made <= longest(few, SEEDS)


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
    assert len(made.ways) == 6 + 6 < longest(FEW[:1], 6)


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
    final.keep_final(facts | {"seconds": 120}, "theirs@1", "ours@2", [pair, pair])
    speedrun.keep("a note", gpus=False)
    run = json.loads((kept.parent / "assets" / "speedrun-3-cores.json").read_text())
    assert run["machine"]["seconds"] == {"waterfall": 10, "final": 120}
    assert run["machine"]["note"] == "a note" and run["rows"][:3] == rows
    assert run["rows"][3]["ratio"] == 0.5
    assert run["rows"][3]["tutorial"]["way"] == "theirs@1"
    assert run["rows"][3]["fastest"]["mirrored"] == [85.0, 85.0]
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
