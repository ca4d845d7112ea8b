"""The first program: every process says who it is.

Run:  python hello.py              # nobody has given it a rank
      torchrun --standalone --nproc-per-node=2 hello.py
"""

import os

who = f"rank {os.environ.get('RANK')} of {os.environ.get('WORLD_SIZE')}"
# A line and its end are written in one piece. In two, they may mix with what others print.
print(f"{who}: process {os.getpid()}, started by {os.getppid()}\n", end="")
