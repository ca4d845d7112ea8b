"""Build the notebooks from `notebooks/src/*.md` and the programs in `scripts/lessons`.

python scripts/build.py            # write every derived file that changed
python scripts/build.py --check    # write nothing; exit 1 when a derived file is not what would be built
"""

import argparse
import ast
import difflib
import hashlib
import html
import importlib.metadata
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode
from opencc import OpenCC

CJK = re.compile(r"[\u3400-\u9fff]")
LAUNCH = re.compile(r"^!torchrun .*?(\w+)\.py\b.*$", re.MULTILINE)
WRITE = re.compile(r"%%writefile (\S+)")
# Mainland words in traditional characters, and what Taiwan says (OpenCC's Taiwan phrases and ../README.md's glossary).
TAIWAN = dict(
    pair.split("→")
    for pair in """內存→記憶體 進程→行程 線程→執行緒 默認→預設 代碼→程式碼 緩存→快取 超時→逾時 顯存→GPU記憶體 網絡→網路
    分布式→分散式 並行→平行 流水線→管線 集合通信→集體通訊 規約→歸約 損失函式→損失函數 批量→批次 加載→載入 採樣→取樣 回調→回呼
    鉤子→hook 帶寬→頻寬 死鎖→死結 服務器→伺服器 文件夾→資料夾 數據→資料 信息→訊息 屏幕→螢幕 視頻→影片 用戶→使用者 變量→變數
    集群→叢集 硬件→硬體 軟件→軟體 字符→字元 循環→迴圈 訪問→存取 運行→執行 調用→呼叫 打印→印出 隊列→佇列 梯度累加→梯度累積
    內核→kernel 圖像→圖片 類型推斷→型別推論 異步→非同步 指針→指標 數組→陣列 字符串→字串 接口→介面""".split()
)


class BuildError(Exception):
    """A source breaks the grammar; the message names the file, the place and the remedy."""


@cache
def simplified(character: str) -> bool:
    """Whether a character is simplified Chinese only: OpenCC changes it, and Big5's common characters lack it."""
    code = character.encode("big5", "ignore")
    return OpenCC("s2t").convert(character) != character and not b"\xa4\x40" <= code <= b"\xc6\x7e"


def check_languages(text: str, place: str) -> None:
    """Every English paragraph is followed by its Chinese one, as written in Taiwan; headings hold both."""
    expected = "English"
    for block in re.split(r"\n\s*\n", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)):
        prose = re.sub(r"`[^`]*`|\$[^$]*\$|\(http\S+\)|<[^>]*>", " ", block).strip()
        start = " ".join(block.split())[:50]
        if bad := [c for c in CJK.findall(prose) if simplified(c)]:
            raise BuildError(f"{place}: simplified characters {''.join(bad)} in “{start}”: write 正體中文.")
        if bad := [f"{word} (write {ours})" for word, ours in TAIWAN.items() if word in prose]:
            raise BuildError(f"{place}: not a word of Taiwan: {', '.join(bad)} in “{start}”.")
        chinese, english = len(CJK.findall(prose)), len(re.findall(r"[A-Za-z]{2,}", prose))
        if block.lstrip().startswith(("#", "|")):
            if not (chinese and english):
                raise BuildError(f"{place}: “{start}” lacks {'English' if chinese else '中文'}: give both.")
        elif chinese or english:
            language = "中文" if chinese >= english else "English"
            if language != expected:
                raise BuildError(f"{place}: “{start}” is {language} where {expected} is expected.")
            expected = "English" if language == "中文" else "中文"
    if expected == "中文":
        raise BuildError(f"{place}: the last English paragraph lacks its 中文.")


