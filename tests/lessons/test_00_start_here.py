"""The doctor's judgement of machines that are not here, and the two limits that keep lesson 00 from hanging."""

import io
import threading
import time
from urllib.parse import urlparse

import pytest
import torch

import doctor
import pulse
from devices import Place

T4 = "Tesla T4, 15.0 GB, compute capability 7.5"
KAGGLE = {
    "python": "3.12.3",
    "torch": "2.10.0+cu128",
    "torchvision": "0.25.0",
    "triton": "3.6.0",
    "nccl": "2.27.5",
    "gpus": [T4, T4],
    "adds": [True, True],
    "driver": True,
    "cores": 4,
    "memory": 31.3,
    "disk": 19.5,
    "pictures": "/kaggle/input/datasets/pankrzysiu/cifar10-python",
    "online": False,
    "kaggle": "Interactive",
}
LAPTOP = KAGGLE | {"gpus": [], "adds": [], "driver": False, "triton": "none", "nccl": "none", "kaggle": "no"}


def missing(facts: dict) -> dict[str, str]:
    """The remedy by row, of the rows that are not fine."""
    return {name: remedy for name, found, fine, remedy in doctor.judge(facts) if not fine}


def test_nothing_is_missing_on_kaggle():
    assert missing(KAGGLE) == {}
    assert [row[:2] for row in doctor.judge(KAGGLE) if row[0].startswith("GPU ")] == [("GPU 0", T4), ("GPU 1", T4)]


@pytest.mark.parametrize(
    ("gpus", "found"),
    [(0, "cpu and cpu, gloo"), (1, "cuda:0 and cuda:0, gloo"), (2, "cuda:0 and cuda:1, nccl")],
)
def test_it_says_what_two_ranks_run_on(gpus, found):
    rows = {row[0]: row[1] for row in doctor.judge(KAGGLE | {"gpus": [T4] * gpus, "adds": [True] * gpus})}
    assert (rows["GPUs"], rows["two ranks"]) == (str(gpus), found)


@pytest.mark.parametrize(
    ("facts", "row", "remedy"),
    [
        (KAGGLE | {"python": "3.10.9"}, "Python", "3.11"),
        (KAGGLE | {"torch": "2.9.1+cu126"}, "torch", "upgrade"),
        (KAGGLE | {"torchvision": "none"}, "torchvision", "upgrade"),
        (KAGGLE | {"triton": "none"}, "Triton", "pip install triton"),
        (KAGGLE | {"nccl": "none"}, "nccl", "CUDA"),
        (KAGGLE | {"gpus": [T4], "adds": [True]}, "GPUs", "GPU T4 x2"),
        (KAGGLE | {"gpus": [], "adds": []}, "GPUs", "built for CUDA"),  # a driver, and a torch that sees no GPU
        (KAGGLE | {"adds": [True, False]}, "GPU 1", "built for CUDA"),
        (KAGGLE | {"memory": 2.0}, "memory", "Close"),
        (KAGGLE | {"disk": 0.2}, "free disk", "Delete"),
        (LAPTOP, "GPUs", "share the CPU"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_failure_alone_is_named_with_its_remedy(facts, row, remedy):
    assert list(missing(facts)) == [row]
    assert remedy in missing(facts)[row]


def test_pictures_come_from_a_folder_or_from_the_internet():
    nowhere = missing(KAGGLE | {"pictures": ""})
    assert list(nowhere) == ["CIFAR-10", "internet"]
    assert "pankrzysiu/cifar10-python" in nowhere["CIFAR-10"]
    assert "Internet on" in nowhere["internet"]
    assert missing(KAGGLE | {"pictures": "", "online": True}) == {}


def test_it_asks_the_server_that_has_the_pictures():
    from torchvision.datasets import CIFAR10

    assert urlparse(CIFAR10.url).netloc == doctor.HOST


def test_a_silent_internet_costs_no_more_than_its_limit(monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(doctor, "urlopen", lambda *_, **__: release.wait(30))
    start = time.monotonic()
    assert not doctor.online(seconds=0.2)
    assert time.monotonic() - start < 5
    release.set()


def test_the_internet_answers_or_refuses(monkeypatch):
    def refused(*_, **__):
        raise OSError("no route")

    monkeypatch.setattr(doctor, "urlopen", lambda *_, **__: io.StringIO())
    assert doctor.online()
    monkeypatch.setattr(doctor, "urlopen", refused)
    assert not doctor.online(seconds=0.2)


CPU = Place(0, 0, 2, torch.device("cpu"), "gloo")


@pytest.mark.parametrize(("added", "fine"), [(2, True), (1, False), (0, False)])
def test_a_wrong_sum_is_an_error(monkeypatch, added, fine):
    """Rank 0 of 2 brings ones; rank 1, which brings twos, is played by the test."""
    monkeypatch.setattr(pulse.dist, "all_reduce", lambda tensor: tensor.add_(added))
    if fine:
        assert pulse.beat(torch.empty(256), CPU) > 0
    else:
        with pytest.raises(RuntimeError, match="wrong sum of 1024 bytes"):
            pulse.beat(torch.empty(256), CPU)


def test_the_watch_ends_only_what_is_late(monkeypatch, capsys):
    ended = threading.Event()
    monkeypatch.setattr(pulse.os, "_exit", lambda code: ended.set() if code else None)
    watch = pulse.Watch(CPU)
    for _ in range(5):
        watch.now("a quick step", 0.2)
    watch.stop()
    assert not ended.wait(0.6)
    watch.now("a slow step", 0.2)
    assert ended.wait(10)
    said = capsys.readouterr().out
    assert said.startswith("rank 0: a slow step has taken 0.2 s over gloo")
    assert all(name in said for name in ["NCCL_P2P_DISABLE=1", "NCCL_DEBUG=INFO", "NCCL_CUMEM_HOST_ENABLE=0"])
