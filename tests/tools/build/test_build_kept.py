"""What README and site show of kept outputs: the first program's lines, and the curve."""

import base64
import struct
import zlib

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from small_course import Small

from course.facts import kept as build_kept
from course.sources import Course

pytestmark = pytest.mark.quick

SAID = "[Gloo] Rank 0 is connected\nrank 0: 1\nrank 1: 2\n"


def picture(colour: bytes) -> bytes:
    """A PNG of one pixel."""
    parts = {b"IHDR": struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)}
    parts |= {b"IDAT": zlib.compress(b"\0" + colour), b"IEND": b""}
    png = b"\x89PNG\r\n\x1a\n"
    for kind, data in parts.items():
        png += struct.pack(">I", len(data)) + kind + data
        png += struct.pack(">I", zlib.crc32(kind + data))
    return png


def drawn(colour: bytes) -> list:
    coded = base64.b64encode(picture(colour)).decode()
    return [new_output("display_data", data={"image/png": coded})]


def text(*cells: tuple[str, list]) -> str:
    """A notebook of these cells, each with its outputs."""
    code = [new_code_cell(source, outputs=outputs) for source, outputs in cells]
    return nbformat.writes(new_notebook(cells=code))


def printed(words: str) -> list:
    return [new_output("stream", text=words)]


@pytest.fixture
def readme(course: Small) -> tuple[Course, dict]:
    sources = Course(course.root)
    return sources, {course.root / "README.md": course["README.md"]}


def test_the_readme_shows_what_the_first_launch_prints(readme: tuple[Course, dict]) -> None:
    course, files = readme
    path = course.notebooks / "06_ddp.ipynb"
    again = (build_kept.FIRST, printed("rank 0: 9\n"))
    files[path] = text(("1", printed("rank 7\n")), (build_kept.FIRST, printed(SAID)), again)
    [page] = build_kept.readme(course, files).values()
    command = "$ torchrun --standalone --nproc-per-node=2 first.py"
    assert f"-->\n```\n{command}\nrank 0: 1\nrank 1: 2\n```\n<!-- end -->" in page


def test_the_picture_is_the_first_after_the_ranks_talked(readme: tuple[Course, dict]) -> None:
    course, files = readme
    early = ("1", drawn(b"\0\0\0"))
    launch = (build_kept.CURVE, printed("rank 0\n"))
    wanted = ("2", drawn(b"\1\1\1"))
    later = ("3", drawn(b"\2\2\2"))
    files[course.notebooks / "00_start_here.ipynb"] = text(early, launch, wanted, later)
    made = build_kept.pictures(course, files)
    assert made == {course.root / "assets" / "curve.png": picture(b"\1\1\1")}


def test_without_outputs_both_stay_as_they_are(readme: tuple[Course, dict]) -> None:
    course, files = readme
    files[course.notebooks / "06_ddp.ipynb"] = text((build_kept.FIRST, []), ("1", []))
    files[course.notebooks / "00_start_here.ipynb"] = text((build_kept.CURVE, []), ("1", []))
    assert build_kept.readme(course, files) == {}
    assert build_kept.pictures(course, files) == {}


def test_a_picture_that_is_not_the_kept_one_is_noticed(
    course: Small, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = course.root / build_kept.PICTURE
    kept = {place: picture(b"\1\1\1")}
    monkeypatch.setattr(build_kept, "pictures", lambda *_: kept)
    assert course.build("--check") == 1
    assert f"{build_kept.PICTURE}: not what would be built" in capsys.readouterr().out
    assert course.build() == 0
    assert place.read_bytes() == kept[place]
    assert course.build("--check") == 0
