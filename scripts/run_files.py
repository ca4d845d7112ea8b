"""Write a file whole or not at all, as lesson 11 teaches it."""

from pathlib import Path

import rooms

replacing = rooms.load("atomic").replacing


def write(path: Path, text: str) -> None:
    """Give a file a new text. OSError names the file, which a full disk does not."""
    try:
        with replacing(path) as file:
            file.write(text.encode())
    except OSError as error:
        error.filename = str(path)
        raise
