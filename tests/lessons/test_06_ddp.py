"""What the course promises about DDP, on real process groups: gloo, by torchrun, on the CPU.

Most of a short launch is starting Python and torch. So several programs share a launch, all
launches are made before the first test, two at a time, and the tests read what they left.
"""

import os
import re
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ranks import PROGRAMS, SEVERAL, Launch, launch_all

import batchnorm
import cifar10
import ddp
import pretend
import scaffold
import shapes
import single
from course import rooms
from devices import Place, here
from loader import Pictures, augment, normalise
from model import ResNet

EVERYWHERE = [  # on 2 ranks and on 3
    "equal --cases group batch uneven",
    "equal --cases none --tied",
    "scores 1001",
    "scores 2",  # on 3 ranks, one has nothing to do
]
ON_TWO = [
    "equal --cases none",
    "equal --cases group --tied",
    "single --epochs 1 --train-size 512 --test-size 101",
]
TRAIN = "--epochs 1 --train-size 512 --test-size 101 --global-batch-size 128"
RAISES = 2, [f"{PROGRAMS}/raises.py"]
ALONE = Place(0, 0, 1, torch.device("cpu"), "gloo")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with generated pictures, and with a network that has learnt a little, `small.pt`."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "data").mkdir()
    pictures = shapes.generate(1024, 1001)
    torch.save(pictures, folder / "data" / "generated.pt")

    torch.manual_seed(0)
    model = ResNet((8, 16, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    x, y = pictures["train"]
    three_epochs = torch.cat([torch.randperm(len(y)) for _ in range(3)])
    for batch in three_epochs.split(64):
        optimizer.zero_grad()
        output = model(normalise(augment(x[batch])))
        loss = torch.nn.functional.cross_entropy(output, y[batch])
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), folder / "small.pt")
    return folder


def launch(work: Path, asked: dict[str, tuple[int, list[str]]]) -> dict[str, Launch]:
    """Make these launches, each in a new folder with the pictures and the network, by name."""
    folders = {}
    for name, command in asked.items():
        folder = work / name
        folder.mkdir()
        for shared in ["data", "small.pt"]:
            (folder / shared).symlink_to(work / shared)
        folders[folder] = command
    return {ended.folder.name: ended for ended in launch_all(folders, seconds=600)}


@pytest.fixture(scope="module")
def launches(work) -> dict[str, Launch]:
    asked = {
        "two": (2, [SEVERAL, *EVERYWHERE, *ON_TWO]),
        "three": (3, [SEVERAL, *EVERYWHERE, f"ddp {TRAIN}"]),
        "ddp": (2, [str(rooms.program("ddp")), *TRAIN.split()]),
        "convert": (4, [str(rooms.program("convert"))]),
    }
    for number in range(10):
        asked[f"raises {number}"] = RAISES
    return launch(work, asked)


@pytest.fixture(scope="module")
def results(launches):
    """What every rank reported in one of the programs that share a launch."""

    def read(ranks: int, line: str) -> list[dict]:
        ended = launches["two" if ranks == 2 else "three"]
        refused = ranks == 3  # its last program refuses to start
        assert ended.code == int(refused), ended.text
        lines = EVERYWHERE + ON_TWO if ranks == 2 else EVERYWHERE
        reports = ended.reports(str(lines.index(line)), ranks)
        for rank, report in enumerate(reports):
            assert report["rank"] == rank
            assert report["world_size"] == ranks
            assert report["backend"] == "gloo"
        return reports

    return read


LAUNCHED = [(2, line) for line in EVERYWHERE + ON_TWO] + [(3, line) for line in EVERYWHERE]
SAME = [(ranks, line) for ranks, line in LAUNCHED if line.startswith("equal")]
SAME_NAMES = [f"{ranks} ranks, {line}" for ranks, line in SAME]


@pytest.mark.parametrize(("ranks", "line"), SAME, ids=SAME_NAMES)
def test_ddp_equals_one_process_on_the_full_batch(results, ranks, line):
    case = line.split()[2]
    reports = [report[case] for report in results(ranks, line)]
    for rank, report in enumerate(reports):
        assert len(report["gaps"]) == 5
        assert max(report["gaps"]) < 1e-12, "in float64, of all parameters, after each step"
        assert report["replaced"] == (rank != 0), "every rank starts from rank 0's weights"
        assert report["weights"] == reports[0]["weights"], "to the last bit"
        assert report["gradients"] == reports[0]["gradients"], "as soon as backward has ended"


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("case", ["batch", "uneven"])
def test_not_with_batchnorm_nor_with_unequal_parts(results, case, ranks):
    """BatchNorm sees only its own rank, a mean of means is no mean: the test above can tell."""
    reports = [report[case] for report in results(ranks, EVERYWHERE[0])]
    for report in reports:
        assert report["gaps"][-1] > 0.01
        assert report["weights"] == reports[0]["weights"], "the ranks still agree with one another"


