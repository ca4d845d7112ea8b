"""A notebook that was green on this machine need not run again while nothing of it has changed.

A stamp in build/stamps says what a green run was made of. It counts while all of that is the same,
and never where the environment variable CI is set. To run all: delete build/stamps.
"""

import hashlib
import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

import nbformat

from run_machine import processor

ROOT = Path(__file__).resolve().parents[2]
STAMPS = ROOT / "build" / "stamps"
# What runs a notebook, and what judges it.
TOOLS = sorted((ROOT / "scripts").glob("run*.py"))
TOOLS += sorted((ROOT / "scripts" / "forked").glob("*[!_]"))
TOOLS += [ROOT / "scripts" / "quick_jsonschema.py"]
TOOLS += [Path(__file__).with_name("whole.py")]


def digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def packages() -> list[str]:
    """Every installed package with its version, as `pip freeze` lists them."""
    installed = metadata.distributions()
    return sorted({f"{each.name}=={each.version}" for each in installed})


def machine() -> list[str]:
    """What tells this machine from others, and its GPUs."""
    import torch  # `make check` reads this module, too, without torch

    path = Path("/etc/machine-id")
    number = path.read_text().strip() if path.exists() else ""
    gpus = [torch.cuda.get_device_name(each) for each in range(torch.cuda.device_count())]
    return [number or platform.node(), processor(), str(os.cpu_count()), *gpus]


def parts(prepared: Path, options: list[str]) -> dict[str, str]:
    """What a run of a prepared notebook is made of: name → hash, or the thing itself if short."""
    notebook = nbformat.read(prepared, as_version=4)
    cells = [(cell.cell_type, cell.source, cell.metadata.get("tags")) for cell in notebook.cells]
    tools = [(path.name, path.read_text()) for path in TOOLS]
    return {
        "cells": digest(cells),
        "parameters": digest(notebook.metadata.get("course", {}).get("quick", {})),
        "options": " ".join(options),
        "tools": digest(tools),
        "packages": digest(packages()),
        "python": sys.version,
        "machine": digest(machine()),
    }


def changed(name: str, now: dict[str, str]) -> str:
    """What differs from the green run of this name, in a word or two; "" where nothing does."""
    if os.environ.get("CI"):
        return "CI is set"
    path = STAMPS / f"{name}.json"
    if not path.exists():
        return "no stamp"
    before = json.loads(path.read_text())
    return ", ".join(part for part in now if before.get(part) != now[part])


def stamp(name: str, now: dict[str, str]) -> None:
    """Remember a run that was green."""
    STAMPS.mkdir(parents=True, exist_ok=True)
    (STAMPS / f"{name}.json").write_text(json.dumps(now, indent=1) + "\n")
