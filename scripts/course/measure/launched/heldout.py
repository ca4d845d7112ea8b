"""Run a training program without the test pictures: training pictures are held out for its test.

Run:  torchrun --standalone --nproc-per-node=2 heldout.py fast.py --lr 0.4

In the folder of the lessons' programs. So the bench chooses learning rates.
"""

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path.cwd()))

import cifar10

HELD_OUT = 5000  # of the training pictures
load = cifar10.load


def load_part(train: bool, size: int | None = None) -> tuple:
    """As cifar10.load, from the training pictures alone."""
    x, y, source = load(True)
    part = slice(-HELD_OUT) if train else slice(-HELD_OUT, None)
    return x[part][:size], y[part][:size], source


if __name__ == "__main__":
    cifar10.load = load_part
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
