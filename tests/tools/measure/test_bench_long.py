"""The bench's trainings: the same conditions for both sides."""

import sys
from argparse import Namespace
from pathlib import Path

import pytest
from torchvision.datasets import CIFAR10

from course.measure import long


def test_both_sides_of_the_accuracy_row_have_the_same_conditions(tmp_path, monkeypatch) -> None:
    launched: dict[str, list[list[str]]] = {"ours": [], "tutorial": []}

    def launch(folder: Path, ranks: int, *command: object, **more) -> dict:
        words = [str(Path(str(word)).name) for word in command]
        launched[folder.name].append(words)
        good = {"fast.py": ("0.4", 0.8), "ddp.py": ("0.06", 0.6)}
        rate, accuracy = good["fast.py" if "fast.py" in words else "ddp.py"]
        right = accuracy if rate in words else accuracy - 0.1
        scores = {"accuracy": right} if "ddp.py" in words else {"curve": [{"accuracy": right}]}
        return {"pace": 1000} | scores

    files = tmp_path / "data" / CIFAR10.base_folder
    files.mkdir(parents=True)
    for name, _ in CIFAR10.train_list + CIFAR10.test_list:
        (files / name).write_bytes(b"the same pictures, in another form")
    monkeypatch.setattr(long, "launch", launch)
    args = Namespace(data=tmp_path / "data", budget=120)
    (found,) = long.accuracy(args, tmp_path)
    assert found["ratio"] == pytest.approx(0.2 / 0.4)
    assert found["span"] == "range" and found["rounds"] == 3
    assert found["note"].startswith("80.0% right after 3 epochs of 40,000 pictures, learning rate")
    assert found["note"].endswith("; a copy of CIFAR-10, not its own files")
    for who, program in [("ours", "fast.py"), ("tutorial", "ddp.py")]:
        commands = [words for words in launched[who] if program in words]
        chosen = [words for words in commands if words[0] == "heldout.py"]
        final = [words for words in commands if "--seed" in words]
        assert len(chosen) == 3 and len({words[words.index("--lr") + 1] for words in chosen}) == 3
        assert all("30000" in words for words in chosen)  # a quarter of the time
        assert all("40000" in words and "--flip" not in words for words in final)
        assert [words[-1] for words in final] == ["0", "1", "2"]
    tutorial = (tmp_path / "tutorial" / "model.py").read_text()
    assert "class ResNet(nn.Sequential)" in tutorial


def test_cifar10s_own_files_are_known_by_their_sums(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / CIFAR10.base_folder
    folder.mkdir()
    (folder / "one").write_bytes(b"pictures")
    own = [("one", "b7f6b4cbcd2a1e4c2a4a0d2ad6ee9c68")]
    monkeypatch.setattr(CIFAR10, "train_list", own)
    monkeypatch.setattr(CIFAR10, "test_list", [])
    assert not long.originals(tmp_path)
    monkeypatch.setattr(CIFAR10, "train_list", [])
    assert long.originals(tmp_path)


def test_rates_are_chosen_on_training_pictures_that_are_held_out(monkeypatch) -> None:
    pictures = [*range(50_000)]
    monkeypatch.setattr("cifar10.load", lambda train, size=None: (pictures, pictures, str(train)))
    sys.modules.pop("bench_heldout", None)
    from course.measure.launched import heldout

    train, _, source = heldout.load_part(True)
    test, _, tested = heldout.load_part(False)
    assert source == tested == "True"  # never the test pictures
    assert train + test == pictures and len(test) == 5000
    assert heldout.load_part(True, 7)[0] == pictures[:7]
