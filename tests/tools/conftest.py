"""The small course, for every test of the build."""

import shutil
from pathlib import Path

import pytest
from once import once


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small course, built once."""
    from small_course import SOURCES, Small  # only here, since it imports the whole build

    def make(folder: Path) -> None:
        course = Small(folder)
        for path, text in SOURCES.items():
            course[path] = text
        assert course.build() == 0

    return once(tmp_path_factory, "course", make)


@pytest.fixture
def course(template: Path, tmp_path: Path):
    """A small course, built, of one's own."""
    from small_course import Small

    return Small(shutil.copytree(template, tmp_path / "course"))
