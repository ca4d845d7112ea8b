"""What lesson 03 promises: five lines learn, which orders raise, and how the class is judged."""

import os
import runpy
from argparse import Namespace
from difflib import unified_diff
from itertools import permutations
from pathlib import Path

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

import order
import shapes
import single
from course import rooms
from course.lesson import Lesson, solve
from course.sources import Course
from devices import Place
from loader import Pictures
from model import ResNet

ROOT = Path(__file__).resolve().parents[2]
LESSON = ROOT / "notebooks" / "src" / "03_training_loop.md"
CLASS = [cell.source for cell in Lesson.of(Course(ROOT).sources[LESSON]).tagged("class")]
SINGLE = rooms.program("single").read_text()
CLEAR = "optimizer.zero_grad()"
MOVE = "loss.backward()\n            optimizer.step()"


def five(solved: bool) -> dict:
    """The names that the five lines of the first section, written or not, leave behind."""
    sources = [cell.source for cell in Course(ROOT).lesson(LESSON, solved=solved).own.cells]
    names: dict = {"torch": torch}
    for start in ("from torch import nn\n", "model, optimizer = fresh()\nlosses"):
        [cell] = [source for source in sources if source.startswith(start)]
        exec(cell, names)
    return names


def test_five_lines_learn_the_sine() -> None:
    names = five(solved=True)
    x = torch.linspace(-3, 3, 200)
    error = (names["model"](x.unsqueeze(1)).flatten() - torch.sin(x)).square().mean()
    assert error < 0.01
    assert names["losses"][-1] < 0.01


def test_the_loss_stays_where_it_is_until_the_five_lines_are_written() -> None:
    assert len(set(five(solved=False)["losses"])) == 1


def fitted(seed: int, rate: float = 0.1) -> list:
    """The two curves of the section on overfitting, for weights and labels drawn with a seed."""
    sources = [cell.source for cell in Course(ROOT).lesson(LESSON, solved=True).own.cells]
    names: dict = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    for start in ("from loader import Pictures, normalise\n\nsome", "def fit(rate)"):
        [cell] = [source for source in sources if source.startswith(start)]
        exec(cell.replace("manual_seed(7)", f"manual_seed({seed})"), names)
    return names["fit"](rate)


@pytest.mark.parametrize("seed", [0, 7])
def test_a_network_overfits_to_labels_drawn_by_lot(seed: int, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    torch.save(shapes.generate(756, 16), "data/generated.pt")
    training, validation = fitted(seed)
    assert training[-1] < 0.1
    assert validation[-1] > validation.min() + 0.02
    assert 0 < validation.argmin() < 90


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch) -> Path:
    """A folder with a few generated pictures, in which the test goes on."""
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    torch.save(shapes.generate(64, 16), "data/generated.pt")
    return tmp_path


def test_the_scheduler_changes_the_rate_and_leaves_momentum(pictures: Path) -> None:
    seen = []

    def look(optimizer, args, kwargs) -> None:
        [group] = optimizer.param_groups
        seen.append((group["lr"], group["momentum"]))

    args = Namespace(epochs=3, global_batch_size=16, lr=0.2, workers=0)
    place = Place(0, 0, 1, torch.device("cpu"), "gloo")
    handle = register_optimizer_step_pre_hook(look)
    try:
        single.train(ResNet((4, 4, 4)), Pictures(True, 64), args, place)
    finally:
        handle.remove()
    rates = [rate for rate, _ in seen]
    assert len(rates) == 12
    assert {momentum for _, momentum in seen} == {0.9}
    assert rates[0] < 0.01
    assert max(rates) > 0.19
    assert rates[-1] < 0.05


def test_ddp_changes_about_thirty_lines() -> None:
    alone = solve(SINGLE, True, "single.py").splitlines()
    together = solve(rooms.program("ddp").read_text(), True, "ddp.py").splitlines()
    lines = [*unified_diff(alone, together, n=0)][2:]
    assert 25 <= sum(line.startswith("+") for line in lines) <= 35


def test_three_of_twenty_orders_raise() -> None:
    lines = ["zero_grad", "forward", "loss", "backward", "step"]
    orders = [
        each for each in permutations(lines) if [*filter(lines[1:4].count, each)] == lines[1:4]
    ]
    x = torch.randn(256, 3, 32, 32)
    y = torch.randint(10, (256,))
    raised = set()
    for each in orders:
        try:
            order.train(order.network(), list(each), 3, x, y)
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
            raised.add(" ".join(each))
    assert len(orders) == 20
    assert raised == {
        "forward loss step zero_grad backward",
        "forward step zero_grad loss backward",
        "forward step loss zero_grad backward",
    }


# ---- how the class's five lines are judged: by what they do


def check(change, written: int = 0) -> tuple[str, dict]:
    """What the class's check says of single.py, changed, and what it notes in the run.

    The file was `written` so many seconds after 1970: by default long before the results.
    """
    text = change(solve(SINGLE, True, "single.py"))
    Path("single.json").write_text("{}")
    Path("single.py").write_text(text)
    os.utime("single.py", (written, written))
    judge = [cell for cell in CLASS if "runpy" in cell or "lacks" in cell]
    assert len(judge) == 3
    said = []
    names = {"torch": torch, "one": {}, "print": said.append}
    for cell in judge:
        exec(cell, names)
    return said[-1], names["one"]


RIGHT = {
    "as in the lesson": lambda text: text,
    "with a comment": lambda text: text.replace(CLEAR, f"{CLEAR}  # clear"),
    "with zeros": lambda text: text.replace(CLEAR, "optimizer.zero_grad(set_to_none=False)"),
    "the model clears": lambda text: text.replace(CLEAR, "model.zero_grad()"),
    "cleared before backward": lambda text: text.replace(CLEAR, "pass").replace(
        MOVE, f"{CLEAR}\n            {MOVE}"
    ),
    "cleared last": lambda text: text.replace(CLEAR, "pass").replace(
        MOVE, f"{MOVE}\n            {CLEAR}"
    ),
}
WRONG = {
    "nothing typed": (lambda text: solve(SINGLE, False, "single.py", live=True), "only the last"),
    "never cleared": (lambda text: text.replace(CLEAR, "pass"), "old gradients"),
    "no backward": (lambda text: text.replace("loss.backward()", "pass"), "no weight"),
    "no step": (lambda text: text.replace("optimizer.step()", "pass"), "no weight"),
    "backward not called": (lambda text: text.replace("backward()", "backward"), "no weight"),
    "cleared before step": (
        lambda text: text.replace(MOVE, MOVE.replace("\n", f"\n            {CLEAR}\n", 1)),
        "no weight",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_class_is_told_that_it_is_right(name: str, pictures: Path) -> None:
    said, run = check(RIGHT[name])
    assert said.startswith("✓"), said
    assert run == {"finished": True}


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning")
@pytest.mark.parametrize("name", WRONG)
def test_the_class_is_told_what_is_missing(name: str, pictures: Path) -> None:
    change, problem = WRONG[name]
    said, run = check(change)
    assert said.startswith(f"✗ not yet: {problem}"), said
    assert run == {"finished": False}


def test_the_class_is_told_to_launch_what_it_has_changed(pictures: Path) -> None:
    said, run = check(lambda text: text, written=2**31)
    assert said.startswith("✗ not yet: single.py has changed"), said
    assert run == {"finished": False}


def test_programs_of_the_class_do_not_train_when_they_are_looked_at(pictures: Path) -> None:
    Path("single.py").write_text(solve(SINGLE, True, "single.py"))
    assert "train" in runpy.run_path("single.py")
    assert not Path("single.json").exists()
