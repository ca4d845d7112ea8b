"""Pictures of a run have an alternative text, and whoever runs a notebook notices nothing else."""

import json
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from test_run import run

from run_outputs import tell_verdicts

DRAW = """import matplotlib.pyplot as plt
figure, ax = plt.subplots()
ax.plot([1, 2], label="rank 0")
ax.set(xlabel="step", ylabel="loss")
ax.set_title("1 < 2", loc="left")
print("drawn")"""
NAMES = "print([name for name in globals() if 'describe' in name])"
