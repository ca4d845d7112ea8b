"""Write a file so that its name never leads to half of it.

Run:  python atomic.py NAME OLD NEW             # copies OLD and NEW to NAME in turn, until killed
      python atomic.py NAME OLD NEW --in-place  # the same, written straight into NAME
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write into. It takes the name `path` when the block ends well.

    Until then, and after an error, `path` is as it was.
    """
    # In the same folder: between two disks a rename would be a copy.
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()  # out of Python's buffer, into the operating system's
            # And out of that onto the disk, before the name says that all is there.
            os.fsync(file.fileno())
        part.replace(path)  # one operation: `path` is the old file, and then the new one
    except BaseException:
        part.unlink(missing_ok=True)  # as when the disk is full
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name is an entry in the folder, and must reach the disk too
    finally:
        os.close(folder)


def in_place(path: Path) -> BinaryIO:
    """The file itself to write into, emptied first, as `torch.save(state, path)` does it."""
    return path.open("wb")


def copy(source: bytes, file: BinaryIO, chunk: int = 2**20) -> None:
    """Write in pieces of 1 MiB, as a large state is written."""
    for start in range(0, len(source), chunk):
        file.write(source[start : start + chunk])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", type=Path, help="the file that is saved again and again")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--in-place", action="store_true")
    args = parser.parse_args()
    old = args.old.read_bytes()
    new = args.new.read_bytes()

    # Before the first kill there is an old state, whole.
    with replacing(args.name) as file:
        copy(old, file)
    print("saving", flush=True)  # from here on a kill may come at any moment
    way = in_place if args.in_place else replacing
    for version in cycle([new, old]):
        with way(args.name) as file:
            copy(version, file)
        print("saved", flush=True)


if __name__ == "__main__":
    main()
