"""Lessons on one GPU, which two ranks share: over gloo, as readers have it, or over nccl.

Run:  python tests/campaigns/one_gpu.py solutions/           # over gloo
      python tests/campaigns/one_gpu.py --nccl solutions/    # over nccl, in copies of the notebooks

nccl takes two ranks on one GPU from version 2.30 on, if NCCL_MULTI_RANK_GPU_ENABLE is 1. So what
the lessons do on nccl can be seen without a second GPU: their numbers, not their speed. Each
collective takes milliseconds, probably because the GPU has to switch between processes. With more
than about five notebooks side by side, cells run into their limit of time.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import by_hand  # noqa: F401
import nbformat
import torch

from course.run.notebooks import choose

ROOT = Path(__file__).resolve().parents[2]
NCCL = 23000  # version 2.30
# In devices.py, group.py of lesson 06, and the check of lesson 05 that asks for the usual rule.
CHANGES = {
    "    if gpus >= local_world_size:\n": "    if gpus > 0:\n",
    'return f"cuda:{local_rank}", "nccl"': 'return "cuda:0", "nccl"',
    "    if torch.cuda.device_count() >= 2:  # a GPU": "    if True:  # a GPU",
    "torch.cuda.set_device(local_rank)": "torch.cuda.set_device(0)",
    "assert [device for _, _, device, _ in policy]": "assert True or [device]",
    "assert [backend for *_, backend in policy]": "assert True or [backend]",
}
ALWAYS = 2  # the first two changes are in every notebook


def nccl_version() -> int:
    """Of the nccl that torch has loaded, as 23007; `torch.cuda.nccl.version()` tells the one that
    torch was built with.
    """
    version = ctypes.c_int()
    ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(version))
    return version.value


def share_gpu(notebook: nbformat.NotebookNode) -> list[int]:
    """Change a notebook so that its ranks share GPU 0 over nccl. Returns how often each change was
    made.
    """
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
    parser.add_argument("lessons", nargs="*", help="as for scripts/course/run/notebooks.py")
    parser.add_argument("--nccl", action="store_true", help="over nccl, in copies of the notebooks")
    parser.add_argument("--jobs", default="2", help="notebooks side by side")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("one_gpu: there is no GPU here, so nothing was run")
        return 1
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # one GPU, however many there are
    if args.nccl and nccl_version() < NCCL:
        remedy = "install nvidia-nccl-cu13 from 2.30 on, or leave out --nccl"
        print(f"one_gpu: nccl here is {nccl_version()}: {remedy}")
        return 1
    command = [sys.executable, "-m", "course.run.notebooks", "--jobs", args.jobs]
    if not args.nccl:
        return subprocess.call([*command, *args.lessons])
    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for path, notebook in choose(args.lessons).items():
            share_gpu(notebook)
            copies.append(Path(folder) / f"{path.parent.name}-{path.name}")
            nbformat.write(notebook, copies[-1])
        os.environ["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
        return subprocess.call([*command, *copies])


if __name__ == "__main__":
    sys.exit(main())
