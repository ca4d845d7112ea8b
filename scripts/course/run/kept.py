"""build/executed: the notebooks of `make run` as they ran, and runs.json, how each of them ended.

A run that was interrupted, or in which a notebook failed, has something left: the next run keeps
what was green, if notebook, packages and options are the same, and runs the rest. After a run that
was green to its end, the next one begins anew.
"""

import sys
from importlib.metadata import distributions
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course import report, same
from course.lesson import WORKSHOP, BuildError, about, tags
from course.run.notebook import NOTEBOOKS, Run, name_of
from course.run.notebooks import file_name, keep


class Kept:
    """The rows of runs.json, by the notebooks' names, and what it takes to believe them."""

    def __init__(self, folder: Path, chosen: dict[Path, NotebookNode], forked: bool):
        self.folder = folder
        self.chosen = chosen
        self.forked = forked
        self.packages = sorted(f"{each.name} {each.version}" for each in distributions())
        self.asked = {name_of(path) for path in chosen}
        self.rows: dict[str, dict] = {}
        self.take_over()
        self.write()

    def __contains__(self, path: Path) -> bool:
        return name_of(path) in self.rows

    def of(self, chosen: dict[Path, NotebookNode]) -> list[dict]:
        """The rows of these notebooks."""
        return [self.rows[name_of(path)] for path in chosen]

    def parameters(self, path: Path, notebook: NotebookNode) -> dict:
        """What takes the place of a notebook's own parameters.

        The class meets its own, small ones: what large ones show is in its lessons.
        """
        return about(notebook).get("quick", {}) if path.stem == WORKSHOP else {}

    def stamp(self, path: Path) -> str:
        """The same as long as a notebook would run the same."""
        notebook = self.chosen.get(path) or nbformat.read(path, as_version=4)
        cells = [[cell.cell_type, cell.source, tags(cell)] for cell in notebook.cells]
        options = [self.parameters(path, notebook), self.forked, sys.version]
        return same.digest(cells, options, self.packages)

    def take_over(self) -> None:
        """Keep what an earlier run has left unfinished, and delete all else."""
        try:
            earlier = report.read(self.folder)
        except BuildError:  # there was none, or it was interrupted before its first line
            earlier = {"finished": True}
        if not earlier.get("finished", True):
            for row in earlier["runs"]:
                path = NOTEBOOKS / f"{row['name']}.ipynb"
                if row["ok"] and path.exists() and self.stamp(path) == row["stamp"]:
                    self.rows[row["name"]] = row
            self.asked.update(earlier["asked"])
        there = {file_name(name) for name in self.rows}
        for path in self.folder.glob("*.ipynb"):
            if path.name not in there:
                path.unlink()

    def add(self, run: Run, facts: dict) -> None:
        """Keep a notebook that has just ended."""
        row = keep(run, self.folder)
        self.rows[run.name] = row | facts | {"stamp": self.stamp(run.path)}
        self.write()

    def finish(self) -> None:
        """All is done, and shown: if nothing that an earlier run was asked for is left."""
        done = {name for name, row in self.rows.items() if row["ok"]}
        self.write(finished=self.asked <= done)

    def write(self, finished: bool = False) -> None:
        rows = [self.rows[name] for name in sorted(self.rows)]
        facts = {"quick": False, "finished": finished, "asked": sorted(self.asked)}
        report.keep(rows, self.folder, **facts)
