"""What the course promises about DDP, on real process groups: gloo, started by torchrun, on the CPU.

Most of a short launch is starting Python and torch. So several programs share a launch, all launches are made before
the first test, two at a time, and the tests read what they left.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.distributed as dist

import cifar10
import ddp
import rooms
import single
from devices import Place, here
from loader import Pictures, augment, normalise
from model import ResNet

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"

EVERYWHERE = [  # on 2 ranks and on 3
    "equal --cases group batch uneven",
    "equal --cases none --tied",
    "scores 1001",
    "scores 2",  # on 3 ranks, one has nothing to do
]
ON_TWO = ["equal --cases none", "equal --cases group --tied", "single --epochs 1 --train-size 512 --test-size 101"]
TRAIN = "--epochs 1 --train-size 512 --test-size 101 --global-batch-size 128"
RAISES = 2, [f"{PROGRAMS}/raises.py"]


class Launch(NamedTuple):
    folder: Path
    code: int  # torchrun's exit code
    text: str  # everything that torchrun and the ranks printed


def launch(work: Path, launches: dict[str, tuple[int, list[str]]]) -> dict[str, Launch]:
    """Make these launches, each in a new folder of its own: name → number of ranks and command."""
    for name in launches:
        (work / name).mkdir()
        for shared in ["data", "small.pt"]:
            (work / name / shared).symlink_to(work / shared)
    lines = json.dumps([[str(work / name), ranks, command] for name, (ranks, command) in launches.items()])
    settings = {"PYTHONPATH": rooms.python_path(), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command, environment = [sys.executable, PROGRAMS / "torchruns.py"], os.environ | settings
    subprocess.run(command, input=lines, text=True, env=environment, timeout=600, check=True)
    read = {}
    for name in launches:
        folder = work / name
        read[name] = Launch(folder, int((folder / "exit").read_text()), (folder / "log").read_text())
    return read


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with generated pictures, and with a small network that has learnt a little, in `small.pt`."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "data").mkdir()
    made = cifar10.generate(1024, 1001)
    torch.save(made, folder / "data" / "generated.pt")
    torch.manual_seed(0)
    model, (x, y) = ResNet((8, 16, 32)), made["train"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for part in torch.cat([torch.randperm(len(y)) for _ in range(3)]).split(64):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(normalise(augment(x[part]))), y[part]).backward()
        optimizer.step()
    torch.save(model.state_dict(), folder / "small.pt")
    return folder


@pytest.fixture(scope="module")
def launches(work) -> dict[str, Launch]:
    several = f"{PROGRAMS}/several.py"
    shared = {"two": (2, [several, *EVERYWHERE, *ON_TWO]), "three": (3, [several, *EVERYWHERE, f"ddp {TRAIN}"])}
    direct = {"ddp": (2, [str(rooms.program("ddp")), *TRAIN.split()])}
    return launch(work, shared | direct | {f"raises {n}": RAISES for n in range(10)})


@pytest.fixture(scope="module")
def results(launches):
    """What every rank reported in one of the programs that share a launch."""

    def read(ranks: int, line: str) -> list[dict]:
        name, code, lines = {2: ("two", 0, EVERYWHERE + ON_TWO), 3: ("three", 1, EVERYWHERE)}[ranks]
        assert launches[name].code == code, launches[name].text  # on 3 ranks, the last program refuses to start
        number = lines.index(line)
        names = [f"{number}.json" if rank == 0 else f"{number}.rank{rank}.json" for rank in range(ranks)]
        reports = [json.loads((launches[name].folder / each).read_text()) for each in names]
        assert [(report["rank"], report["world_size"]) for report in reports] == [(n, ranks) for n in range(ranks)]
        assert {report["backend"] for report in reports} == {"gloo"}
        return reports

    return read


EQUAL = [(2, line) for line in EVERYWHERE + ON_TWO] + [(3, line) for line in EVERYWHERE]
SAME = [(ranks, line) for ranks, line in EQUAL if line.startswith("equal")]


@pytest.mark.parametrize(("ranks", "line"), SAME, ids=[f"{ranks} ranks, {line}" for ranks, line in SAME])
def test_ddp_equals_one_process_on_the_full_batch(results, ranks, line):
    reports = [report[line.split()[2]] for report in results(ranks, line)]
    for rank, report in enumerate(reports):
        assert len(report["gaps"]) == 5
        assert max(report["gaps"]) < 1e-12, "in float64, after each of five steps, the largest gap of all parameters"
        assert report["replaced"] == (rank != 0), "every rank starts from rank 0's weights"
        assert report["weights"] == reports[0]["weights"], "to the last bit"
        assert report["gradients"] == reports[0]["gradients"], "as soon as backward has ended"


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("case", ["batch", "uneven"])
def test_not_with_batchnorm_nor_with_unequal_parts(results, case, ranks):
    """BatchNorm sees only its own rank, a mean of means is no mean: the test above can tell the difference."""
    reports = [report[case] for report in results(ranks, EVERYWHERE[0])]
    for report in reports:
        assert report["gaps"][-1] > 1e-3
        assert report["weights"] == reports[0]["weights"], "the ranks still agree with one another"


@pytest.fixture
def alone(work, monkeypatch):
    """One process, which looks for the data where the launches found it, and runs an `evaluate` on `small.pt`."""
    monkeypatch.chdir(work)
    monkeypatch.setattr(cifar10, "ATTACHED", work / "nothing attached")

    def score(evaluate, size: int) -> dict[str, float]:
        model = ResNet((8, 16, 32))
        model.load_state_dict(torch.load("small.pt", weights_only=True))
        return evaluate(model, Pictures(False, size), Place(0, 0, 1, torch.device("cpu"), "gloo"))

    return score


@pytest.mark.parametrize("size", [1001, 2])
@pytest.mark.parametrize("ranks", [2, 3])
def test_evaluation_is_exact(results, alone, ranks, size):
    expected = alone(single.evaluate, size)
    assert expected["count"] == size
    if size == 1001:
        assert 0.2 < expected["accuracy"] < 0.98, "neither guessing nor perfect, so that mistakes would show"
    reports = results(ranks, f"scores {size}")
    for rank, report in enumerate(reports):
        assert (report["correct"], report["count"]) == (expected["correct"], expected["count"])
        assert report["accuracy"] == expected["accuracy"]
        assert report["test_loss"] == pytest.approx(expected["test_loss"], rel=0, abs=1e-6)
        assert report["test_loss"] == reports[0]["test_loss"]
        assert all((report["before"][name] == buffer) == (rank == 0) for name, buffer in reports[0]["before"].items())
        assert report["after"] == reports[0]["before"], "rank 0's statistics, on every rank"


def test_evaluation_on_one_rank_is_that_of_single(alone, monkeypatch):
    monkeypatch.setattr(os, "environ", {name: value for name, value in os.environ.items() if name != "RANK"})
    here()
    dist.init_process_group("gloo")
    try:
        assert alone(ddp.evaluate, 1001) == alone(single.evaluate, 1001)
    finally:
        dist.destroy_process_group()


def test_ddp_trains_one_model(launches, monkeypatch):
    folder, code, text = launches["ddp"]
    assert code == 0, text
    reports = [json.loads((folder / name).read_text()) for name in ["ddp.json", "ddp.rank1.json"]]
    weights = [report["weights"] for report in reports]
    assert weights[0] == weights[1], "the same weights on both ranks before every step, to the last bit"
    assert len(set(weights[0])) == len(weights[0]) == 4, "512 pictures are four batches of 128, and each step learns"
    assert all(one != two for one, two in zip(*(report["losses"] for report in reports), strict=True)), "unlike parts"
    monkeypatch.chdir(folder)
    monkeypatch.setattr(cifar10, "ATTACHED", folder / "nothing attached")
    state = torch.load("ddp.pt", weights_only=True)
    assert not [name for name in state if "module." in name]
    model = ResNet()
    model.load_state_dict(state)
    scores = single.evaluate(model, Pictures(False, 101), Place(0, 0, 1, torch.device("cpu"), "gloo"))
    for report in reports:
        assert (report["correct"], report["count"]) == (scores["correct"], 101), "what was saved is what was tested"
        assert report["test_loss"] == pytest.approx(scores["test_loss"], abs=1e-5)


def test_ddp_refuses_ranks_that_cannot_share_the_batch_equally(launches):
    folder, code, text = launches["three"]
    assert code == 1
    assert "ValueError: 3 ranks cannot share a global batch of 128 equally" in text
    assert not list(folder.glob("ddp.*"))


def test_single_on_two_ranks_trains_two_models(results):
    one, two = results(2, ON_TWO[-1])
    assert one["weights"][0] == two["weights"][0], "the same seed, the same start"
    gaps = [abs(a - b) for a, b in zip(one["weights"], two["weights"], strict=True)]
    assert min(gaps[1:]) > 1e-6, "and then they drift apart"
    assert one["test_loss"] != two["test_loss"]


def test_torchrun_blames_the_rank_that_failed(launches, work):
    """Ten of ten. The other rank fails as well when the connection breaks, but later, and because of it."""
    tries = [each for name, each in launches.items() if name.startswith("raises")]
    assert len(tries) == 10
    # Now and then torchrun ends the other rank just while that one writes its error file, stumbles over
    # the empty file, and dies without naming anyone. Such a launch says nothing about our programs: it is repeated.
    mute = [each for each in tries if "Root Cause" not in each.text and "JSONDecodeError" in each.text]
    assert len(mute) < 3, mute[0].text
    again = launch(work, {f"again {n}": RAISES for n in range(len(mute))}) if mute else {}
    for _, code, text in [each for each in [*tries, *again.values()] if each not in mute]:
        assert code == 1
        cause = text.partition("Root Cause (first observed failure):")[2]
        assert re.findall(r"^  rank +: (\d+) ", cause, re.MULTILINE) == ["1"], text
        assert "ArithmeticError: rank 1 has lost count" in cause, text