def solve(source: str, solved: bool, place: str) -> str:
    """Keep the solution, or put the stub (`# STUB …` lines of the same region) in its place."""

    def region(match: re.Match) -> str:
        lines = match[0].splitlines()[1:-1]
        stubs = [line.replace("# STUB ", "", 1) for line in lines if line.lstrip().startswith("# STUB ")]
        if not stubs:
            raise BuildError(f"{place}: a solution without a `# STUB …` line: unsolved, it must still run.")
        kept = [line for line in lines if not line.lstrip().startswith("# STUB ")]
        indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        return "\n".join(kept if solved else [f"{indent}# your code here ({len(kept)} lines)", *stubs]) + "\n"

    built = re.sub(r"^ *# BEGIN SOLUTION\n.*?^ *# END SOLUTION *(\n|\Z)", region, source, flags=re.M | re.S).rstrip(
        "\n"
    )
    if "# BEGIN SOLUTION" in built or "# END SOLUTION" in built:
        raise BuildError(f"{place}: BEGIN SOLUTION and END SOLUTION do not pair.")
    return built


class Course:
    """One repository: its sources, and every derived file as text by path."""

    def __init__(self, root: Path):
        self.root, self.notebooks = root, root / "notebooks"
        self.lessons = sorted((self.notebooks / "src").glob("*.md"))

    def program(self, name: str, solved: bool, place: str) -> str:
        path = self.root / "scripts" / "lessons" / name
        if not path.exists():
            raise BuildError(f"{place}: there is no scripts/lessons/{name}.")
        if path.stem in sys.stdlib_module_names or path.stem in importlib.metadata.packages_distributions():
            raise BuildError(f"{place}: {name} hides the module `{path.stem}` from every rank: choose another name.")
        return solve(path.read_text(), solved, str(path))

    def lesson(self, path: Path, solved: bool) -> NotebookNode:
        """One lesson as a notebook without outputs."""
        source = jupytext.read(path, fmt="md")
        parameters, written, waiting, cells = set(), set(), None, []
        for number, cell in enumerate(source.cells, 1):
            place, tags = f"{path.relative_to(self.root)}, cell {number}", cell.metadata.get("tags", [])
            if cell.cell_type == "markdown":
                check_languages(cell.source, place)
                text = re.sub(
                    r"^```diff (\S+) (\S+)\n```$",
                    lambda m: self.difference(m[1], m[2], solved, place),  # noqa: B023
                    cell.source,
                    flags=re.MULTILINE,
                )
                cells.append(nbformat.v4.new_markdown_cell(text, metadata={"tags": tags} if tags else {}))
                continue
            if "solution" in tags and not solved:
                continue
            text = solve(cell.source, solved, place)
            if "parameters" in tags:
                parameters |= {target.id for node in ast.parse(text).body for target in getattr(node, "targets", [])}
            if match := WRITE.match(text):
                if text != match[0]:
                    raise BuildError(f"{place}: {match[0]} and nothing else: the program belongs in scripts/lessons.")
                written.add(Path(match[1]).stem)
                text = f"{match[0]}\n{self.program(match[1], solved, place)}"
            elif match := LAUNCH.match(text):
                if text != match[0]:
                    raise BuildError(f"{place}: one launch a cell, on one line, alone.")
                if match[1] not in written:
                    raise BuildError(f"{place}: {match[1]}.py is launched, but no cell before writes it.")
                names = {
                    n.id for part in re.findall(r"{(.*?)}", text) for n in ast.walk(ast.parse(part)) if hasattr(n, "id")
                }
                if unknown := names - parameters:
                    raise BuildError(f"{place}: {unknown} stands in a launch, but not in the parameters cell.")
            if waiting and not re.search(rf'(result|failure)\("{waiting}"', text):
                raise BuildError(f'{place}: the launch of {waiting}.py before it is not read by `result("{waiting}")`.')
            waiting = match[1] if (match := LAUNCH.match(text)) else None
            hidden = {"jupyter": {"source_hidden": True}, "_kg_hide-input": True, "cellView": "form"}
            metadata = ({"tags": tags} if tags else {}) | (hidden if "fold" in tags else {})
            cells.append(nbformat.v4.new_code_cell(text, metadata=metadata))
        if waiting:
            raise BuildError(f"{path.relative_to(self.root)}: the last launch, of {waiting}.py, is never read.")
        return self.notebook(cells, str(path.relative_to(self.root)), source.metadata.get("course", {}))

    def notebook(self, cells: list[NotebookNode], generated_from: str, course: dict) -> NotebookNode:
        seen: dict[str, int] = {}
        for cell in cells:
            digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
            seen[digest] = seen.get(digest, 0) + 1
            cell.id = f"{digest}-{seen[digest]}"
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
        metadata["course"] = course | {"generated_from": generated_from, "built": fingerprint(cells)}
        return nbformat.v4.new_notebook(cells=cells, metadata=metadata)

    def difference(self, old: str, new: str, solved: bool, place: str) -> str:
        before, after = (self.program(name, solved, place).splitlines() for name in (old, new))
        lines = difflib.unified_diff(before, after, old, new, n=1, lineterm="")
        return "```diff\n" + "\n".join(lines) + "\n```"

    def workshop(self, solved: bool) -> NotebookNode | None:
        """The cells that lessons tag `workshop`, in lesson order; each program and each parameter once."""
        cells, programs, parameters = [], {}, {}
        for path in self.lessons:
            for cell in self.lesson(path, solved).cells:
                tags = cell.metadata.get("tags", [])
                if "parameters" in tags:
                    for name, default in re.findall(r"^(\w+) = (.*)$", cell.source, re.MULTILINE):
                        if parameters.setdefault(name, default) != default:
                            raise BuildError(f"{path.name}: {name} has two defaults in the workshop's lessons.")
                if "workshop" not in tags or "parameters" in tags:
                    continue
                if match := WRITE.match(cell.source):
                    if programs.setdefault(match[1], cell.source) == cell.source and match[1] in list(programs)[:-1]:
                        continue
                cells.append(cell)
        if not cells:
            return None
        used = "\n".join(cell.source for cell in cells)
        dials = "\n".join(f"{name} = {value}" for name, value in parameters.items() if re.search(rf"\b{name}\b", used))
        cells.insert(1, nbformat.v4.new_code_cell(dials, metadata={"tags": ["parameters", "workshop"]}))
        code = [cell for cell in cells if cell.cell_type == "code"]
        for n, cell in enumerate(code):
            if match := LAUNCH.match(cell.source):
                if f"{match[1]}.py" not in programs:
                    raise BuildError(f"workshop: {match[1]}.py is launched, but its program is not tagged.")
                if not any(f'("{match[1]}"' in after.source for after in code[n + 1 : n + 2]):
                    raise BuildError(f"workshop: the launch of {match[1]}.py is tagged, its reading cell is not.")
        notebook = self.notebook(cells, "notebooks/src/*.md, cells tagged workshop", {})
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "workshop.ipynb"
            nbformat.write(notebook, file)
            ruff = [
                sys.executable,
                "-m",
                "ruff",
                "check",
                "--isolated",
                "--select",
                "F821",
                "--output-format",
                "concise",
            ]
            said = subprocess.run([*ruff, file], capture_output=True, text=True)
        if said.returncode:
            raise BuildError(f"workshop: a name that no tagged cell defines:\n{said.stdout}")
        return notebook

    def built(self) -> Iterator[tuple[Path, NotebookNode]]:
        for solved, folder in [(False, self.notebooks), (True, self.notebooks / "solutions")]:
            for path in self.lessons:
                yield folder / f"{path.stem}.ipynb", self.lesson(path, solved)
            if workshop := self.workshop(solved):
                yield folder / "workshop.ipynb", workshop

    def derived(self, force: bool = False) -> dict[Path, str]:
        """Every derived file as it should be."""
        files = {}
        for path, notebook in self.built():
            if path.exists():
                old = nbformat.read(path, as_version=4)
                if old.metadata.get("course", {}).get("built") != fingerprint(old.cells) and not force:
                    source = notebook.metadata.course.generated_from
                    raise BuildError(
                        f"{path.relative_to(self.root)} was edited by hand. Move the change to {source} or to the program, "
                        f"then undo it with `git checkout {path.relative_to(self.root)}` (or --force to overwrite it)."
                    )
                keep_outputs(old, notebook)
            files[path] = nbformat.writes(notebook) + "\n"
        readme, deck = self.root / "README.md", self.root / "assets" / "deck.html"
        if readme.exists():
            rows = "".join(self.row(path) for path in self.lessons)
            table = f"| lesson | 課程 | minutes · 分鐘 | solution · 解答 |\n| --- | --- | --- | --- |\n{rows}"
            region = r"(<!-- lessons: filled by scripts/build.py -->\n).*?(<!-- end -->)"
            files[readme] = re.sub(region, lambda m: m[1] + table + m[2], readme.read_text(), flags=re.DOTALL)
        if deck.exists():
            region = r'(<pre data-src="(\S+?)#(\S+?)"[^>]*>).*?(</pre>)'
            fill = lambda m: m[1] + html.escape(self.excerpt(m[2], m[3])) + m[4]  # noqa: E731
            files[deck] = re.sub(region, fill, deck.read_text(), flags=re.DOTALL)
        return files

    def row(self, path: Path) -> str:
        first = next(line for line in path.read_text().splitlines() if line.startswith("# "))
        number, english, chinese = (part.strip() for part in first[2:].split("·"))
        minutes = jupytext.read(path, fmt="md").metadata.course.minutes
        link = f"notebooks/{path.stem}.ipynb"
        return (
            f"| [{number} {english}]({link}) | {chinese} | {minutes} | [✓](notebooks/solutions/{path.stem}.ipynb) |\n"
        )

    def excerpt(self, name: str, part: str) -> str:
        """Lines `L10-L14` of a program, or what stands between its `# region part` and `# endregion`."""
        text = self.program(name, True, "assets/deck.html")
        if lines := re.fullmatch(r"L(\d+)-L(\d+)", part):
            return "\n".join(text.splitlines()[int(lines[1]) - 1 : int(lines[2])])
        if region := re.search(rf"^ *# region {re.escape(part)}\n(.*?)\n *# endregion", text, re.M | re.S):
            return region[1]
        raise BuildError(f"assets/deck.html: {name} has no region “{part}”.")


