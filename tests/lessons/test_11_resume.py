"""Lesson 11 where its notebook does not look.

Saves that fail, files in every condition, stops after any step.
"""

import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from ranks import launch_all
from torch.utils.data import Dataset

import again as killed
import forget
import kill
from atomic import replacing
from checkpoint import CheckpointError, load, newest, path_of, prune, save, usable
from course import rooms
from devices import Place
from learner import PICTURES, Training
from randomness import random_state, set_random_state

# Goes on after step 6, with a first step that is thrown away and without one.
RESUMED = """
from pathlib import Path
import torch, torch.distributed as dist
import learner
from checkpoint import load_of_rank, path_of, save
from devices import here, report
from learner import Training

place = here()
if place.world_size == 3:
    learner.PICTURES, learner.BATCH = 600, 30  # which three can share
dist.init_process_group("gloo")
path = path_of(Path("files"), 6, place.rank, place.world_size)
whole = Training(place, epochs=1)
for done in whole.steps():
    if done == 6:
        save(whole.to_save(), path)
dist.barrier()

def equal(settle):
    torch.manual_seed(1)
    again = Training(place, epochs=1)
    state = load_of_rank(path.parent, 6, place.rank, place.world_size)
    again.restore(state, settle=settle)
    steps = list(again.steps())
    pairs = list(zip(again.model.parameters(), whole.model.parameters(), strict=True))
    same = all(torch.equal(*pair) for pair in pairs)
    return len(steps) == 14 and same and again.losses == whole.losses

results = {"settled": equal(True), "fresh": equal(False)}
report("resumed", place, **results, size=path.stat().st_size)
dist.destroy_process_group()
"""


def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    save({"step": 1}, path)
    with pytest.raises(OSError), replacing(path) as file:
        file.write(b"half")
        raise OSError("no space left")
    with pytest.raises(AttributeError):  # a state that cannot be pickled
        save({"step": lambda: 2}, path)
    assert [left.name for left in tmp_path.iterdir()] == ["state.pt"]
    assert load(path)["step"] == 1


