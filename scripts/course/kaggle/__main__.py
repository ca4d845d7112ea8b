"""Push the built notebooks to Kaggle with its official client, one by one.

make kaggle OWNER=name                                # every notebook of kaggle-metadata.json
make kaggle OWNER=name LESSONS="03 solutions/06"      # those two
make kaggle OWNER=name LANGUAGE=zh LESSONS=workshop   # in Chinese alone, at the same address
python -m course.kaggle --owner name --dry-run      # write build/kaggle, say the hours
python -m course.kaggle --owner name --all          # what has not changed, too

Kaggle runs what it gets, as a saved version, and that uses up GPU hours: so it is said beforehand
how many, and a notebook that has not changed since its last push from here is left out
(build/kaggle-pushed.json says what was pushed). An account may run few at once, so a push that
fails does not stop the others, and the last line is the command that tries the failed ones again.
"""

import argparse
import json
import posixpath
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path, PurePosixPath

from requests import RequestException
from tqdm import tqdm

from course import ROOT, same
from course.files import write
from course.languages import CODES
from course.lesson import about, meant_by
from course.listed import NAME, MetadataError, load, notebook_metadata
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
    """Write one folder to push: the notebook without outputs, and Kaggle's description of it."""
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
    except (RequestException, ValueError) as error:
        return "", one_line(error)
    lost = [*(answer.invalid_dataset_sources or []), *(answer.invalid_kernel_sources or [])]
    without = f"pushed, but without {', '.join(lost)}" if lost else ""
    return answer.url, answer.error or without


def push_all(api, folders: dict[str, Path], pushed: Pushed) -> dict[str, str]:
    """Push one after another; what was not pushed, and why."""
    failed = dict.fromkeys(folders, "interrupted")
    silent = not sys.stderr.isatty()
    try:
        for name, folder in tqdm(folders.items(), unit="notebook", disable=silent):
            place, problem = push(api, folder)
            if problem:
                tqdm.write(f"{name}: FAILED {problem}")
                failed[name] = problem
            else:
                tqdm.write(f"{name}: {place}")
                pushed.add(folder)
                del failed[name]
    except KeyboardInterrupt:
        tqdm.write("publish: interrupted")
    return failed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = "numbers or beginnings of names; none: every notebook"
    parser.add_argument("lessons", nargs="*", help=names)
    owner = f"your Kaggle name, unless {NAME} gives it"
    parser.add_argument("--owner", default="", help=owner)
    one = f"{' or '.join(CODES)}: push the words of one language only"
    parser.add_argument("--language", default="", help=one)
    dry = "write build/kaggle and push nothing"
    parser.add_argument("--dry-run", action="store_true", help=dry)
    again = "push also what has not changed since its last push from here"
    parser.add_argument("--all", action="store_true", help=again)
    parser.add_argument("--root", type=Path, default=ROOT)
    return parser.parse_args()


def main() -> int:
    args = arguments()
    try:
        listed = load(args.root, built=True)
    except MetadataError as error:
        sys.exit("\n".join(f"publish: {line}" for line in str(error).splitlines()))
    owner = args.owner or listed["owner"]
    if not re.fullmatch("[A-Za-z0-9-]+", owner):
        problem = f"“{owner}” is no Kaggle name" if owner else "no Kaggle name is set"
        remedy = "add OWNER=name, the end of your profile's address there"
        sys.exit(f"publish: {problem}: {remedy}.")
    if args.language and args.language not in CODES:
        remedy = f"name {' or '.join(CODES)}, or leave it out for both languages"
        sys.exit(f"publish: LANGUAGE={args.language}: {remedy}.")

    folders = prepare_all(args.root, listed, owner, args.lessons, args.language)
    print(f"{len(folders)} notebooks written to {args.root / 'build' / 'kaggle'}")
    if not listed["repository"]:
        remedy = "`make address REPO=name/course` says where the course is on GitHub"
        print(f"publish: the notebooks have no link to their source: {remedy}.", file=sys.stderr)
    pushed = Pushed(args.root)
    if not args.all:
        written = len(folders)
        folders = {name: path for name, path in folders.items() if not pushed.same(path)}
        print(
            f"{written - len(folders)} have not changed since their last push (--all pushes them)"
        )
    minutes = sum(map(gpu_minutes, folders.values()))
    hours = f"about {minutes / 60:.1f} GPU hours ({minutes} minutes, as the lessons guess)"
    print(f"{len(folders)} to push: running them takes {hours}")
    if args.dry_run or not folders:
        return 0
    failed = push_all(log_in(), folders, pushed)
    print(f"{len(folders) - len(failed)} of {len(folders)} notebooks pushed")
    for name, problem in failed.items():
        print(f"  {name}: {problem}")
    if failed:
        again = f'make kaggle OWNER={owner} LESSONS="{" ".join(failed)}"'
        print(f"Try again, when those that run have ended: {again}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
