"""The report of a run, in build/runs: a page a notebook, also of a failed one, and an index."""

import json
import re
from pathlib import Path
from typing import NamedTuple

import nbformat
from jinja2 import Environment, FileSystemLoader
from nbconvert import HTMLExporter
from nbformat import NotebookNode

from run_files import write
from run_notebook import Run

LOADER = FileSystemLoader(Path(__file__).with_name("templates"))


class Row(NamedTuple):
    """What the index tells of one notebook."""

    page: str
    title: str
    name: str
    seconds: float
    failed: bool
    result: str


def title(notebook: NotebookNode, otherwise: str) -> str:
    """The first heading of a notebook."""
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    heading = re.search(r"^# (.+)", prose, re.MULTILINE)
    return heading[1] if heading else otherwise


def page(exporter: HTMLExporter, run: Run, notebook: NotebookNode) -> str:
    """One notebook as HTML that loads nothing: badges in words, links to lessons lead to their
    pages.
    """
    resources = {
        "metadata": {"name": title(notebook, run.name)},
        "result": run.result(),
        "failed": run.problem.partition("\n")[2],
        "cell": run.place,
    }
    body, _ = exporter.from_notebook_node(notebook, resources)
    body = re.sub(r'<img [^>]*?alt="([^"]*)"[^>]*?src="http[^>]*>', r"\1", body)
    return re.sub(r'(href="[\w/-]+)\.ipynb(["#])', r"\1.html\2", body)


def render(runs: list[Run], site: Path) -> None:
    """Write all pages, the index last: it says ok of pages that are there."""
    exporter = HTMLExporter(
        extra_loaders=[LOADER], template_file="page.html.j2", exclude_anchor_links=True
    )
    rows = []
    for run in runs:
        notebook = nbformat.v4.reads(json.dumps(run.read()))
        name = f"{run.name.replace('/', '-')}.html"
        write(site / name, page(exporter, run, notebook))
        heading = title(notebook, run.name)
        failed = bool(run.problem)
        rows.append(Row(name, heading, run.name, run.seconds, failed, run.result()))
    index = Environment(loader=LOADER, autoescape=True).get_template("index.html.j2")
    write(site / "index.html", index.render(rows=rows))
