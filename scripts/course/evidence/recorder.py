"""Keeps NN_run.json: what this notebook ran, how long it took, and what it printed.

A cell of the copy that goes to Kaggle or to `make evidence`, never of the course's own notebooks.
It prints nothing, and whatever goes wrong in it stops nobody. The file is written anew before and
after each cell, so that a notebook that fails leaves one, too.
"""

import json
import os
import re
import subprocess
import sys
import time
import zlib
from contextlib import suppress
from importlib.metadata import distributions, version
from pathlib import Path

from IPython import get_ipython

LINES, LETTERS = 40, 200  # of what a cell prints
ITEMS, DEPTH = 64, 6  # of what a program reports
SMI = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]


def machine() -> dict:
    """GPUs, driver and versions, without torch: importing it here would take seconds."""
    gpus = []
    driver = ""
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        said = subprocess.run(SMI, capture_output=True, text=True, timeout=20).stdout
        for line in said.strip().splitlines():
            name, driver = line.rsplit(", ", 1)
            gpus.append(name)
    names = [each.metadata["Name"] or "" for each in distributions()]
    nccl = [name for name in names if name.startswith("nvidia-nccl")]
    return {
        "gpus": gpus,
        "driver": driver,
        "torch": version("torch"),
        "nccl": version(nccl[0]) if nccl else "",
        "python": sys.version.split()[0],
        "cores": os.cpu_count(),
        "kaggle": "KAGGLE_KERNEL_RUN_TYPE" in os.environ,
    }


def small(value, depth: int = DEPTH):
    """A value without long texts and lists, which no page could show."""
    if isinstance(value, dict) and depth:
        return {key: small(own, depth - 1) for key, own in list(value.items())[:ITEMS]}
    if isinstance(value, list) and depth and len(value) <= ITEMS:
        return [small(own, depth - 1) for own in value]
    if isinstance(value, str):
        return value[:LETTERS]
    is_number = isinstance(value, (int, float)) and abs(value) < 1e18  # neither NaN nor infinite
    return value if is_number else None


def cut(text: str) -> list[str]:
    """The last lines of a text, each not too long."""
    return [line.rpartition("\r")[2][:LETTERS] for line in text.splitlines()[-LINES:]]


class Copy:
    """Passes on what is printed, and keeps it until the next cell begins."""

    text = ""

    def __init__(self, stream):
        self.stream = stream

    def write(self, text: str) -> int:
        self.text = (self.text + text)[-LINES * LETTERS :]
        return self.stream.write(text)

    def __getattr__(self, name: str):
        return getattr(self.stream, name)


class Recorder:
    """Watches the cells of the notebook that `about` names."""

    def __init__(self, about: dict):
        self.last = about.pop("last")  # the mark of the notebook's last cell
        name = about["notebook"].rpartition("/")[2].split("_")[0]
        self.path = Path(os.environ.get("COURSE_RECORDS", "."), f"{name}_run.json").absolute()
        self.seen: dict = {}  # the newest launch of each program
        self.took = 0.0  # seconds of the last cell
        self.line = ""  # its first line
        self.titles: list[str] = []
        self.start = self.began = time.perf_counter()
        today = time.strftime("%Y-%m-%d", time.gmtime())
        self.run = about | {"date": today, "seconds": 0, "whole": False}
        self.run |= {"running": "", "machine": machine(), "cells": [], "launches": []}
        self.printed = sys.stdout = Copy(sys.stdout)
        events = get_ipython().events
        events.register("pre_run_cell", self.before)
        events.register("post_execute", self.drawn)  # ahead of matplotlib, which closes figures
        events.register("post_run_cell", self.after)

    def write(self) -> None:
        self.run["seconds"] = round(time.perf_counter() - self.start, 1)
        part = Path(f"{self.path}.part")
        part.write_text(json.dumps(self.run, ensure_ascii=False))
        part.replace(self.path)

    def look(self) -> None:
        """Take down the launches that launch.py has watched since the last look."""
        known = getattr(sys.modules.get("launch"), "launches", {})
        for name, launch in list(known.items()):
            if self.seen.get(name) is not launch:
                self.seen[name] = launch
                entry = {"program": name, "code": launch.code, "seconds": round(self.took, 1)}
                ranks = re.search(r"per-node=(\d+)", self.line)
                entry["ranks"] = int(ranks[1]) if ranks else 1
                if launch.code:
                    entry["printed"] = cut(launch.text)
                with suppress(OSError, ValueError):
                    entry["reported"] = small(json.loads(Path(f"{name}.json").read_text()))
                self.run["launches"].append(entry)

    def before(self, info) -> None:
        with suppress(Exception):
            self.look()
            self.printed.text = ""
            self.titles = []
            self.run["running"] = info.raw_cell.strip().partition("\n")[0][:LETTERS]
            self.write()
            self.began = time.perf_counter()

    def drawn(self) -> None:
        with suppress(Exception):
            plots = sys.modules.get("matplotlib._pylab_helpers")
            open_now = plots.Gcf.get_all_fig_managers() if plots else []
            figures = [manager.canvas.figure for manager in open_now]
            titles = [axes.get_title() for figure in figures for axes in figure.axes]
            self.titles = [title[:LETTERS] for title in titles if title]

    def after(self, outcome) -> None:
        if not self.run["running"]:  # our own cell, which has begun before there was a recorder
            return
        with suppress(Exception):
            self.took = time.perf_counter() - self.began
            self.line = self.run["running"]
            mark = f"{zlib.crc32(outcome.info.raw_cell.strip().encode()):08x}"
            cell = {"mark": mark, "line": self.line, "seconds": round(self.took, 1)}
            cell["printed"] = cut(self.printed.text) + self.titles
            error = outcome.error_before_exec or outcome.error_in_exec
            if error is not None:
                said = str(error).strip().splitlines() or [""]
                cell["error"] = f"{type(error).__name__}: {said[-1]}"[:LETTERS]
            self.look()
            self.run["cells"].append(cell)
            self.run["running"] = ""
            self.run["whole"] = mark == self.last and error is None
            self.write()
