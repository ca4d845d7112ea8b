"""A room like Kaggle's, for one command: its own /kaggle, and a network without an internet.

Nothing changes outside.

Run:  unshare -rmn python room.py ROOM WORKING [OPTIONS] COMMAND…
OPTIONS are --data FOLDER, --disk 20m and --over FILE TARGET.

ROOM is an empty folder that becomes the root: everything of this machine, and /kaggle beside it.
The command starts in /kaggle/working, which is the folder WORKING, or a disk of the size given, or,
with `--disk ro`, WORKING read-only. Data are attached, read-only, where Kaggle attaches CIFAR-10
today. `--over` shows FILE in place of TARGET.
"""

import argparse
import os
import subprocess
from pathlib import Path

from device import loopback

ATTACHED = "kaggle/input/datasets/pankrzysiu/cifar10-python"
KAGGLE = {"KAGGLE_KERNEL_RUN_TYPE": "Batch", "HOME": "/kaggle/home"}


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


def make_read_only(folder: Path) -> None:
    """For a folder that is a mount of its own."""
    mount("-o", "remount,bind,ro", folder)


def show_machine(root: Path) -> None:
    """Everything in / except /kaggle, below another root too."""
    mount("-t", "tmpfs", "room", root)
    for entry in Path("/").iterdir():
        if entry.is_symlink():
            (root / entry.name).symlink_to(entry.readlink())
        elif entry.is_dir() and entry.name != "kaggle":
            (root / entry.name).mkdir()
            mount("--rbind", entry, root / entry.name)


def make_kaggle(root: Path, working: str, disk: str) -> None:
    """/kaggle with its folders below this root, `working` on the disk asked for."""
    for name in ("working", "input", "home"):
        (root / "kaggle" / name).mkdir(parents=True)
    target = root / "kaggle" / "working"
    if disk in ("", "ro"):
        mount("--bind", working, target)
    else:
        mount("-t", "tmpfs", "-o", f"size={disk}", "small", target)
    if disk == "ro":
        make_read_only(target)


parser = argparse.ArgumentParser()
parser.add_argument("--data")
parser.add_argument("--disk", default="")
parser.add_argument("--over", nargs=2)
parser.add_argument("room", type=Path)
parser.add_argument("working")
parser.add_argument("command", nargs=argparse.REMAINDER)
args = parser.parse_args()

loopback()
show_machine(args.room)
make_kaggle(args.room, args.working, args.disk)
if args.data:
    attached = args.room / ATTACHED
    attached.mkdir(parents=True)
    mount("--bind", args.data, attached)
    make_read_only(attached)
if args.over:
    shown, target = args.over
    mount("--bind", shown, args.room / target.lstrip("/"))

os.chroot(args.room)
os.chdir("/kaggle/working")
os.execvpe(args.command[0], args.command, os.environ | KAGGLE)
