"""Start the lessons' programs on real ranks, for tests: gloo on the CPU, two launches at a time."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import rooms

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
SEVERAL = str(PROGRAMS / "several.py")  # runs the programs named behind it, one after another


class Launch(NamedTuple):
    """A launch that has ended."""

    folder: Path
    code: int  # torchrun's exit code
    text: str  # everything that torchrun and the ranks printed

    def reports(self, name: str, ranks: int) -> list[dict]:
        """What each rank wrote: `name.json`, `name.rank1.json` and so on."""
        names = [f"{name}.json"] + [f"{name}.rank{rank}.json" for rank in range(1, ranks)]
        return [json.loads((self.folder / each).read_text()) for each in names]


def launch_all(launches: dict[Path, tuple[int, list[str]]], seconds: float) -> list[Launch]:
    """Make these launches: folder → number of ranks and torchrun's command. Each ends somehow."""
    lines = [[str(folder), ranks, command] for folder, (ranks, command) in launches.items()]
    settings = {
        "PYTHONPATH": rooms.python_path(),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    subprocess.run(
        [sys.executable, PROGRAMS / "torchruns.py"],
        input=json.dumps(lines),
        text=True,
        env=os.environ | settings,
        timeout=seconds,
        check=True,
    )
    ended = []
    for folder in launches:
        code = int((folder / "exit").read_text())
        ended.append(Launch(folder, code, (folder / "log").read_text()))
    return ended


def launch(folder: Path, ranks: int, *command: str, seconds: float = 120) -> Launch:
    """Make one launch, which must succeed."""
    [ended] = launch_all({folder: (ranks, list(command))}, seconds)
    assert ended.code == 0, ended.text
    return ended
