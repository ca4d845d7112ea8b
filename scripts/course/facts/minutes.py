"""How many minutes a lesson takes, worked out from what it holds.

python -m course.facts.minutes          # every lesson, its parts and their minutes
python -m course.facts.minutes 03 05    # these lessons alone

180 English words or 170 tokens of open code a minute, 5 minutes an exercise, 1 a prediction, and
the seconds of the launches. Learners who took the time needed about that. A diff counts as code,
and the program that it leads to is then known. Folded cells count nothing, nor does Chinese: a
reader reads one of the two languages.
"""

import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from course import ROOT
from course.evidence.kept import KAGGLE
from course.evidence.page import head as measured_minutes
from course.languages import CJK, FENCED
from course.lesson import (
    DIFF,
    PREDICT,
    BuildError,
    Heading,
    Lesson,
    about,
    demand,
    headings,
    last_run,
)
from course.sources import Course

CORE = 50  # minutes: one period
WORDS, TOKENS = 180, 170  # a minute
EXERCISE = 5.0  # minutes
LAUNCH = 5.0  # seconds, where none have been measured
LEADS_TO = re.compile(r"^\+\+\+ (\w+\.py)$", re.MULTILINE)
PARTS = {"Going further · 延伸": "further", "Second period · 第二節": "second"}
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
COUNTED = {tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.OP}


@dataclass
class Part:
    """What one part of a lesson holds."""

    words: int = 0  # English
    tokens: int = 0  # of open code
    exercises: int = 0
    predictions: int = 0
    launches: int = 0
    seconds: float = 0.0  # of the launches

    @property
    def minutes(self) -> float:
        reading = self.words / WORDS + self.tokens / TOKENS
        return reading + EXERCISE * self.exercises + self.predictions + self.seconds / 60


def words(text: str) -> int:
    """How many English words a Markdown cell has, outside of code, links and Chinese blocks."""
    count = 0
    for block in re.split(r"\n\s*\n", FENCED.sub("", text)):
        lines = re.sub(r"(?<=\])\([^)]*\)", "", block)
        if not CJK.search(lines) or block.lstrip().startswith(("#", "|")):
            count += len(WORD.findall(lines))
    return count


def tokens(code: str) -> int:
    """How many names, numbers, strings and operators a piece of code has."""
    try:
        every = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, IndentationError):  # a piece of a diff, or no Python
        return len(re.findall(r"\w+|[^\w\s]", code))
    return sum(token.type in COUNTED for token in every)


def changed(text: str) -> int:
    """How many tokens the changed lines of a cell's diffs have."""
    count = 0
    for _, diff in DIFF.findall(text):
        lines = [line for line in diff.splitlines() if not line.startswith(("+++", "---"))]
        count += sum(tokens(line[1:].strip()) for line in lines if line[:1] in ("+", "-"))
    return count


def pieces(prose: str) -> Iterator[tuple[Heading | None, str]]:
    """A Markdown cell cut ahead of each heading: headings, None of the first piece, and words."""
    titles = headings(prose)
    ends = [heading.at for heading in titles] + [None]
    yield None, prose[: ends.pop(0)]
    for heading, end in zip(titles, ends, strict=True):
        yield heading, prose[heading.at : end]


def parts(lesson: Lesson, seconds: list[float], through: str = "") -> dict[str, Part]:
    """The parts of a lesson in their order: `core`, perhaps `second`, `further`.

    `seconds` are those of its launches, in order; too few or too many are not used.
    through: what follows this section is `rest`; there is no such part without that section.
    """
    lesson = lesson.own
    count = len(lesson.launches)
    measured = iter(seconds if len(seconds) == count else [LAUNCH] * count)
    held = {"core": Part()}
    name = "core"
    met = False
    known: set[str] = set()  # programs that a diff has shown
    for cell in lesson.cells:
        if cell.is_code:
            part = held[name]
            if cell.launch:
                part.launches += 1
                part.seconds += next(measured)
            elif "fold" not in cell.tags and cell.file not in known:
                part.tokens += tokens(re.sub(r"\A%%\w+.*\n|^!.*$", "", cell.source))
            continue
        for _, diff in DIFF.findall(cell.source):
            known.update(LEADS_TO.findall(diff))
        for heading, piece in pieces(cell.source):
            if heading and heading.level == 2:
                name = "rest" if met else PARTS.get(heading.text, name)
                met = met or heading.text.partition(" ·")[0] == through
            part = held.setdefault(name, Part())
            part.words += words(piece)
            part.tokens += changed(piece)
            part.exercises += bool(heading and heading.exercise)
            part.predictions += piece.count(PREDICT)
    return held