# torch fails in three ways.
@pytest.mark.parametrize(("size", "room"), [(10**5, 10_000), (1000, 100), (1000, 5000)])
def test_a_full_disk_is_an_error_and_no_checkpoint(size: int, room: int, tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    save({"step": 1}, path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # As on a disk with no room for more, on any Unix.
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    complaint = r"state\.pt could not be saved: .*File too large"
    try:
        with pytest.raises(CheckpointError, match=complaint):
            save({"weights": torch.zeros(size)}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert load(path)["step"] == 1
    assert [left.name for left in tmp_path.iterdir()] == ["state.pt"]


@pytest.mark.parametrize("way", kill.WAYS)
def test_a_saver_that_ends_by_itself_is_an_error(way, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # where there is no atomic.py
    save({"x": 1}, tmp_path / "old.pt")
    with pytest.raises(RuntimeError, match="ended by itself, with exit code 2"):
        kill.killed_while_saving(tmp_path / "a.pt", [tmp_path / "old.pt"], way, saves=0)


@pytest.mark.parametrize("part", [0, 0.01, 0.5, 0.99])
def test_a_cut_file_is_refused_by_name(part: float, tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    save({"weights": torch.ones(10_000)}, path)
    os.truncate(path, int(part * path.stat().st_size))
    with pytest.raises(CheckpointError, match=r"state\.pt is not a checkpoint to load: \S"):
        load(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.pt", tmp_path):
        with pytest.raises(CheckpointError, match=str(path)):
            load(path)


def test_any_wrong_byte_in_the_weights_is_found(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    save({"weights": torch.arange(1000.0)}, path)
    whole = path.read_bytes()
    start = whole.index(torch.arange(1000.0).numpy().tobytes())
    for at in (start, start + 1999, start + 3999):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CheckpointError, match="checksum"):
            load(path)


def test_ranks_agree_on_the_newest_that_all_hold(tmp_path: Path) -> None:
    for rank, steps in enumerate([(8, 16, 24), (8, 16)]):
        for step in steps:
            save({"step": step}, path_of(tmp_path, step, rank, 2))
    # When there was one rank: both may start from that.
    save({"step": 4}, path_of(tmp_path, 4, 0, 1))
    said = []
    assert newest([usable(tmp_path, rank, 2, said.append) for rank in (0, 1)]) == (16, 2)
    os.truncate(path_of(tmp_path, 16, 0, 2), 100)
    assert newest([usable(tmp_path, rank, 2, said.append) for rank in (0, 1)]) == (8, 2)
    assert len(said) == 1 and "step-000016.rank-0-of-2.pt" in said[0]
    assert newest([usable(tmp_path, 0, 1)]) == (24, 2)
    assert newest([usable(tmp_path, rank, 4) for rank in range(4)]) == (24, 2)
    assert newest([usable(tmp_path / "empty", 0, 1)]) is None
    prune(tmp_path, 1, 2)
    assert sorted(usable(tmp_path, 1, 2, said.append)) == [(4, 1), (8, 2), (16, 2)]
    prune(tmp_path, 0, 2)
    assert not path_of(tmp_path, 8, 0, 2).exists() and path_of(tmp_path, 24, 0, 2).exists()


@pytest.fixture
def alone(tmp_path: Path):
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield Place(0, 0, 1, torch.device("cpu"), "gloo")
    dist.destroy_process_group()
    torch.use_deterministic_algorithms(False)


def test_a_stop_after_any_step_changes_no_bit(alone: Place, tmp_path: Path) -> None:
    """In the middle of an epoch, at its end, after the first step and after the last."""
    stops = (1, 7, 20, 21, 40)
    whole = Training(alone, epochs=2)
    for done in whole.steps():
        if done in stops:
            save(whole.state(), tmp_path / f"{done}.pt")
    for stop in stops:
        torch.manual_seed(stop)
        again = Training(alone, epochs=2)
        again.restore(load(tmp_path / f"{stop}.pt"))
        assert list(again.steps()) == list(range(stop + 1, 41))
        assert again.losses == whole.losses
        resumed = again.model.state_dict().values()
        uninterrupted = whole.model.state_dict().values()
        pairs = zip(resumed, uninterrupted, strict=True)
        assert all(torch.equal(*pair) for pair in pairs)


def test_a_part_that_is_forgotten_is_as_in_a_new_process(
    alone: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last number: also BatchNorm's statistics, which every forward pass changes."""
    new = Training(alone, epochs=1)
    right = {name: tensor.clone() for name, tensor in new.model.state_dict().items()}
    whole = Training(alone, epochs=2)
    for done in whole.steps():
        if done == forget.STOP:
            save(whole.state(), path_of(tmp_path, done, 0, 1))
    resumed = []

    class Still(Training):
        def steps(self) -> list[int]:
            resumed.append(self.model.state_dict())
            return []

    monkeypatch.setattr(forget, "Training", Still)
    for part in ("model", "nothing"):
        assert forget.resumed(part, alone, 2, tmp_path) == whole.losses[: forget.STOP]
    forgotten, restored = resumed
    assert all(torch.equal(tensor, right[name]) for name, tensor in forgotten.items())
    assert not any(torch.equal(tensor, right[name]) for name, tensor in restored.items())


class Noted(Dataset):
    """Pictures, and the numbers of those that were taken, in order."""

    def __init__(self, pictures: Dataset) -> None:
        self.pictures = pictures
        self.taken: list[int] = []

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.taken.append(index)
        return self.pictures[index]


def test_each_epoch_takes_every_picture_once_in_an_order_of_its_own(alone: Place) -> None:
    training = Training(alone, epochs=2)
    training.pictures = Noted(training.pictures)
    assert len(list(training.steps())) == 40
    taken = training.pictures.taken
    assert sorted(taken[:PICTURES]) == sorted(taken[PICTURES:]) == list(range(PICTURES))
    assert taken[:PICTURES] != taken[PICTURES:]


def test_a_launch_takes_up_the_newest_file_to_the_last_bit(
    alone: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    killed.FOLDER.mkdir()
    whole = Training(alone, epochs=2)
    for done in whole.steps():
        if done in (8, 16):
            save(whole.state(), path_of(killed.FOLDER, done, 0, 1))
    again = Training(alone, epochs=2)
    assert killed.take_up(again, alone, dist.group.WORLD) == [[8, 16]]
    assert list(again.steps()) == list(range(17, 41))
    assert again.losses == whole.losses


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_ranks_go_on_to_the_last_bit(tmp_path: Path, ranks: int) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "resumed.py").write_text(RESUMED)
    [ended] = launch_all({tmp_path: (ranks, ["resumed.py"])}, 300)
    assert ended.code == 0, ended.text
    first, *others = ended.reports("resumed", ranks)
    for rank in (first, *others):
        assert rank["settled"], "other bits"
    # Two numbers have one sum; from three on the order of the first step's buckets counts.
    assert all(rank["fresh"] == (ranks == 2) for rank in (first, *others))
    # What is equal on all is saved once.
    assert all(rank["size"] < first["size"] / 2 for rank in others)


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What each of two ranks reported of saves beside a training, and how long all of it took."""
    folder = tmp_path_factory.mktemp("meanwhile")
    command = [str(rooms.program("meanwhile")), "--megabytes", "8"]
    begun = time.monotonic()
    [ended] = launch_all({folder: (2, command)}, 200)
    took = time.monotonic() - begun
    assert ended.code == 0, ended.text
    return [rank | {"took": took} for rank in ended.reports("meanwhile", 2)]


def test_a_training_goes_on_while_its_state_is_written(beside) -> None:
    for rank in beside:
        assert rank["kept"] and len(rank["rounds"]) == 5
        assert all(one["steps"] == one["right"] > 0 for one in rank["rounds"])


def test_the_times_of_two_ways_to_save_are_their_own_and_in_seconds(beside) -> None:
    for rank in beside:
        columns = {name: [one[name] for one in rank["rounds"]] for name in rank["rounds"][0]}
        assert not set(columns["save"]) & set(columns["async_save"])
        assert all(one["written"] > 0 for one in rank["rounds"])
        assert sum(columns["save"]) + sum(columns["written"]) < rank["took"]
        # Every rank waits as long as the slowest.
        assert columns["save"] == [one["save"] for one in beside[0]["rounds"]]


def test_the_random_numbers_of_three_libraries_go_through_a_file(tmp_path: Path) -> None:
    cpu = torch.device("cpu")
    save({"random": random_state(cpu)}, tmp_path / "state.pt")

    def draw() -> list:
        return [random.random(), *np.random.rand(3).tolist(), *torch.rand(3).tolist()]

    first = draw()
    assert draw() != first
    set_random_state(load(tmp_path / "state.pt")["random"], cpu)
    assert draw() == first


def test_a_batch_that_ranks_cannot_share_is_refused(alone: Place) -> None:
    with pytest.raises(ValueError, match="3 ranks cannot share a batch of 32"):
        Training(alone._replace(world_size=3))


def test_a_rank_that_loses_torchrun_while_it_imports_torch_ends(tmp_path: Path) -> None:
    """Its parent leaves when it has begun to import torch.

    Its partner never comes, and has 60 s to do so.
    """
    env = os.environ | {"PYTHON": sys.executable, "PROGRAM": str(rooms.program("resume"))}
    env |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "PYTHONPATH": rooms.python_path()}
    script = '"$PYTHON" "$PROGRAM" & until grep -q libtorch /proc/$!/maps; do sleep 0.05; done'
    parent = ["bash", "-c", script]
    options = {"capture_output": True, "text": True, "timeout": 200}
    done = subprocess.run(parent, cwd=tmp_path, env=env, **options)
    assert "torchrun is gone" in done.stderr  # read to the end: the rank held it open until then
