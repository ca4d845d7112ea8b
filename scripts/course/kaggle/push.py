"""Prepare the built notebooks for Kaggle, and push them with its official client.

What was pushed is remembered in build/kaggle-pushed.json, so that nothing is run twice.
"""

import json
import posixpath
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path, PurePosixPath

from requests import ReadTimeout, RequestException

from course import same
from course.evidence.record import RECORDED, fit, what_runs
from course.files import write
from course.kaggle import fetch
from course.lesson import Lesson, about, meant_by
from course.listed import notebook_metadata
from course.outputs import in_language


def short(kernel: dict) -> str:
    """`03_training_loop`, `solutions/06_ddp`: the name of a notebook as `make run` knows it."""
    return str(PurePosixPath(kernel["code_file"]).relative_to("notebooks").with_suffix(""))


def address(owner: str, kernel: dict) -> str:
    return f"https://www.kaggle.com/code/{owner}/{kernel['slug']}"


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def choose(kernels: list[dict], names: list[str]) -> list[dict]:
    """The notebooks that these names begin, all of them without names."""
    known = {short(kernel): kernel for kernel in kernels}
    chosen = {}
    for name in names:
        matching = meant_by(name, known)
        if not matching:
            sys.exit(f"publish: no notebook begins with “{name}”: there is {', '.join(known)}")
        chosen |= {each: known[each] for each in matching}
    return list(chosen.values()) or kernels


def linked(text: str, code_file: str, addresses: dict[str, str]) -> str:
    """Markdown whose links to lessons lead to Kaggle: there no file lies beside the notebook."""

    def lead(match: re.Match) -> str:
        target = posixpath.join(posixpath.dirname(code_file), match[1])
        return f"]({addresses.get(posixpath.normpath(target), match[1])})"

    return re.sub(r"\]\(([\w./]+\.ipynb)\)", lead, text)


def prepare(root: Path, kernel: dict, addresses: dict[str, str], language: str) -> Path:
    """Write one folder to push: the notebook without outputs, and Kaggle's description of it.

    A solved notebook gets the cell that records its run; learners' own stay as they are.
    """
    import nbformat

    path = root / kernel["code_file"]
    folder = root / "build" / "kaggle" / kernel["slug"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
        else:
            cell.source = linked(cell.source, kernel["code_file"], addresses)
    if language:
        in_language(notebook, language)
    if short(kernel).startswith("solutions/"):
        fit(notebook, short(kernel))
    notebook.metadata.update(notebook_metadata(kernel))
    about(notebook).pop("outputs", None)
    nbformat.write(notebook, folder / path.name)

    identity = addresses[kernel["code_file"]].partition("/code/")[2]
    described = {"id": identity} | kernel | {"code_file": path.name}
    del described["slug"]
    if not kernel["enable_gpu"]:
        del described["machine_shape"]  # it names two GPUs
    text = json.dumps(described, indent=2) + "\n"
    (folder / "kernel-metadata.json").write_text(text)
    return folder


class Pushed:
    """What was pushed from this clone: a hash of each folder, by the notebook's address."""

    def __init__(self, root: Path):
        self.path = root / "build" / "kaggle-pushed.json"
        self.hashes: dict[str, str] = {}
        with suppress(OSError, ValueError):  # never pushed from here, or spoilt: push all
            self.hashes = dict(json.loads(self.path.read_text()))

    def same(self, folder: Path) -> bool:
        """Whether this folder is what was pushed last."""
        return self.hashes.get(identity(folder)) == contents(folder)

    def add(self, folder: Path) -> None:
        """Write down at once that a folder has been pushed: whatever comes next may fail."""
        self.hashes[identity(folder)] = contents(folder)
        write(self.path, json.dumps(self.hashes, indent=1))


def identity(folder: Path) -> str:
    """`owner/slug` of a prepared notebook."""
    return json.loads((folder / "kernel-metadata.json").read_text())["id"]


def contents(folder: Path) -> str:
    """A hash of all that is pushed."""
    return same.digest([[path.name, path.read_text()] for path in sorted(folder.iterdir())])


def gpu_minutes(folder: Path) -> int:
    """How many minutes of two GPUs a run of a prepared notebook takes, as its lesson guesses."""
    [path] = folder.glob("*.ipynb")
    return about(json.loads(path.read_text())).get("gpu_minutes", 0)


def code_of(folder: Path) -> str:
    """The hash of what a prepared notebook runs, without the cell that records it."""
    import nbformat

    [path] = folder.glob("*.ipynb")
    cells = Lesson.of(nbformat.read(path, as_version=4)).cells
    return what_runs([cell for cell in cells if cell.node.id != RECORDED])


def prepare_all(
    root: Path, listed: dict, owner: str, names: list[str], language: str
) -> dict[str, Path]:
    """The folders to push, by the notebooks' names."""
    addresses = {kernel["code_file"]: address(owner, kernel) for kernel in listed["kernels"]}
    folders = {}
    for kernel in choose(listed["kernels"], names):
        try:
            folders[short(kernel)] = prepare(root, kernel, addresses, language)
        except (OSError, ValueError) as error:
            # A full disk, or a notebook with the marks of a merge conflict.
            why = f"{kernel['code_file']}: {one_line(error)}"
            remedy = "make room in build, or the notebook again with `make build`"
            sys.exit(f"publish: {why}. Nothing is pushed: {remedy}.")
    return folders


def log_in():
    """The official client, which alone reads the credentials.

    Without any it tells how to get some, and exits.
    """
    fetch.limit_waiting()
    from kaggle import api  # only here: importing it already asks Kaggle whose credentials they are

    try:
        api.authenticate()
    except RequestException as error:
        remedy = "Check the network, then run this again."
        sys.exit(f"publish: Kaggle does not answer: {one_line(error)}. {remedy}")
    return api


def push(api, folder: Path) -> tuple[str, str]:
    """Where a notebook now stands on Kaggle, and what is wrong with that ("" when nothing is)."""
    try:
        answer = api.kernels_push(str(folder))
    except ReadTimeout:
        late = f"Kaggle has not answered for {fetch.LIMIT[1]:g} s"
        return "", f"{late}; perhaps it runs the notebook all the same: PARTS=--now shows that"
    except (RequestException, ValueError) as error:
        return "", one_line(error)
    lost = [*(answer.invalid_dataset_sources or []), *(answer.invalid_kernel_sources or [])]
    without = f"pushed, but without {', '.join(lost)}" if lost else ""
    return answer.url, answer.error or without
