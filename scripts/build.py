"""Build the notebooks from `notebooks/src/*.md` and the programs in `scripts/lessons`.

python scripts/build.py            # write every derived file that changed
python scripts/build.py --check    # write nothing; exit 1 when a derived file is not what would be built
python scripts/build.py --force    # overwrite notebooks that were edited by hand, too
"""

import argparse
import ast
import base64
import difflib
import hashlib
import html
import io
import json
import re
import subprocess
import sys
import sysconfig
import textwrap
from contextlib import suppress
from copy import copy
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

import jupytext
import nbformat
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image
from ruff.__main__ import find_ruff_bin

import kernels
import rooms
from languages import check_languages

replacing = rooms.load("atomic").replacing
WRITE = re.compile(r"%%writefile (\w+)\.py")
LAUNCH = re.compile(r"!torchrun (?:[^|&;<>$`\\\n]*? )?(\w+)\.py(?: [^|&;<>$`\\\n]*)?")
# Any other way to start a program: under `!`, but not alone and plain; in a `%%bash` cell; by `!python` or `%run`.
UNCLEAN = re.compile(r"""^[^#"'\n]*(?:\btorchrun\b|[!%] *(?:python3?|run)\b.*\.py\b)""", re.MULTILINE)
READ = re.compile(r'\b(?:result|failure)\("(\w+)"')
IMPORT = re.compile(r"^ *(?:from (?=\w+ import)|import )(\w+)", re.MULTILINE)
SOLUTION = re.compile(r"^ *# BEGIN (SOLUTION|LIVE)\n(.*?)^ *# END \1 *(?:\n|\Z)", re.MULTILINE | re.DOTALL)
MAIN = re.compile(r'^@record\n(?:@.*\n)*def main\(.*^if __name__ == "__main__":$', re.MULTILINE | re.DOTALL)
HIDDEN = {"jupyter": {"source_hidden": True}, "_kg_hide-input": True, "cellView": "form"}
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}

Cells = list[tuple[str, NotebookNode]]  # each with its place in the sources, for messages


class BuildError(Exception):
    """A source breaks the grammar; the message names the file, the place and the remedy."""


def demand(truth: object, place: str, otherwise: str) -> None:
    """Stop the build at a place in the sources, with what is wrong there, unless the demand is met."""
    if not truth:
        raise BuildError(f"{place}: {otherwise}")


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def own(cells: "Cells") -> "Cells":
    """The cells of a lesson without those that only the workshop has."""
    return [pair for pair in cells if "class" not in tags(pair[1])]


def about(notebook: NotebookNode) -> dict:
    """What the course records in a notebook: minutes and quick parameters, its source, where its outputs ran."""
    return notebook.metadata.get("course", {})


def fingerprint(cells: list[NotebookNode]) -> str:
    """A hash of what the cells say, without the cell that papermill injects."""
    ours = (f"{cell.cell_type}\n{cell.source}" for cell in cells if "injected-parameters" not in tags(cell))
    return hashlib.sha256("\0".join(ours).encode()).hexdigest()[:16]


def keep_outputs(old: NotebookNode, new: NotebookNode, machine: dict | None = None) -> int:
    """Copy outputs while the code of a cell and of all code cells before it is the same; how many cells kept theirs.

    A cell that papermill injected ends it: what follows ran with other parameters. The pieces of a stream are joined,
    and the line ends of torchrun's terminal become plain ones.
    """
    ran, codes = [], [[cell for cell in book.cells if cell.cell_type == "code"] for book in (old, new)]
    for before, after in zip(*codes, strict=False):
        if before.source != after.source:
            break
        after.outputs, after.execution_count = before.outputs, before.execution_count
        CoalesceStreamsPreprocessor().preprocess_cell(after, {}, 0)
        for output in after.outputs:
            if output.output_type == "stream":
                output.text = output.text.replace("\r\n", "\n")
            elif "image/png" in output.get("data", {}):
                output.data["image/png"] = palette(output.data["image/png"])
        ran += [after] if after.execution_count or after.outputs else []
    machine = machine or about(old).get("outputs")
    if machine and ran:
        new.metadata.course["outputs"] = machine | {"code": fingerprint(ran)}
    return len(ran)


