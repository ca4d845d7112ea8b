"""The doctor's judgement of machines that are not here, lesson 00's limits, and every launch."""

import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from itertools import chain
from pathlib import Path
from urllib.parse import urlparse

import pytest
import torch
from ranks import launch

import doctor
import pulse
from course import rooms
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
LAPTOP = KAGGLE | {
    "gpus": [],
    "adds": [],
    "driver": False,
    "triton": "none",
    "nccl": "none",
    "kaggle": "no",
}


def missing(facts: dict) -> dict[str, str]:
    """The remedy by row, of the rows that are not fine."""
    return {name: remedy for name, found, fine, remedy in doctor.judge(facts) if not fine}


def test_nothing_is_missing_on_kaggle():
    assert missing(KAGGLE) == {}
    assert [row[:2] for row in doctor.judge(KAGGLE) if row[0].startswith("GPU ")] == [
        ("GPU 0", T4),
        ("GPU 1", T4),
    ]


@pytest.mark.parametrize(
    ("gpus", "found"),
    [(0, "cpu and cpu, gloo"), (1, "cuda:0 and cuda:0, gloo"), (2, "cuda:0 and cuda:1, nccl")],
)
def test_it_says_what_two_ranks_run_on(gpus, found):
    rows = {
        row[0]: row[1]
        for row in doctor.judge(KAGGLE | {"gpus": [T4] * gpus, "adds": [True] * gpus})
    }
    assert rows["GPUs"] == str(gpus)
    assert rows["two ranks"] == f"{found}: untried, pulse.py tries it"


def test_only_what_was_judged_gets_a_mark(monkeypatch, capsys):
    """A ✓ that nothing can take away would say that two GPUs work together: nobody has tried."""
    monkeypatch.setattr(doctor, "machine", lambda: KAGGLE | {"adds": [True, False]})
    monkeypatch.setattr(doctor, "report", lambda *_, **__: None)
    monkeypatch.setattr(doctor, "here", lambda: CPU)
    doctor.main.__wrapped__()  # without torchrun's `@record`
    marks = {line[2:14].strip(): line[0] for line in capsys.readouterr().out.splitlines()}
    assert marks["GPU 0"] == "✓"
    assert marks["GPU 1"] == "✗"
    assert [name for name, mark in marks.items() if mark == "·"] == [
        "two ranks",
        "CPU cores",
        "on Kaggle",
    ]