def rounded(minutes: float) -> int:
    """Minutes as a reader is told them: up to the next five."""
    return -5 * int(-minutes // 5)


def measured(path: Path) -> list[float]:
    """The seconds of a committed notebook's launches, from the run that its outputs come from.

    None of a notebook that is not there or damaged: the build says so elsewhere.
    """
    with suppress(OSError, ValueError):
        return last_run(json.loads(path.read_text())).get("seconds", [])
    return []


@cache
def lesson_parts(course: Course, path: Path) -> dict[str, Part]:
    """The parts of one lesson, unsolved, with its launches as they were measured last."""
    seconds = measured(course.notebooks / f"{path.stem}.ipynb")
    return parts(course.lesson(path, solved=False), seconds)


def beginning(course: Course, path: Path, through: str) -> int:
    """The minutes of a lesson up to the end of one of its sections, named in English."""
    seconds = measured(course.notebooks / f"{path.stem}.ipynb")
    held = parts(course.lesson(path, solved=False), seconds, through)
    demand("rest" in held, course.name(path), f"no section “{through}”, where a route ends.")
    return rounded(held["core"].minutes)


def told(course: Course, path: Path) -> tuple[str, int]:
    """The minutes of a lesson's core, as `45` or, in two periods, `45 + 40`; and those further."""
    held = lesson_parts(course, path)
    core = [str(rounded(part.minutes)) for name, part in held.items() if name != "further"]
    return " + ".join(core), rounded(held.get("further", Part()).minutes)


def guessed_minutes(minutes: int) -> tuple[str, str]:
    """A lesson's own guess, where nobody has measured it."""
    english = f"{minutes} of your GPU minutes (a guess, not measured yet)"
    return english, f"{minutes} 分鐘的 GPU 時數（估計值，尚未實測）"


def head(course: Course, path: Path) -> str:
    """What a lesson says under its title: how long it takes, and how many of Kaggle's GPU hours."""
    core, further = told(course, path)
    english = f"Core {core} minutes"
    chinese = f"核心 {core} 分鐘"
    if further:
        english += f" · further {further} minutes"
        chinese += f"，延伸 {further} 分鐘"
    gpu = about(course.sources[path])["gpu_minutes"]
    if gpu:
        row = course.measured.get(KAGGLE, {}).get(path.stem)
        takes, takes_chinese = measured_minutes(row) if row else guessed_minutes(gpu)
        english += (
            f". Running every cell on Kaggle takes about {takes}; reading counts, too, while the "
            "session is on."
        )
        chinese += (
            f"。在 Kaggle 上跑完全部儲存格，約用掉 {takes_chinese}；"
            "工作階段開著的時候，閱讀的時間也算。"
        )
    else:
        english += ". No GPU needed."
        chinese += "。不需要 GPU。"
    return f"{english}\n\n{chinese}"


def main(numbers: list[str]) -> int:
    """Print the parts of the lessons; 1 when a core is longer than one period."""
    course = Course(ROOT)
    print(f"{'lesson':22}{'part':9} words tokens exercises predictions launches  s  minutes")
    late = 0
    for path in course.sources:
        if numbers and path.stem[:2] not in numbers:
            continue
        for name, part in lesson_parts(course, path).items():
            mark = " too long" if name != "further" and part.minutes > CORE else ""
            late += bool(mark)
            print(
                f"{path.stem:22}{name:9}{part.words:6}{part.tokens:7}{part.exercises:10}"
                f"{part.predictions:12}{part.launches:9}{part.seconds:5.0f}"
                f"{part.minutes:7.1f}{mark}"
            )
    return 1 if late else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BuildError as error:
        sys.exit(f"build: {error}")