def palette(png: str) -> str:
    """The same picture with 64 colours: a quarter of the bytes, and hardly a difference that a reader sees."""
    image, small = Image.open(io.BytesIO(base64.b64decode(png))), io.BytesIO()
    if image.mode == "P":
        return png
    image.convert("RGB").quantize(64).save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def solve(source: str, solved: bool, place: str, live: bool = False) -> str:
    """Keep the solution, or put the stub (`# STUB …` lines of the same region) in its place.

    A region `LIVE` is an exercise in the workshop alone (`live`), where it is typed in class; lessons have it whole.
    """

    def region(match: re.Match) -> str:
        lines, whole = match[2].splitlines(), solved or (match[1] == "LIVE" and not live)
        kept = [line for line in lines if not line.lstrip().startswith("# STUB")]
        stub = [re.sub("# STUB ?", "", line, count=1) for line in lines if line not in kept]
        demand(stub, place, "a solution without a `# STUB …` line: unsolved, it must still run.")
        indent, plural = re.match(" *", stub[0])[0], "s" * (len(kept) != 1)
        return "\n".join(kept if whole else [f"{indent}# your code here ({len(kept)} line{plural})", *stub]) + "\n"

    built = SOLUTION.sub(region, source).rstrip("\n")
    stray = re.search("# (?:(?:BEGIN|END) (?:SOLUTION|LIVE)|STUB)", built)
    demand(not stray, place, "BEGIN SOLUTION (or LIVE), STUB and END SOLUTION (or LIVE) do not belong together here.")
    return built


def names(code: ast.AST, defined: bool = False) -> set[str]:
    """The names that a piece of code speaks of, or only those that it defines: targets of every kind, and imports."""
    found = {n.id for n in ast.walk(code) if isinstance(n, ast.Name) and (not defined or isinstance(n.ctx, ast.Store))}
    return found | {n.asname or n.name.split(".")[0] for n in ast.walk(code) if isinstance(n, ast.alias)}


def needed(parameters: str, used: set[str]) -> list[ast.stmt]:
    """The statements of a parameters cell on which the used names rest."""
    kept = []
    for statement in reversed(ast.parse(parameters).body):
        if names(statement, defined=True) & used:
            used = used | names(statement)
            kept.insert(0, statement)
    return kept


