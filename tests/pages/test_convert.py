"""The table of a conversion: its messages are real, and both of its columns of code run."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from course import rooms
from course.languages import is_chinese
from course.sources import Course

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "assets" / "convert.md").read_text()
ROWS = [re.split(r" ?\| ?", line)[1:5] for line in PAGE.splitlines() if line.startswith("| ")][2:]
FORGOTTEN = [part for row in ROWS for part in row[3].split("<br>")]
MESSAGES = [message for part in FORGOTTEN for message in re.findall(r"`([^`]*)`$", part)]
# Only GPUs bring these: two are quoted in errors-quoted.md, the last is read from torch's library
# for CUDA where it is installed.
NEED_GPUS = {
    "but found tensor on cuda",
    "Duplicate GPU detected",
    "destroy_process_group() was not called before program exit",
}
WAITED = "Timed out waiting"  # produced in lesson 12, and in the table of errors from there
WATCHED = "Watchdog caught collective operation timeout"  # what nccl says then: quoted


@pytest.mark.quick
def test_the_lesson_has_the_table_and_no_marks_of_the_build():
    course = Course(ROOT)
    [path] = [path for path in course.sources if path.stem == "06_ddp"]
    cells = [cell.source for cell in course.lesson(path, solved=False).cells]
    [text] = [text for text in cells if "mutually exclusive" in text]
    for row in ROWS:
        assert re.sub("<!-- .*? -->", "", " | ".join(row)) in text
    assert "<!--" not in text
    assert len(ROWS) == 22


@pytest.mark.quick
def test_messages_of_gpus_and_of_waiting_are_in_the_tables_of_errors():
    assert WAITED in MESSAGES
    assert f"`{WAITED}`" in (ROOT / "assets" / "errors.md").read_text()
    quoted = (ROOT / "assets" / "errors-quoted.md").read_text()
    assert "`Duplicate GPU detected`" in quoted
    assert "`but found tensor on cuda`" in quoted
    assert f"`{WATCHED}`" in quoted


@pytest.mark.quick
def test_no_line_of_a_cell_changes_its_language_within_a_part():
    """What stands between two ` · ` is one part to the site, however many lines it has."""
    for row in ROWS:
        for part in " · ".join(row).split(" · "):
            lines = re.sub("<!-- .*? -->|`[^`]*`", "", part).split("<br>")
            kinds = {is_chinese(line) for line in lines} - {None}
            assert len(kinds) < 2, f"two languages without a ` · ` between them: {part}"


def raised(action: Callable[[], object]) -> str:
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def test_every_other_message_is_produced_here(monkeypatch):
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, Dataset, DistributedSampler

    class Rows(Dataset):
        """Somebody's data, without a length."""

    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    first_row = re.findall("`([^`]*)`", ROWS[1][2])
    second_row = re.findall("`([^`]*)`", ROWS[2][2])
    said = [raised(lambda: exec(first_row[0], {"os": os, "torch": torch}))]
    said += [raised(lambda: exec(second_row[0], {"device": "cpu"}))]
    said += [raised(lambda: DistributedSampler(range(4)))]
    said += [raised(lambda: dist.init_process_group("gloo"))]
    sampler = DistributedSampler(range(4), num_replicas=2, rank=0)
    said += [raised(lambda: DistributedSampler(Rows(), num_replicas=2, rank=0))]
    said += [raised(lambda: DataLoader(range(4), 2, shuffle=True, sampler=sampler))]

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = nn.Linear(2, 2)
        model.head = nn.Linear(2, 2)
        ddp_model = DistributedDataParallel(model)
        said += [raised(lambda: ddp_model.head)]
        assert ddp_model.module.head is model.head
        said += [raised(lambda: model.load_state_dict(ddp_model.state_dict()))]
        said += [raised(lambda: DistributedDataParallel(model, device_ids=[0]))]
    finally:
        dist.destroy_process_group()

    produced = [each for each in MESSAGES if each not in NEED_GPUS | {WAITED, WATCHED}]
    assert len(produced) == len(said) == 9
    for message in produced:
        assert any(message in text for text in said), f"nobody says {message}: {said}"


def test_torch_warns_of_a_group_that_is_not_left_over_nccl():
    import torch

    library = Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"
    if not library.exists():
        pytest.skip("this torch has no CUDA")
    [message] = [each for each in MESSAGES if "before program exit" in each]
    assert message.encode() in library.read_bytes()


def test_the_left_column_is_a_script_for_one_process(tmp_path, monkeypatch, capsys):
    """first.py with the lines of the left column in place of those beside them."""
    lines = {re.sub("<!-- .*? -->", "", row[2]): row[1].strip("`") for row in ROWS}
    text = rooms.program("first").read_text()
    for right, left in lines.items():
        for code in re.findall("`([^`]*)`", right):
            if code.startswith("loader = "):
                text = text.replace(code, f"loader = {left}")
            elif code.startswith("ddp_model = "):
                text = text.replace(code, f"ddp_model = {left}")
            elif code.startswith(("sampler", "dist.")):
                text = text.replace(code, "pass")
    text = text.replace("dist.get_rank()", "0")
    assert "dist." not in text.partition("device = ")[2]
    assert "sampler" not in text.partition("device = ")[2]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    exec(compile(text, "alone.py", "exec"), {})
    assert capsys.readouterr().out.count("rank 0, epoch") == 3
    assert (tmp_path / "first.pt").exists()
