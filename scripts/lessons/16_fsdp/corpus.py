"""Docstrings of the Python that is installed here: from the description to its first line.

    write("docs.pt")      # reads the files once, in one process

Each pair has the name and the description of a function as its source, and the first line of its
docstring as its target.
"""

import os
import random
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import torch

# `def name(…):` and, on the next line, a docstring. Much faster than to parse the files.
FUNCTION = re.compile(r'^[ \t]*def (\w+)\([^"]*?\)[^"\n]*:\s*\n\s*[rRuU]?"""(.*?)"""', re.S | re.M)
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "testing", "idlelib", "__pycache__"}
PAD, BEGIN, END, OTHER = range(4)  # the first words of the vocabulary
VOCABULARY = 2000
SOURCE, TARGET = 40, 12  # words
HELD_OUT = 512  # pairs for validation


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def files(root: Path) -> list[Path]:
    """All Python files below a folder. Skipped folders are not entered: they can be very large."""
    found = []
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name not in SKIPPED]
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(found)


def docstrings(root: Path) -> Iterator[tuple[str, str]]:
    """(name and description, first line) of each function below a folder."""
    for path in files(root):
        for name, text in FUNCTION.findall(path.read_text(encoding="utf8", errors="ignore")):
            first, _, rest = dedent("    " + text).strip().partition("\n")
            rest = " ".join(rest.split())
            if 10 < len(first) < 80 and len(rest) > 40 and (first + rest).isascii():
                yield f"{name.replace('_', ' ')} {rest}", first


def pairs() -> list[tuple[list[str], list[str]]]:
    """Words of source and target, shuffled, each pair once."""
    roots = [Path(sysconfig.get_paths()["stdlib"]), Path(torch.__file__).parent]
    unique = dict.fromkeys(pair for root in roots for pair in docstrings(root))
    found = [(words(source)[:SOURCE], words(target)[: TARGET - 2]) for source, target in unique]
    found = [(source, target) for source, target in found if len(source) > 5 and len(target) > 2]
    random.Random(0).shuffle(found)
    return found


def numbered(texts: list[list[str]], numbers: dict[str, int], length: int) -> torch.Tensor:
    """Rows of numbers, filled up with PAD."""
    rows = torch.full((len(texts), length), PAD)
    for row, text in zip(rows, texts, strict=True):
        known = [numbers.get(word, OTHER) for word in text]
        row[: len(known)] = torch.tensor(known)
    return rows


def write(path: str) -> int:
    """Save all pairs as numbers, and the words that the numbers stand for; how many pairs."""
    found = pairs()
    counts = Counter(word for pair in found for text in pair for word in text)
    most = [word for word, _ in counts.most_common(VOCABULARY - 4)]
    vocabulary = ["<pad>", "<begin>", "<end>", "<other>", *most]
    numbers = {word: number for number, word in enumerate(vocabulary)}
    framed = [["<begin>", *target, "<end>"] for _, target in found]
    data = {
        "source": numbered([source for source, _ in found], numbers, SOURCE),
        "target": numbered(framed, numbers, TARGET),
        "vocabulary": vocabulary,
        "begin": BEGIN,
        "end": END,
        "special": [PAD, BEGIN, END, OTHER],
        "texts": [(" ".join(source), " ".join(target)) for source, target in found],
    }
    torch.save(data, path)
    return len(found)
