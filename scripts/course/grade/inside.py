"""Runs as the first process of a sandbox: shows it a small file system, then starts the students'
code there, and waits for it. Started by sandbox.py under `unshare`, as

python -m course.grade.inside FOLDER SETTINGS COMMAND…

SETTINGS is JSON: `shown`, the paths that stay to be read, `data`, a folder to be read as `data`
beside the notebook, or "", and `megabytes`, the room for files. FOLDER, empty, becomes the root.
"""

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

# Of linux/sockios.h and linux/if.h.
GET_FLAGS = 0x8913
SET_FLAGS = 0x8914
UP = 1


def loopback() -> None:
    """Switch the loopback device on."""
    with socket.socket() as plain:
        request = struct.pack("16sh", b"lo", 0)
        _, flags = struct.unpack("16sh", fcntl.ioctl(plain, GET_FLAGS, request))
        request = struct.pack("16sh", b"lo", flags | UP)
        fcntl.ioctl(plain, SET_FLAGS, request)


LIBC = ctypes.CDLL(None, use_errno=True)

# Of linux/mount.h, linux/fs.h, linux/prctl.h and asm/unistd.h.
MS_NOSUID = 2
MS_NODEV = 4
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2
MOUNT_SETATTR = 442
AT_FDCWD = -100
AT_RECURSIVE = 0x8000
READ_ONLY = 1
NO_SUID = 2
NO_DEVICES = 4
DROP_FROM_BOUNDING_SET = 24
NO_NEW_PRIVILEGES = 38

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/sys")
SETTINGS_OF_SYSTEM = ("alternatives", "ld.so.cache", "localtime", "nsswitch.conf")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
HOME = "/home/student"
START = "/notebook"  # where the notebook begins, in an empty folder


def must(answer: int, what: str) -> None:
    """Stop with the system's reason when a call failed."""
    if answer < 0:
        number = ctypes.get_errno()
        sys.exit(f"the sandbox cannot {what}: {os.strerror(number)}")


def mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    answer = LIBC.mount(
        source.encode(), str(target).encode(), kind.encode(), flags, options.encode()
    )
    must(answer, f"mount {source} on {target}")


def show(path: str, root: Path, at: str = "", devices: bool = False) -> None:
    """Let a file or folder be seen in the new root, to be read only (a device: as it is)."""
    target = root / (at or path).lstrip("/")
    if Path(path).is_symlink() and not at:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(Path(path).readlink())
        return
    if Path(path).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount(path, target, "", MS_BIND | MS_REC)
    if not devices:
        attributes = (ctypes.c_uint64 * 4)(READ_ONLY | NO_SUID | NO_DEVICES, 0, 0, 0)
        size = ctypes.sizeof(attributes)
        where = str(target).encode()
        answer = LIBC.syscall(MOUNT_SETATTR, AT_FDCWD, where, AT_RECURSIVE, attributes, size)
        must(answer, f"make {path} read-only (this needs Linux 5.12)")


def make_devices(root: Path) -> None:
    dev = root / "dev"
    for name in ("shm", "pts"):
        (dev / name).mkdir(parents=True)
    for name in DEVICES:
        show(f"/dev/{name}", root, devices=True)
    for name, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        (dev / name).symlink_to(f"/proc/self/fd{target}")
    (dev / "ptmx").symlink_to("pts/ptmx")
    mount("devpts", dev / "pts", "devpts", MS_NOSUID, "newinstance,ptmxmode=0666,mode=620")


def make_root(root: Path, settings: dict) -> None:
    """A new file system in memory; nothing of this machine is in it but what is shown."""
    mount("none", Path("/"), "", MS_REC | MS_PRIVATE)
    room = f"mode=755,size={settings['megabytes']}m,nr_inodes=200k"
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, room)
    for path in SYSTEM:
        if Path(path).exists():
            show(path, root)
    for name in SETTINGS_OF_SYSTEM:
        if Path("/etc", name).exists():
            show(f"/etc/{name}", root, at=f"/etc/{name}")
    (root / "etc" / "passwd").write_text(f"student:x:0:0::{HOME}:/bin/sh\n")
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    make_devices(root)
    mount("tmpfs", root / "dev" / "shm", "tmpfs", MS_NOSUID | MS_NODEV, room)
    for folder in ("/proc", "/tmp", "/old", HOME, START):
        (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
    mount("proc", root / "proc", "proc", MS_NOSUID | MS_NODEV)
    for path in settings["shown"]:
        if not (root / path.lstrip("/")).exists():
            show(path, root)
    if settings["data"]:
        show(settings["data"], root, at=f"{START}/data")


def enter(root: Path) -> None:
    """Let the new root take the place of the old one, which is out of reach from then on."""
    os.chdir(root)
    must(LIBC.pivot_root(b".", b"old"), "change its root")
    os.chdir("/")
    must(LIBC.umount2(b"/old", MNT_DETACH), "take off the old root")
    Path("/old").rmdir()
    os.chdir(START)


def give_up_rights() -> None:
    """What is started from here on may not mount, nor make namespaces in which it could."""
    Path("/proc/sys/user/max_user_namespaces").write_text("0")
    for right in range(64):
        if LIBC.prctl(DROP_FROM_BOUNDING_SET, right, 0, 0, 0) < 0:
            break
    must(LIBC.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0), "give up its rights")


def main() -> int:
    root = Path(sys.argv[1])
    settings = json.loads(sys.argv[2])
    loopback()
    socket.sethostname("localhost")
    make_root(root, settings)
    enter(root)
    give_up_rights()
    child = subprocess.Popen(sys.argv[3:])
    while True:  # it is the parent of whoever has lost its own
        number, status = os.wait()
        if number == child.pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