def fingerprint(cells: list[NotebookNode]) -> str:
    return hashlib.sha256("\0".join(f"{c.cell_type}\n{c.source}" for c in cells).encode()).hexdigest()[:16]


def keep_outputs(old: NotebookNode, new: NotebookNode, machine: dict | None = None) -> int:
    """Copy outputs while the code of a cell and of all code cells before it is the same; how many cells kept theirs."""

    def code(notebook: NotebookNode) -> list[NotebookNode]:
        return [
            c
            for c in notebook.cells
            if c.cell_type == "code" and "injected-parameters" not in c.metadata.get("tags", [])
        ]

    kept = []
    for before, after in zip(code(old), code(new), strict=False):
        if before.source != after.source:
            break
        after.outputs, after.execution_count = before.outputs, before.execution_count
        kept.append(after)
    machine = machine or old.metadata.get("course", {}).get("outputs")
    if machine and kept:
        new.metadata.course["outputs"] = machine | {"code": fingerprint(kept)}
    return len(kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a derived file is out of date")
    parser.add_argument("--force", action="store_true", help="overwrite notebooks that were edited by hand")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    args = parser.parse_args()
    course = Course(args.root.resolve())
    try:
        files = course.derived(args.force)
    except BuildError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    changed = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    built = course.notebooks.glob("**/*.ipynb")
    orphans = [path for path in built if path not in files and ".ipynb_checkpoints" not in path.parts]
    for path in [] if args.check else changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path])
    for path in changed:
        print(
            f"{path.relative_to(course.root)}: {'not what would be built: run `make build`' if args.check else 'written'}"
        )
    for path in orphans:
        print(f"{path.relative_to(course.root)}: no source builds it: delete it, or restore its file in notebooks/src")
    return 1 if orphans or (args.check and changed) else 0


if __name__ == "__main__":
    sys.exit(main())