@pytest.fixture
def alone(work, monkeypatch):
    """One process, which finds the data of the launches, and runs an `evaluate` on `small.pt`."""
    monkeypatch.chdir(work)
    monkeypatch.setattr(cifar10, "ATTACHED", work / "nothing attached")

    def score(evaluate, size: int) -> dict[str, float]:
        model = ResNet((8, 16, 32))
        model.load_state_dict(torch.load("small.pt", weights_only=True))
        return evaluate(model, Pictures(False, size), ALONE)

    return score


@pytest.mark.parametrize("size", [1001, 2])
@pytest.mark.parametrize("ranks", [2, 3])
def test_evaluation_is_exact(results, alone, ranks, size):
    expected = alone(single.evaluate, size)
    assert expected["count"] == size
    if size == 1001:
        assert 0.2 < expected["accuracy"] < 0.98, "mistakes would show: no guessing, not perfect"
    reports = results(ranks, f"scores {size}")
    statistics = reports[0]["before"]
    for rank, report in enumerate(reports):
        assert report["correct"] == expected["correct"]
        assert report["count"] == expected["count"]
        assert report["accuracy"] == expected["accuracy"]
        assert report["test_loss"] == pytest.approx(expected["test_loss"], rel=0, abs=1e-6)
        assert report["test_loss"] == reports[0]["test_loss"]
        for name, values in report["before"].items():
            assert (values == statistics[name]) == (rank == 0)
        assert report["after"] == statistics, "rank 0's statistics, on every rank"


@pytest.fixture
def group(monkeypatch):
    """A process group of this process alone."""
    environment = dict(os.environ)
    environment.pop("RANK", None)
    monkeypatch.setattr(os, "environ", environment)
    here()
    dist.init_process_group("gloo")
    yield
    dist.destroy_process_group()


def test_evaluation_on_one_rank_is_that_of_single(alone, group):
    assert alone(ddp.evaluate, 1001) == alone(single.evaluate, 1001)


@pytest.mark.parametrize("offset", [0, 300])
def test_our_batchnorm_is_the_librarys(group, offset):
    """In float32 beside the library in float64: what it gives and keeps, and gives in evaluation.

    The pictures are multiples of 1/256, few and small enough that float32 adds them exactly, in any
    order. So it only rounds their mean, by 2**-24 of it at most, and subtracts it exactly. This is
    then divided by the standard deviation, at least 0.01: 0.0018 at 300. All other rounding is by
    2**-24 of numbers up to 2, a few times: below 0.00001.
    """
    torch.manual_seed(0)
    ours = batchnorm.SyncedBatchNorm(3)
    library = torch.nn.BatchNorm2d(3).double()
    bound = offset * 2**-24 / 0.01 + 1e-5
    for _ in range(3):
        x = offset + torch.randint(-4, 5, (8, 3, 5, 5)) / 256
        variance = x.double().var((0, 2, 3), correction=0)
        assert (variance + ours.eps).sqrt().min() > 0.01
        assert (ours(x) - library(x.double())).abs().max() < bound
    kept = {"rtol": 1e-6, "atol": 1e-9, "check_dtype": False}
    torch.testing.assert_close(ours.running_mean, library.running_mean, **kept)
    torch.testing.assert_close(ours.running_var, library.running_var, **kept)
    assert ours.num_batches_tracked == library.num_batches_tracked == 3

    ours.eval()
    library.eval()
    assert (ours(x) - library(x.double())).abs().max() < bound


