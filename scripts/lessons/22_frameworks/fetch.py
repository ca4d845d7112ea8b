"""Puts the three frameworks into a folder of their own, and nothing beside them: no torch.

`from fetch import fetch`; `missing = fetch()`. Where the course's own environment has them already,
nothing is installed. From a shell, as the course's Makefile does it:

Run:  python fetch.py FOLDER        # exits 1 when a framework cannot be had
"""

import os
import shutil
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# What each framework imports beside torch and what came with it.
PINS = {
    "accelerate": ["accelerate==1.15.0", "huggingface_hub==0.36.2", "safetensors==0.8.0"],
    "lightning": ["lightning==2.6.6", "lightning-utilities==0.15.3", "torchmetrics==1.9.0"],
    "deepspeed": [
        "deepspeed==0.19.8",
        "annotated-types==0.8.0",
        "einops==0.8.2",
        "hjson==3.1.0",
        "msgpack==1.2.4",
        "py-cpuinfo==9.0.0",
        "pydantic==2.14.3",
        "pydantic_core==2.50.4",
        "typing-inspection==0.4.5",
        "typing_extensions==4.16.0",
    ],
}
PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1"]
PIP += ["--no-deps"]  # nothing that is not in the list, above all no torch
PIP += ["--no-color"]  # a notebook asks for colours, and its errors would not begin with ERROR
BUILD = {"DS_BUILD_OPS": "0"}  # DeepSpeed is built here: compile none of its kernels


def folder() -> Path:
    """Where they are, or will be: in the environment that `make run` made, else in this folder."""
    default = Path(sys.prefix) / "frameworks"
    made = Path(os.environ.get("COURSE_FRAMEWORKS", default))
    return made if made.is_dir() else Path("frameworks").absolute()


def install(name: str, target: Path) -> None:
    """Install one framework into `target`, whole or not at all."""
    part = target.with_name(f"{name}-{os.getpid()}.part")
    command = [sys.executable, *PIP, "--target", str(part), *PINS[name]]
    done = subprocess.run(command, env=os.environ | BUILD, capture_output=True, text=True)
    if done.returncode == 0 and not target.is_dir():  # another notebook may have been faster
        part.rename(target)
    elif done.returncode:
        lines = done.stderr.splitlines()
        errors = [line for line in lines if line.startswith("ERROR")]
        reasons = errors or lines[-1:] or ["pip failed"]
        print(f"{name}: {reasons[0][:100]}")
    shutil.rmtree(part, ignore_errors=True)


def fetch(place: Path | None = None) -> list[str]:
    """Make the frameworks importable for all that this Python starts; those that it cannot have."""
    place = place or folder()
    place.mkdir(parents=True, exist_ok=True)
    missing = []
    for name, pins in PINS.items():
        began = time.perf_counter()
        target = place / name
        if not target.is_dir():
            install(name, target)
            seconds = time.perf_counter() - began
            print(f"{name}: {seconds:.0f} s")
        if target.is_dir():
            print(pins[0])
            before(target)
        else:
            print(f"{name} cannot be had: its rows are from a kept run, not run here")
            missing.append(name)
    return missing


def has(name: str) -> bool:
    """Whether this Python would import a framework in the tested version, and not in another."""
    try:
        return f"{name}=={version(name)}" == PINS[name][0]
    except PackageNotFoundError:
        return False


def before(target: Path) -> None:
    """Programs that are started from now on look here first."""
    folders = {"PYTHONPATH": target, "PATH": target / "bin"}
    for variable, path in folders.items():
        value = os.environ.get(variable, "")
        paths = [str(path), *value.split(os.pathsep)]
        unique = dict.fromkeys(filter(None, paths))  # a dict keeps their order
        os.environ[variable] = os.pathsep.join(unique)


def main() -> int:
    missing = fetch(Path(sys.argv[1]).absolute())
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
