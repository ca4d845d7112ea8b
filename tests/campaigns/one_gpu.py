"""Lessons on one GPU, which two ranks share: over gloo, as readers have it, or over nccl.

Run:  python tests/campaigns/one_gpu.py solutions/           # over gloo
      python tests/campaigns/one_gpu.py --nccl solutions/    # over nccl, in copies of the notebooks

nccl takes two ranks on one GPU from version 2.30 on, if NCCL_MULTI_RANK_GPU_ENABLE is 1. So what
the lessons do on nccl can be seen without a second GPU: their numbers, not their speed. Each
collective takes milliseconds, because the GPU goes from one process to the other and back. With
more than about five notebooks side by side, cells run into their limit of time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import by_hand  # noqa: F401
import nbformat
import torch

from run import choose

ROOT = Path(__file__).resolve().parents[2]
NCCL = (2, 30)
# In devices.py, group.py of lesson 06, and the check of lesson 05 that asks for the usual rule.
CHANGES = {
    "    if gpus >= local_world_size:\n": "    if gpus > 0:\n",
    'return f"cuda:{local_rank}", "nccl"': 'return "cuda:0", "nccl"',
    "    if torch.cuda.device_count() >= 2:  # a GPU": "    if True:  # a GPU",
    "torch.cuda.set_device(local_rank)": "torch.cuda.set_device(0)",
    "assert [device for _, _, device, _ in policy]": "assert True or [device]",
    "assert [backend for *_, backend in policy]": "assert True or [backend]",
}
ALWAYS = 2  # of them are in every lesson


def shared(notebook: nbformat.NotebookNode) -> list[int]:
    """Let all ranks of a notebook share GPU 0 over nccl; how often each change was made."""
    counts = []
    for before, after in CHANGES.items():
        count = 0
        for cell in notebook.cells:
            if cell.cell_type == "code":
                count += cell.source.count(before)
                cell.source = cell.source.replace(before, after)
        counts.append(count)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lessons", nargs="*", help="as for scripts/run.py")
    parser.add_argument("--nccl", action="store_true", help="over nccl, in copies of the notebooks")
    parser.add_argument("--jobs", default="2", help="notebooks side by side")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("one_gpu: there is no GPU here, so nothing was run")
        return 1
    version = torch.cuda.nccl.version()
    if args.nccl and version < NCCL:
        print(f"one_gpu: nccl here is {version}: install one from {NCCL} on, or leave out --nccl")
        return 1
    command = [sys.executable, ROOT / "scripts" / "run.py", "--jobs", args.jobs]
    if not args.nccl:
        return subprocess.call([*command, *args.lessons])
    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for path, notebook in choose(args.lessons).items():
            shared(notebook)
            copies.append(Path(folder) / f"{path.parent.name}-{path.name}")
            nbformat.write(notebook, copies[-1])
        os.environ["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
        return subprocess.call([*command, *copies])


if __name__ == "__main__":
    sys.exit(main())
