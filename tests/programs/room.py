"""A room like Kaggle's, for one command: its own /kaggle, and a network without an internet. Nothing changes outside.

Run:  unshare -rmn python room.py ROOM WORKING [--data FOLDER] [--disk 20m] [--over FILE TARGET] COMMAND…

ROOM is an empty folder that becomes the root: everything of this machine, and /kaggle beside it. The command starts in
/kaggle/working, which is the folder WORKING, or a disk of the size given, or, with `--disk ro`, WORKING read-only.
Data are attached, read-only, where Kaggle attaches CIFAR-10 today. `--over` shows FILE in place of TARGET.
"""

import argparse
import os
import subprocess
from pathlib import Path

from network import loopback

ATTACHED = "kaggle/input/datasets/pankrzysiu/cifar10-python"

parser = argparse.ArgumentParser()
parser.add_argument("--data")
parser.add_argument("--disk", default="")
parser.add_argument("--over", nargs=2)
parser.add_argument("room", type=Path)
parser.add_argument("working")
parser.add_argument("command", nargs=argparse.REMAINDER)
args = parser.parse_args()


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


loopback()
root: Path = args.room
mount("-t", "tmpfs", "room", root)
for entry in Path("/").iterdir():
    if entry.is_symlink():
        (root / entry.name).symlink_to(entry.readlink())
    elif entry.is_dir() and entry.name != "kaggle":
        (root / entry.name).mkdir()
        mount("--rbind", entry, root / entry.name)
for name in ("working", "input", "home"):
    (root / "kaggle" / name).mkdir(parents=True)
working = root / "kaggle" / "working"
if args.disk in ("", "ro"):
    mount("--bind", args.working, working)
else:
    mount("-t", "tmpfs", "-o", f"size={args.disk}", "small", working)
if args.disk == "ro":
    mount("-o", "remount,bind,ro", working)
if args.data:
    (root / ATTACHED).mkdir(parents=True)
    mount("--bind", args.data, root / ATTACHED)
    mount("-o", "remount,bind,ro", root / ATTACHED)
if args.over:
    mount("--bind", args.over[0], root / args.over[1].lstrip("/"))
os.chroot(root)
os.chdir("/kaggle/working")
os.execvpe(args.command[0], args.command, os.environ | {"KAGGLE_KERNEL_RUN_TYPE": "Batch", "HOME": "/kaggle/home"})