@pytest.mark.parametrize(
    ("facts", "row", "remedy"),
    [
        (KAGGLE | {"python": "3.10.9"}, "Python", "3.11"),
        (KAGGLE | {"torch": "2.9.1+cu126"}, "torch", "upgrade"),
        (KAGGLE | {"torchvision": "none"}, "torchvision", "upgrade"),
        (KAGGLE | {"triton": "none"}, "Triton", "pip install triton"),
        (KAGGLE | {"nccl": "none"}, "nccl", "CUDA"),
        (KAGGLE | {"gpus": [T4], "adds": [True]}, "GPUs", "GPU T4 x2"),
        (
            KAGGLE | {"gpus": [], "adds": []},
            "GPUs",
            "built for CUDA",
        ),  # a driver, and a torch that sees no GPU
        (KAGGLE | {"adds": [True, False]}, "GPU 1", "built for CUDA"),
        (KAGGLE | {"memory": 2.0}, "memory", "TRAIN_SIZE"),
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
    ended = threading.Event()

    def silent(*_: object, **__: object) -> None:
        release.wait(30)
        ended.set()

    monkeypatch.setattr(doctor, "urlopen", silent)
    assert not doctor.online(seconds=0.2)
    assert not ended.is_set()
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
    assert all(
        name in said
        for name in ["NCCL_P2P_DISABLE=1", "NCCL_DEBUG=INFO", "NCCL_CUMEM_HOST_ENABLE=0"]
    )


def test_an_error_comes_with_the_remedies(capsys):
    """Error 217 does not hang: it is raised, and the watch never ends the process."""
    with pytest.raises(RuntimeError, match="217"), pulse.remedies(CPU):
        raise RuntimeError("CUDA error 217: peer access is not supported")
    said = capsys.readouterr().out
    assert said.startswith("rank 0 failed over gloo")
    assert "error 217 (peer access is not supported): set NCCL_CUMEM_HOST_ENABLE=0" in said
    with pulse.remedies(CPU):
        pass
    assert capsys.readouterr().out == ""


# ---- the first programs, launched in a folder that holds nothing else

ERROR = re.compile(r"^rank \d: error on the whole curve ([\d.]+)$", re.MULTILINE)


def curves(folder: Path, ranks: int, *options: str) -> tuple[list[float], list[torch.Tensor]]:
    """The error that each rank of curve.py printed, and the curve that it drew."""
    folder.mkdir()
    shutil.copy(rooms.program("curve"), folder)
    text = launch(folder, ranks, "curve.py", *options).text
    drawn = [torch.load(folder / f"curve{rank}.pt", weights_only=True) for rank in range(ranks)]
    return [float(error) for error in ERROR.findall(text)], drawn


def test_three_lines_make_one_model_of_two(tmp_path: Path) -> None:
    errors, drawn = curves(tmp_path / "alone", 2)
    assert len(errors) == 2
    assert min(errors) > 0.01
    assert not torch.equal(*drawn)
    errors, drawn = curves(tmp_path / "together", 2, "--talk")
    assert len(errors) == 2
    assert max(errors) < 0.01
    assert torch.equal(*drawn)


def test_three_lines_make_the_step_of_one_process(tmp_path: Path) -> None:
    """With SGD, to which the sum of two gradients would be a learning rate twice as large."""
    text = rooms.program("curve").read_text()
    assert text.count("torch.optim.Adam") == 1
    drawn = {}
    for ranks in (1, 2):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        (folder / "curve.py").write_text(text.replace("torch.optim.Adam", "torch.optim.SGD"))
        launch(folder, ranks, "curve.py", "--talk")
        drawn[ranks] = torch.load(folder / "curve0.pt", weights_only=True)
    torch.testing.assert_close(drawn[2], drawn[1], atol=1e-4, rtol=0)
    assert (drawn[1] - torch.linspace(-3, 3, 200).sin().unsqueeze(1)).abs().max() > 0.01


def test_the_first_programs_run_without_torchrun(tmp_path: Path) -> None:
    for name in ("hello", "curve"):
        shutil.copy(rooms.program(name), tmp_path)
        command = [sys.executable, f"{name}.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == 1


# ---- launch.py: every way to start a program is watched

# Writes its results, or fails where it is told to.
JOB = """import json
import os
import sys
from itertools import chain
from pathlib import Path

name = os.environ.get("NAME", "job")
print(name, "runs")
if "--fail" in sys.argv:
    sys.exit("it fails, on purpose")
Path(f"{name}.json").write_text(json.dumps({"size": sys.argv[-1]}))
"""
QUEUE = 'NAME=queue python job.py "$@"'
GOOD = "int main() { return 0; }"
BAD = "int main() { return nothing; }"
FILES = {"job.py": JOB, "queue.sh": QUEUE, "good.cpp": GOOD, "bad.cpp": BAD}

# Stand-ins for what this machine need not have: each starts the program that it is given.
STAND_INS = {
    "accelerate": 'shift; exec python "$@"',
    "deepspeed": 'exec python "$@"',
    "sbatch": 'exec sh "$@"',
    "srun": 'exec "$@"',
}
RANKS = "--standalone --nproc-per-node=1"
LAUNCHES = {  # the program's name by the line that starts it
    "python job.py": "job",
    f"python -m torch.distributed.launch {RANKS} job.py": "job",
    f"python -m torch.distributed.run {RANKS} job.py": "job",
    "PET_STANDALONE=1 PET_NPROC_PER_NODE=1 torchrun job.py": "job",
    "accelerate launch job.py": "job",
    "deepspeed job.py": "job",
    "sbatch queue.sh": "queue",
    "srun python job.py": "job",
}


def in_kernel(folder: Path, cells: list[str], python: str | Path = sys.executable, **settings):
    """How each cell ended and what it printed, in a kernel whose folder holds launch.py."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    shutil.copy(rooms.program("launch"), folder)
    tools = folder / "tools"
    tools.mkdir()
    for name, text in STAND_INS.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"} | settings
    program = Path(__file__).resolve().parents[1] / "programs" / "kernel_cells.py"
    done = subprocess.run(
        [python, program],
        cwd=folder,
        env=environment,
        input=json.dumps(["from launch import ended, failure, launches, printed, result", *cells]),
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    imported, *endings = json.loads(done.stdout.splitlines()[-1])
    assert imported == ["ok", ""]
    return endings


def test_a_launch_beside_the_notebook_is_watched(tmp_path: Path) -> None:
    """Begun while others run, read once it has ended, and ended with the notebook at the latest."""
    stale = 'open("job.json", "w").write("{}")'
    begin = 'from launch import Begun; job = Begun("PET_X=1 python job.py --size 3")'
    early = 'result("job")'
    long = (
        'import atexit; kept = []; atexit.register = kept.append; last = Begun("python sleep.py")'
    )
    end = "kept == [last.terminate] and kept[0](); print(last.wait())"
    cells = [
        *(stale, begin, early, "print(job.wait(), job.poll())", 'print(result("job"))'),
        'print(Begun("python job.py --fail").wait())',
        'print(failure("job", expects="on purpose"))',
        *('result("job")', 'Begun("cat job.py")', long, end),
    ]
    (tmp_path / "sleep.py").write_text("import time; time.sleep(600)")
    _, begun, refused, waited, read, failed, said, *others = in_kernel(tmp_path, cells)
    stopped, none, slept, ended = others
    assert begun == ["ok", ""]
    assert refused[0].startswith("LaunchError: job was not launched"), "nothing stale is read"
    assert waited == ["ok", "job runs\n0 0\n"]
    assert read == ["ok", "{'size': '3'}\n"]
    assert failed[1].splitlines()[-1] == "1"
    assert "it fails, on purpose" in said[1]
    assert stopped[0].startswith("LaunchError: job.py failed (exit code 1)")
    assert none[0].startswith("LaunchError: this starts no program that can be watched: cat job.py")
    assert slept == ["ok", ""]
    assert ended == ["ok", "-15\n"], "what ends it with the notebook is registered, and ends it"


def launching(line: str, name: str) -> list[str]:
    """The cells of a launch that succeeds, among stale results, and of one that fails."""
    stale = f'open("{name}.json", "w").write("{{}}"); open("{name}.rank7.json", "w").write("{{}}")'
    left = "import glob; print(sorted(glob.glob('*.json')))"
    read = f'print(result("{name}"))'
    text = f'print(printed("{name}"), end="")'
    said = f'print(failure("{name}", expects="on purpose"))'
    well = [stale, f"!{line} --size 3", read, text, left]
    return [*well, f"!{line} --fail", said, read, text, left]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list]:
    """What came of the cells of each launch, all in one kernel."""
    cells = {line: launching(line, name) for line, name in LAUNCHES.items()}
    endings = in_kernel(tmp_path_factory.mktemp("watched"), [*chain(*cells.values())])
    return {line: [endings.pop(0) for _ in own] for line, own in cells.items()}


def check_watched(endings: list, name: str) -> None:
    """A launch that succeeds is read, whatever lay there; one that fails leaves nothing to read."""
    (_, launched, read, text, left, failed, said, refused, unread, nothing) = endings
    assert launched[0] == "ok"
    assert f"{name} runs" in launched[1], "its text stays in the notebook"
    assert read == ["ok", "{'size': '3'}\n"]
    assert text == launched, "what it printed can be read, too"
    assert left == ["ok", f"['{name}.json']\n"], "what an earlier launch left is deleted"
    assert failed[0] == "ok", "a launch that fails does not stop its cell"
    assert said[0] == "ok"
    assert "it fails, on purpose" in said[1]
    assert "failed (exit code 1)" in refused[0]
    assert "An error text?" in refused[0], "the way to the table of messages"
    assert unread == refused, "nor is the text of a launch that failed"
    assert nothing == ["ok", "[]\n"]


@pytest.mark.parametrize("line", LAUNCHES)
def test_every_way_to_start_a_program_is_watched(watched: dict[str, list], line: str) -> None:
    check_watched(watched[line], LAUNCHES[line])


def test_every_starter_is_tried() -> None:
    tree = ast.parse(rooms.program("launch").read_text())
    [values] = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "STARTERS"
    ]
    for starter in ast.literal_eval(values):  # as the build reads them
        lines = [*LAUNCHES, "g++ good.cpp"]
        assert any(f"{starter} " in line for line in lines), starter


def test_a_compiler_is_watched(tmp_path: Path) -> None:
    read = "print(ended('good').code, ended('bad').code)"
    said = "print(failure('bad', expects='not declared'))"
    cells = ["!g++ good.cpp -o good", "!g++ bad.cpp -o bad", read, said, 'result("bad")']
    *_, codes, message, refused = in_kernel(tmp_path, cells)
    assert codes == ["ok", "0 1\n"]
    assert "bad.cpp" in message[1]
    assert refused[0].startswith("LaunchError: bad.cpp failed (exit code 1)")


def test_a_starter_that_is_not_here_is_named(tmp_path: Path) -> None:
    shell = tmp_path / "bin"  # where nothing is but the shell, which IPython itself looks for
    shell.mkdir()
    (shell / "sh").symlink_to("/bin/sh")
    forget = f"import os; os.environ |= {{'PATH': {str(shell)!r}, 'SHELL': 'sh'}}"
    _, launched, refused = in_kernel(tmp_path, [forget, "!srun python job.py", 'result("job")'])
    assert launched[0] == "ok"
    assert refused[0].startswith("LaunchError: job.py was not started: there is no srun here.")


def test_looking_at_a_program_is_no_launch(tmp_path: Path) -> None:
    looks = ["!cat job.py", "!ls job.py", "# !python job.py", "!sh queue.sh", "!NAME=a true job.py"]
    keep = 'open("job.json", "w").write("[7]")'
    *_, none, refused, kept = in_kernel(
        tmp_path, [keep, *looks, "print(launches)", 'result("job")', "!cat job.json"]
    )
    assert none == ["ok", "{}\n"]
    assert refused[0].startswith("LaunchError: job was not launched: run the cell that launches it")
    assert kept == ["ok", "[7]"]


@pytest.mark.parametrize(("before", "after"), [({}, "0"), ({"NCCL_CUMEM_HOST_ENABLE": "1"}, "1")])
def test_nccl_is_kept_from_error_217(tmp_path: Path, before: dict, after: str) -> None:
    cell = 'import os; print(os.environ["NCCL_CUMEM_HOST_ENABLE"])'
    assert in_kernel(tmp_path, [cell], **before) == [["ok", f"{after}\n"]]
