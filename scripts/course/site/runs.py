"""The page *Runs* of the site: what ran, for how long, how it ended, and where it failed."""

import json
import re
import textwrap
from pathlib import Path

import nbformat

PLACE = re.compile(r"in cell (?P<number>\d+): (?P<code>.*)")
KEPT = """\
# Runs · 執行紀錄

Nothing was run for these pages: they show the outputs that are kept in the repository. `make run` \
runs every notebook and builds the site from what they print and draw.

這些頁面沒有重新執行 notebook，顯示的是儲存庫裡保留的輸出。`make run` 會執行全部 notebook，並用新的\
輸出產生網站。
"""
RAN = """\
# Runs · 執行紀錄

These notebooks ran until {ended}{quick}. Their pages show what they printed and drew then; other \
pages show the outputs that are kept in the repository.{forked}

以下 notebook 執行到 {ended} 為止{quick_chinese}。它們的頁面顯示的是這次\
印出和畫出的結果，其他頁面則是儲存庫裡保留的輸出。{forked_chinese}

| lesson · 課程 | seconds · 秒 | result · 結果 | failed in cell · 失敗的儲存格 |
| --- | ---: | --- | --- |
{rows}

{failures}
"""
FORKED = """\
 Of {launches} launches {forked} were forked from a process that had imported torch; \
`make run PLAIN=1` starts each one as readers do."""
FORKED_CHINESE = """\
{launches} 次啟動中有 {forked} 次是從已經匯入 torch 的行程 fork 出來的；\
`make run PLAIN=1` 則全部照讀者的方式啟動。"""
FAILED = """\
({label})=
**The run failed in the next cell.**

**執行到下一格時失敗。**
"""


def label(run: dict) -> str:
    """What the site calls the place of a failure."""
    return f"failed-{run['name'].replace('/', '-')}-{run['cell']}"


def code(text: str) -> str:
    """Some code in a cell of a table."""
    text = text[:80].replace("|", "\\|")
    return f"`` {text} ``" if text.strip() else ""


def row(run: dict, there: bool) -> str:
    """One notebook; `there`: whether the site has a page of it."""
    name = f"[{run['name']}](notebooks/{run['name']}.ipynb)" if there else f"`{run['name']}`"
    cells = [name, str(run["seconds"]), "ok · 成功" if run["ok"] else "**FAILED** · **失敗**", ""]
    place = PLACE.match(run["what"])
    if place and there and run["cell"]:
        cells[3] = f"[{place['number']}](#{label(run)}): {code(place['code'])}"
    elif not run["ok"]:
        cells[3] = code(run["what"])
    return f"| {' | '.join(cells)} |"


def failure(run: dict) -> str:
    """The last lines of a notebook that failed, as they were printed."""
    return f"## {run['name']}\n\n{textwrap.indent(run['lines'], '    ')}\n"


def page(report: dict, names: set[str]) -> str:
    """The page, with a table; `names`: of the notebooks in the site."""
    runs = report["runs"]
    counts = {}
    for what in ("launches", "forked"):
        counts[what] = sum(run.get(what, 0) for run in runs)
    facts = {
        "ended": report["ended"],
        "quick": ", with the small parameters of the tests" if report["quick"] else "",
        "quick_chinese": "（使用測試用的小參數）" if report["quick"] else "",
        "forked": FORKED.format(**counts) if counts["forked"] else "",
        "forked_chinese": FORKED_CHINESE.format(**counts) if counts["forked"] else "",
        "rows": "\n".join(row(run, run["name"] in names) for run in runs),
        "failures": "\n".join(failure(run) for run in runs if run.get("lines")),
    }
    return RAN.format(**facts)


def mark(pages: Path, report: dict) -> None:
    """Say in a notebook's page, above the failing cell, that it failed there."""
    for run in report["runs"]:
        path = pages / "notebooks" / f"{run['name']}.ipynb"
        if run["ok"] or not run["cell"] or not path.exists():
            continue
        notebook = nbformat.read(path, as_version=4)
        at = [number for number, cell in enumerate(notebook.cells) if cell.id == run["cell"]]
        if at:
            said = nbformat.v4.new_markdown_cell(FAILED.format(label=label(run)))
            notebook.cells.insert(at[0], said)
            path.write_text(json.dumps(notebook))


def told(report: dict, site: Path) -> str:
    """A line on the failed notebooks; "" if all went well."""
    failed = [run for run in report["runs"] if not run["ok"]]
    if not failed:
        return ""
    names = "; ".join(f"{run['name']} {run['what']}" for run in failed)
    return f"FAILED {len(failed)} of {len(report['runs'])}: {names} ({site / 'runs.html'})\n"
