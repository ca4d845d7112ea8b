"""Two ranks on one GPU over nccl: what that changes in a copy of a notebook.

nccl takes two ranks on one GPU from version 2.30 on, if NCCL_MULTI_RANK_GPU_ENABLE is 1. So what
lessons do on nccl can be seen without a second GPU: their checks, not their speed. Each collective
takes milliseconds there, probably because the GPU has to switch between processes.
"""

import re
from importlib.metadata import distributions

from nbformat import NotebookNode

NEEDED = (2, 30)
ALLOW = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "CUDA_VISIBLE_DEVICES": "0"}
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


def nccl_version() -> tuple[int, ...]:
    """Of the nccl that is installed beside torch; (0,) without one."""
    found = [each.version for each in distributions() if each.name.startswith("nvidia-nccl")]
    return tuple(map(int, re.findall(r"\d+", found[0]))) if found else (0,)


def share_gpu(notebook: NotebookNode) -> list[int]:
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
