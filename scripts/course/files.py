"""Write a file whole or not at all, as lesson 11 teaches it; and empty a folder, if it is ours."""

import shutil
from pathlib import Path

from course import ROOT, rooms

replacing = rooms.load("atomic").replacing
BUILD = ROOT / "build"
OURS = ".made-by-the-course"  # a file that marks a folder whose contents we may delete
SPHINX = ".buildinfo"  # what Sphinx puts into a site


def write(path: Path, content: str | bytes) -> None:
    """Give a file new contents. OSError names the file, which a full disk does not."""
    data = content.encode() if isinstance(content, str) else content
    try:
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        error.filename = str(path)
        raise


def emptied(folder: Path) -> Path:
    """Make a folder, or empty it if a command of the course has made what is in it.

    FileExistsError if somebody else may have. Everything in this clone's build/ is ours.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    there = list(folder.iterdir())
    marked = (folder / OURS).exists() or (folder / SPHINX).exists() or BUILD in folder.parents
    if there and not marked:
        raise FileExistsError(17, "it holds files that this command did not make", str(folder))
    (folder / OURS).touch()  # first, so that a folder that is half emptied is still ours
    for entry in there:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != OURS:
            entry.unlink()
    return folder