def test_the_first_bucket_is_smaller_unless_a_size_is_given(group):
    """By default it holds 1 MiB; whoever passes 25 gets 25 for the first one, too."""
    layers = [torch.nn.Linear(512, 512, bias=False) for _ in range(4)]  # 1 MiB each
    sizes = {}
    for name, options in {"default": {}, "given": {"bucket_cap_mb": 25}}.items():
        model = torch.nn.Sequential(*layers)
        wrapped = torch.nn.parallel.DistributedDataParallel(model, **options)
        for _ in range(3):  # after the first step the buckets are filled anew
            wrapped(torch.randn(1, 512)).sum().backward()
        told = wrapped._get_ddp_logging_data()
        assert told["has_rebuilt_buckets"]
        sizes[name] = [int(size) // 2**20 for size in told["rebuilt_bucket_sizes"].split(", ")]
    assert sizes == {"default": [1, 3], "given": [4]}


def test_ddp_trains_one_model(launches, monkeypatch):
    folder, code, text = launches["ddp"]
    assert code == 0, text
    reports = launches["ddp"].reports("ddp", 2)
    one, two = reports
    assert one["weights"] == two["weights"], "on both ranks before every step, to the last bit"
    assert len(one["weights"]) == 4, "512 pictures are four batches of 128"
    assert len(set(one["weights"])) == 4, "each step learns"
    for loss, other in zip(one["losses"], two["losses"], strict=True):
        assert loss != other, "unlike parts"

    # What was saved is what was tested.
    monkeypatch.chdir(folder)
    monkeypatch.setattr(cifar10, "ATTACHED", folder / "nothing attached")
    state = torch.load("ddp.pt", weights_only=True)
    assert not [name for name in state if "module." in name]
    model = ResNet()
    model.load_state_dict(state)
    scores = single.evaluate(model, Pictures(False, 101), ALONE)
    for report in reports:
        assert report["correct"] == scores["correct"]
        assert report["count"] == 101
        assert report["test_loss"] == pytest.approx(scores["test_loss"], abs=1e-5)


def test_what_stops_the_exercise_on_a_second_machine_is_told(tmp_path, monkeypatch):
    """Whatever convert.py has done before, and whichever was imported before."""
    lines = ["def main():", "    scaffold.save({})", "    raise ValueError('only two ranks')"]
    (tmp_path / "convert.py").write_text("\n".join(["import scaffold", *lines]))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "convert", None)
    monkeypatch.setattr(scaffold, "write", scaffold.write)
    monkeypatch.setattr(scaffold, "saved", ["of an earlier run"])
    ran = pretend.run_convert(2)
    assert ran == {"batches": [], "error": "ValueError: only two ranks", "saved": [[]]}


def test_the_converted_script_on_four_ranks_is_one_process_on_whole_batches(launches):
    ended = launches["convert"]
    assert ended.code == 0, ended.text
    reports = ended.reports("convert", 4)
    steps = zip(*[report["batches"] for report in reports], strict=True)
    whole = [[row for batch in step for row in batch] for step in steps]
    assert [len(batch) for batch in whole] == [16] * 12
    for epoch in scaffold.by_epoch(whole):
        assert sorted(epoch) == list(range(64))
    expected = scaffold.train_alone(whole)
    for report in reports:
        assert report["weights"] == pytest.approx(expected, rel=0, abs=1e-12)
        assert report["weights"] == reports[0]["weights"], "to the last bit"
    names = list(scaffold.network().state_dict())
    assert [report["saved"] for report in reports] == [[names], [], [], []]
    assert list(torch.load(ended.folder / "convert.pt", weights_only=True)) == names


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


def is_mute(ended: Launch) -> bool:
    """Whether torchrun stumbled over a rank's error file, and named no culprit."""
    return "Root Cause" not in ended.text and "JSONDecodeError" in ended.text


def test_torchrun_blames_the_rank_that_failed(launches, work):
    """Ten of ten. The other rank fails, too, but later, as the connection breaks because of it."""
    tries = [each for name, each in launches.items() if name.startswith("raises")]
    assert len(tries) == 10

    # Now and then torchrun ends the other rank just while that one writes its error file, stumbles
    # over the empty file, and dies without naming anyone. Such a launch says nothing about our
    # programs: it is repeated.
    mute = [each for each in tries if is_mute(each)]
    assert len(mute) < 3, mute[0].text
    judged = [each for each in tries if each not in mute]
    if mute:
        repeated = launch(work, {f"again {n}": RAISES for n in range(len(mute))})
        judged.extend(repeated.values())
    for _, code, text in judged:
        assert code == 1
        cause = text.partition("Root Cause (first observed failure):")[2]
        assert re.findall(r"^  rank +: (\d+) ", cause, re.MULTILINE) == ["1"], text
        assert "ArithmeticError: rank 1 has lost count" in cause, text
