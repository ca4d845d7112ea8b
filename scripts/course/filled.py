"""What is filled into pages and lessons: marked regions, and numbers of runs in assets/*.json.

<span data-run="RUN.json#ROW#FIELD"></span>: a field of one row, or of the machine, as #machine#name
<span data-run="bench#ROW#FIELD"></span>: the same of the bench's reference run, see below
"""

import html
import json
import re
from pathlib import Path

from course.lesson import demand

NUMBER = re.compile(r'(<span [^>]*?data-run="([^"]*)"[^>]*>).*?(</span>)')
# The run of `make bench` that all pages speak of. assets/ keeps one for each processor.
REFERENCE = "bench-intel-xeon-processor-6-207-2-cores.json"
# What the two ends of a row are, in both languages. See course.measure.pairs.
SPANS = {
    "interval": ("95 % interval", "中位數的 95% 區間"),
    "range": ("lowest and highest round", "最低與最高的一輪"),
}


def shown(row: dict, field: str) -> object:
    """A field of a row, or one that is made of several; None if there is no such field.

    "interval": "1.40 – 1.60"; "all": "1.50 (1.40 – 1.60)"; "span": what these two are, and
    "span-zh": the same in Chinese.
    """
    if field in ("interval", "all") and {"low", "high"} <= set(row):
        ends = f"{row['low']:.2f} – {row['high']:.2f}"
        return ends if field == "interval" else f"{row['ratio']:.2f} ({ends})"
    if field in ("span", "span-zh") and "span" in row:
        english, chinese = SPANS[row["span"]]
        return english if field == "span" else chinese
    return row.get(field)


def measured(root: Path, source: str, place: str) -> str:
    """What `bench#ROW#ratio` stands for, with two decimals; or `bench#machine#cores`."""
    name, row, field = [*source.split("#"), "", ""][:3]
    path = root / "assets" / (REFERENCE if name == "bench" else name)
    run = json.loads(path.read_text()) if path.is_file() else {"machine": {}, "rows": []}
    rows = {entry["row"]: entry for entry in run["rows"]} | {"machine": run["machine"]}
    value = shown(rows.get(row, {}), field)
    remedy = f"{source} is nowhere: write RUN.json#row#ratio or #machine#cores."
    demand(value is not None, place, remedy)
    return f"{value:.2f}" if isinstance(value, float) else html.escape(str(value), quote=False)


def with_numbers(root: Path, text: str, place: str) -> str:
    """A text with all its numbers filled in."""

    def number(match: re.Match) -> str:
        return match[1] + measured(root, match[2], place) + match[3]

    return NUMBER.sub(number, text)


def filled_region(text: str, name: str, table: str, place: str) -> str:
    """A page with the table between its two marks."""
    begin = f"<!-- {name}: filled by make build -->\n"
    region = re.compile(rf"{begin}((?:(?!<!-- ).)*)<!-- end -->", re.DOTALL)
    marked = region.findall(text)
    demand(len(marked) == 1, place, f"it lacks its marked region for the table of {name}.")
    return text.replace(f"{begin}{marked[0]}<!-- end -->", f"{begin}{table}<!-- end -->")