class Course:
    """One repository: its sources, and every derived file as text by path."""

    def __init__(self, root: Path):
        self.root, self.notebooks, self.programs = root, root / "notebooks", root / "scripts" / "lessons"
        paths = sorted((self.notebooks / "src").glob("*.md"))
        self.sources = {path: jupytext.read(path, fmt="md:markdown") for path in paths}
        self.homes: dict[str, list[Path]] = {}
        for path in sorted(self.programs.glob("*/*.py")):
            self.homes.setdefault(path.stem, []).append(path)
        self.listed = kernels.load(root)  # where the notebooks open elsewhere

    def name(self, path: Path) -> str:
        return str(path.relative_to(self.root))

    def program(self, stem: str, solved: bool, place: str, live: bool = False) -> str:
        homes = self.homes.get(stem, [])
        demand(homes, place, f"no room in {self.name(self.programs)} holds {stem}.py.")
        path = homes[0]
        hidden = stem in sys.stdlib_module_names or PathFinder.find_spec(stem, [sysconfig.get_path("purelib")])
        demand(not hidden, place, f"{path.name} hides the module `{stem}` from every rank: choose another name.")
        text = solve(path.read_text(), solved, self.name(path), live)
        ast.parse(text, self.name(path))
        lines, limit = len(text.splitlines()), 150 if stem == "fast" else 120
        demand(live or lines <= limit, self.name(path), f"{lines} lines; this program may have {limit}.")
        return text

    def lesson(self, path: Path, solved: bool) -> Cells:
        """The cells of one lesson, with those tagged `class`, which stand in the workshop alone."""
        cells = []
        for number, cell in enumerate(map(copy, self.sources[path].cells), 1):
            place, labels = f"{self.name(path)}, cell {number}", tags(cell)
            if "solution" in labels and not solved:
                continue
            cell.metadata = NotebookNode(({"tags": labels} if labels else {}) | (HIDDEN if "fold" in labels else {}))
            if cell.cell_type == "markdown":
                demand(not (problem := check_languages(cell.source)), place, problem)
                cell.source = self.differences(cell.source, solved, place)
                if "<!-- errors -->" in cell.source:
                    cell.source = cell.source.replace("<!-- errors -->", self.errors())
            elif cell.source.startswith("%%writefile"):
                match = WRITE.fullmatch(cell.source)
                demand(match, place, "`%%writefile NAME.py` and nothing else: the program stands in scripts/lessons.")
                cell.source += "\n" + self.program(match[1], solved, place)
            else:
                cell.source = solve(cell.source, solved, place)
                demand(len(cell.source.splitlines()) <= 12, place, "a cell has 12 lines at most, or it is a program.")
            cells.append((place, cell))
        self.check_launches(own(cells))
        return cells

    def differences(self, text: str, solved: bool, place: str) -> str:
        """Markdown with each empty diff block filled in."""

        def fill(match: re.Match) -> str:
            pair = re.fullmatch(r"(\w+)\.py (\w+)\.py", match[1])
            demand(pair and not match[2], place, "a diff names two programs, OLD.py NEW.py, and holds nothing.")
            old, new = (self.program(stem, solved, place).splitlines() for stem in pair.groups())
            return "\n".join(["```diff", *difflib.unified_diff(old, new, *match[1].split(), n=1, lineterm=""), "```"])

        return re.sub(r"^```diff *(.*)\n((?:.*\n)*?)```$", fill, text, flags=re.MULTILINE)

    def check_launches(self, cells: Cells) -> None:
        """Refuse what would fail late or in silence: a launch, import or reading cell without what it rests on."""
        parameters, written, launched, unread = set(), {}, set(), None
        programs = set(self.homes)
        for place, cell in [pair for pair in cells if pair[1].cell_type == "code"]:
            text, launch, read = cell.source, LAUNCH.fullmatch(cell.source), READ.findall(cell.source)
            demand(not unread or unread in read, place, f'read the launch of {unread}.py here: `result("{unread}")`.')
            unread = launch and launch[1]
            if "parameters" in tags(cell):
                parameters |= names(ast.parse(text, place), defined=True)
            if program := WRITE.match(text):
                written[program[1]] = text
                continue
            unclean = not launch and UNCLEAN.search(text)
            demand(not unclean, place, "a launch is `!torchrun … NAME.py …`, alone, on one line, nothing shell-clever.")
            demand(launched.issuperset(read), place, f"no cell before launches {set(read) - launched}, which it reads.")
            needed = [unread] if launch else [m for m in IMPORT.findall(text) if m in programs]
            for module in needed:  # grows while we walk: programs import programs
                demand(module in written, place, f"it needs {module}.py, which no cell before writes.")
                needed += [m for m in IMPORT.findall(written[module]) if m in programs and m not in needed]
            if launch:
                launched.add(unread)
                shape = MAIN.search(written[unread])
                demand(shape, place, f"{unread}.py lacks `@record` on `main`, or the guard at its end that calls it.")
                used = {name for part in re.findall(r"{(.*?)}", text) for name in names(ast.parse(part, place))}
                demand(used <= parameters, place, f"no parameters cell before sets {used - parameters}.")
        demand(not unread, place, f'no cell reads this launch: add `result("{unread}")`.')

    def workshop(self, lessons: dict[Path, Cells], solved: bool) -> dict[str, NotebookNode]:
        """The cells that lessons tag `workshop` or `class`, in lesson order; each program and each parameter once.

        A cell tagged `after-06`, too, waits until those of lesson 06 are done.
        """
        chosen, written, defaults, dials, quick = [], set(), {}, {}, {}
        for path, lesson in lessons.items():
            used, taken = set(), set()
            for place, cell in lesson:
                if {"workshop", "class"} & set(tags(cell)) and "parameters" not in tags(cell):
                    later = next((f"{tag[6:]}~" for tag in tags(cell) if re.fullmatch(r"after-\d+", tag)), path.stem)
                    chosen.append((later, place, copy(cell)))
                    if cell.cell_type == "code" and not WRITE.match(cell.source):
                        used |= set(re.findall(r"\w+", cell.source))
            for place, cell in [pair for pair in lesson if "parameters" in tags(pair[1])]:
                for node in needed(cell.source, used):
                    code = ast.get_source_segment(cell.source, node)
                    for name in names(node, defined=True):
                        taken.add(name)
                        demand(defaults.setdefault(name, code) == code, place, f"the workshop has another {name}.")
                    dials[code] = "\n".join(cell.source.splitlines()[node.lineno - 1 : node.end_lineno])
            quicker = about(self.sources[path]).get("quick", {})
            quick |= {name: value for name, value in quicker.items() if name in taken}
        cells = []
        for _, place, cell in sorted(chosen, key=lambda one: one[0]):
            if program := WRITE.match(cell.source):
                if program[1] in written:
                    continue
                written.add(program[1])
                cell.source = f"{program[0]}\n{self.program(program[1], solved, place, live=not solved)}"
            cells.append((place, cell))
        if not cells:
            return {}
        first = next((n for n, (_, cell) in enumerate(cells) if cell.cell_type == "code"), len(cells))
        parameters = new_code_cell("\n".join(dials.values()), metadata={"tags": ["parameters", "workshop"]})
        cells.insert(first, ("workshop", parameters))
        self.check_launches(cells)
        notebook = self.notebook(cells, "notebooks/src/*.md, cells tagged workshop", {"quick": quick})
        ruff = [find_ruff_bin(), "check", "--isolated", "--select=F821", "--output-format=concise", "--quiet"]
        ruff += ["--stdin-filename=workshop.ipynb", "-"]
        said = subprocess.run(ruff, input=nbformat.writes(notebook), capture_output=True, text=True)
        demand(said.returncode == 0, "workshop", f"no tagged cell defines a name:\n{said.stdout}{said.stderr}")
        return {"workshop": notebook}

    def notebook(self, cells: Cells, generated_from: str, course: dict) -> NotebookNode:
        """Cells whose ids depend on their content alone, and the record of where they come from."""
        plain, seen = [cell for _, cell in cells], {}
        for cell in plain:
            digest = fingerprint([cell])[:12]
            seen[digest] = seen.get(digest, 0) + 1
            cell.id = f"{digest}-{seen[digest]}"
        course = course | {"generated_from": generated_from, "built": fingerprint(plain)}
        metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}, "course": course}
        return new_notebook(cells=plain, metadata=metadata)

    def open_elsewhere(self, notebook: NotebookNode, name: str) -> None:
        """Badges and the way back to the source under the title; in the metadata, the machine for Kaggle and Colab."""
        first, source = notebook.cells[0], kernels.source(self.listed, name)
        if title := re.match("# .*", first.source):
            line = f"{kernels.badges(self.listed, name)} [source · 原始檔]({source})"
            first.source = f"{title[0]}\n\n{line}{first.source[title.end() :]}"
            first.id = f"{fingerprint([first])[:12]}-1"
            notebook.metadata.course["built"] = fingerprint(notebook.cells)
        notebook.metadata |= kernels.notebook_metadata(kernels.settings(self.listed, name))

    def derived(self, force: bool = False) -> dict[Path, str]:
        """Every derived file as it should be."""
        files = {}
        for solved, folder in [(False, self.notebooks), (True, self.notebooks / "solutions")]:
            lessons = {path: self.lesson(path, solved) for path in self.sources}
            built = self.workshop(lessons, solved)
            for path, cells in lessons.items():
                built[path.stem] = self.notebook(own(cells), self.name(path), about(self.sources[path]))
            for stem, notebook in built.items():
                path = folder / f"{stem}.ipynb"
                self.open_elsewhere(notebook, self.name(path))
                if path.exists():
                    old = new_notebook()  # stands for a file that is no notebook, as a merge conflict leaves it
                    with suppress(ValueError):
                        old = nbformat.read(path, as_version=4)
                    untouched = about(old).get("built") == fingerprint(old.cells)
                    remedy = f"move the change to {about(notebook).generated_from} or the program, then build --force."
                    demand(untouched or force, self.name(path), f"this notebook was edited by hand: {remedy}")
                    keep_outputs(old, notebook)
                files[path] = nbformat.writes(notebook) + "\n"
        readme, assets = self.root / "README.md", self.root / "assets"
        if readme.exists():
            text, tables = readme.read_text(), {"lessons": self.table(), "errors": self.errors("notebooks/")}
            for name, table in tables.items():
                region = rf"(<!-- {name}: filled by scripts/build.py -->\n)(?:(?!<!-- ).)*(<!-- end -->)"
                text, count = re.subn(region, lambda m, table=table: m[1] + table + m[2], text, flags=re.DOTALL)
                demand(count == 1, "README.md", f"it lacks its marked region for the table of {name}.")
            files[readme] = text
        files |= {path: self.filled(path) for path in [*assets.glob("*.html"), *assets.glob("*.md")]}
        return files

    def filled(self, path: Path) -> str:
        """A page of assets/ with its code and its measured numbers filled in."""
        place = self.name(path)

        def code(match: re.Match) -> str:
            return match[1] + html.escape(self.excerpt(match[2], place), quote=False) + match[3]

        def number(match: re.Match) -> str:
            return match[1] + self.measured(match[2], place) + match[3]

        text = re.sub(r'(<pre [^>]*?data-src="([^"]*)"[^>]*>).*?(</pre>)', code, path.read_text(), flags=re.DOTALL)
        return re.sub(r'(<span [^>]*?data-run="([^"]*)"[^>]*>).*?(</span>)', number, text)

    def table(self) -> str:
        """The rows of the README's list of lessons."""
        rows = ["| lesson | 課程 | minutes · 分鐘 | open · 開啟 | solution · 解答 |", "| --- | --- | --- | --- | --- |"]
        for path, source in self.sources.items():
            title, minutes = re.match(r"# (\d+) · (.+?) · (.+)", source.cells[0].source), about(source).get("minutes")
            demand(title and minutes, self.name(path), "begin with `# 03 · Title · 標題`, and give `minutes` above it.")
            link, solution = f"notebooks/{path.stem}.ipynb", f"notebooks/solutions/{path.stem}.ipynb"
            cells = [f"[{title[1]} {title[2]}]({link})", title[3], str(minutes), kernels.badges(self.listed, link)]
            rows.append(f"| {' | '.join(cells)} | [✓]({solution}) |")
        if any("workshop" in tags(cell) for source in self.sources.values() for cell in source.cells):
            link, solution = "notebooks/workshop.ipynb", "notebooks/solutions/workshop.ipynb"
            cells = [f"[The workshop]({link})", "九十分鐘的工作坊", "90", kernels.badges(self.listed, link)]
            rows.append(f"| {' | '.join(cells)} | [✓]({solution}) |")
        return "\n".join(rows) + "\n"

    def errors(self, folder: str = "") -> str:
        """The table from error text to section that the newest `--outputs` has met; its links go through `folder`."""
        path = self.root / "assets" / "errors.md"

        @cache
        def cells(source: Path) -> list[NotebookNode]:
            return self.notebook(own(self.lesson(source, False)), self.name(source), {}).cells

        def linked(match: re.Match) -> str:
            source = self.notebooks / "src" / f"{match[2]}.md"
            demand(source in self.sources, self.name(path), f"there is no {self.name(source)}.")
            heading = re.compile(rf"^#+ {re.escape(match[1])}(?: · |$)", re.MULTILINE)
            ids = [cell.id for cell in cells(source) if cell.cell_type == "markdown" and heading.search(cell.source)]
            demand(ids, self.name(path), f"{self.name(source)} has no section “{match[1]}”: correct its `index` cell.")
            return f"[{match[1]}]({folder}{match[2]}.ipynb#cell-id={ids[0]})"  # Jupyter finds no heading in Chinese

        return re.sub(r"\[([^]]*)\]\((\w+)\.ipynb\)", linked, path.read_text()) if path.exists() else ""

    def excerpt(self, source: str, place: str) -> str:
        """`ddp.py#L10-L14`: these lines; `ddp.py#name`: what stands between `# region name` and `# endregion`."""
        name, _, part = source.partition("#")
        text = self.program(name.removesuffix(".py"), True, place) + "\n"
        if lines := re.fullmatch(r"L(\d+)-L(\d+)", part):
            first, last = int(lines[1]), int(lines[2])
            found = re.match(rf"(?:.*\n){{{first - 1}}}((?:.*\n){{{last - first + 1}}})", text)
        else:
            found = re.search(rf"^ *# region {re.escape(part)}\n((?:.*\n)*?) *# endregion", text, re.MULTILINE)
        demand(found, place, f"{source} is nowhere: write NAME.py#L1-L9 or NAME.py#region.")
        return textwrap.dedent(found[1]).rstrip("\n")

    def measured(self, source: str, place: str) -> str:
        """`bench.json#ROW#ratio` of a run in assets, with two decimals; `bench.json#machine#cores`: where it ran."""
        name, row, field = [*source.split("#"), "", ""][:3]
        path = self.root / "assets" / name
        run = json.loads(path.read_text()) if path.is_file() else {"machine": {}, "rows": []}
        found = run["machine"] if row == "machine" else next((r for r in run["rows"] if r["row"] == row), {})
        demand(field in found, place, f"{source} is nowhere: write RUN.json#row#ratio or #machine#cores.")
        return f"{found[field]:.2f}" if isinstance(found[field], float) else html.escape(str(found[field]), quote=False)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a derived file is out of date")
    parser.add_argument("--force", action="store_true", help="overwrite notebooks that were edited by hand")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    args = parser.parse_args(arguments)
    try:
        course = Course(args.root.resolve())
        files = course.derived(args.force)
    except (BuildError, SyntaxError, kernels.MetadataError) as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    changed = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in changed:
        if not args.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                file.write(files[path].encode())
        print(f"{course.name(path)}: {'not what would be built: run `make build`' if args.check else 'written'}")
    orphans = [p for p in course.notebooks.glob("**/*.ipynb") if p not in files and ".ipynb_checkpoints" not in p.parts]
    for path in orphans:
        print(f"{course.name(path)}: no source builds it: delete it, or restore its file in notebooks/src")
    return 1 if orphans or (args.check and changed) else 0


if __name__ == "__main__":
    sys.exit(main())
