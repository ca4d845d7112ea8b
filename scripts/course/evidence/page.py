"""What the build writes about other machines: heads, numbers in pages, and the page of machines.

Where nothing was measured, that is what it says.
"""

import html

from course.evidence.kept import HEADLINES

NOT_YET = "not measured yet · 尚未量測"
BAR = 16  # letters of the longest bar: more would not fit a phone
PACES = """Pictures per second in lesson 06: one rank, and two ranks with DDP.

第 06 課每秒處理的圖片數：一個 rank，以及兩個 rank 用 DDP。
"""
SHORT = {  # titles of the columns, in the words of both languages
    "latency_ms": "1 KB, ms",
    "bandwidth": "GB/s",
    "scaling": "DDP, ×",
    "compiled": "compile, ×",
    "amp": "16 bit, ×",
}


def head(row: dict) -> tuple[str, str]:
    """The GPU minutes of a lesson as they were measured, for the line under its title."""
    minutes = row["minutes"]
    english = f"{minutes} of your GPU minutes (measured on {row['date']})"
    return english, f"{minutes} 分鐘的 GPU 時數（{row['date']} 實測）"


def field(rows: dict[str, dict], name: str) -> str | None:
    """What stands for a name in a page, as `hello on 2`; None where it was not measured.

    The names of the workshop's launches; of the run sheet `column`, `told`, with `-zh`; `slide`;
    `door`, for the README.
    """
    ours = rows.get("workshop")
    scaling = rows.get("06_ddp", {}).get("numbers", {}).get("scaling")
    if name == "slide" and scaling:
        return f"notebook 06, 2 × T4, {rows['06_ddp']['date']}: {scaling:.2f} ×"
    if name == "door" and scaling:
        return f": DDP {scaling:.2f} ×"
    if not ours:
        return None
    date = ours["date"]
    told = {
        "column": "measured",
        "column-zh": "實測",
        "told": f"was measured on Kaggle on {date}",
        "told-zh": f"是 {date} 在 Kaggle 上量的",
    }
    seconds = ours["launches"].get(name)
    return told.get(name, None if seconds is None else str(seconds))


def shown(value: float | bool) -> str:
    if isinstance(value, bool):
        return "yes · 有" if value else "no · 沒有"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def release(torch: str) -> str:
    """`2.10.0` of `2.10.0+cu128`."""
    return torch.partition("+")[0]


def bars(rows: dict[str, dict]) -> list[str]:
    """Pictures a second on one and on two ranks, as bars of text."""
    numbers = rows.get("06_ddp", {}).get("numbers", {})
    paces = {1: numbers.get("pace_one"), 2: numbers.get("pace_two")}
    if not all(paces.values()):
        return []
    longest = max(paces.values())
    lines = []
    for ranks, pace in paces.items():
        bar = "█" * max(1, round(BAR * pace / longest))
        lines.append(f"{ranks} GPU {pace:8,.0f} {bar}")
    return [PACES, "```text", *lines, "```", ""]


def two_t4s(rows: dict[str, dict], guesses: dict[str, int]) -> str:
    """The figure, the headline numbers, and a line for each lesson; `guesses`: its minutes."""
    lines = bars(rows)
    lines += ["| lesson · 課 | what · 什麼 | two T4s · 兩張 T4 |", "| --- | --- | --- |"]
    numbers: dict[str, float | bool] = {}
    for row in rows.values():
        numbers |= row["numbers"]
    for line in HEADLINES:
        value = shown(numbers[line.key]) if line.key in numbers else NOT_YET
        lines.append(f"| {line.lesson} | {line.english} · {line.chinese} | {value} |")
    lines += [
        "",
        "| lesson · 課 | minutes · 分鐘 | on · 執行環境 | ✓/✗ |",
        "| --- | --- | --- | --- |",
    ]
    for name, guess in guesses.items():
        row = rows.get(name)
        if row is None:
            lines.append(f"| {name} | {guess}, a guess · 估計 {guess} | {NOT_YET} | |")
            continue
        backend = f", {row['backend']}" if row["backend"] else ""
        where = f"{row['gpus']} GPU{backend}, torch {release(row['torch'])}, {row['date']}"
        right = f"{row['right']}/{row['wrong']}"
        lines.append(f"| {name} | {row['minutes']} | {html.escape(where)} | {right} |")
    return "\n".join(lines) + "\n"


def others(files: dict[str, dict]) -> str:
    """A line for each machine; `files`: its rows, of the lessons that are the same today."""
    titles = ["machine · 機器", "torch, nccl", "lessons · 課數", *SHORT.values()]
    lines = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    for file in files.values():
        about = file["machine"]
        gpus = about.get("gpus", [])
        name = f"{len(gpus)} × {gpus[0]}" if gpus else "CPU"
        numbers: dict[str, float | bool] = {}
        for row in file["rows"]:
            numbers |= row["numbers"]
        versions = f"{release(about.get('torch', ''))}, {about.get('nccl') or '–'}"
        cells = [name, versions, str(len(file["rows"]))]
        cells += [shown(numbers[key]) if key in numbers else "–" for key in SHORT]
        lines.append(f"| {' | '.join(map(html.escape, cells))} |")
    if not files:
        lines.append(f"| {NOT_YET} |" + " |" * (len(titles) - 1))
    return "\n".join(lines) + "\n"
