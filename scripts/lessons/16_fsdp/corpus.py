"""Docstrings of the Python that is installed here: from the description to its first line.

    write("docs.pt")             # reads the files once, in one process
    numbers = text(row, data)    # a row's numbers up to its end
    readable(numbers, data)      # the words that they stand for
    f1(numbers, truth)           # how many words agree

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
    paths = []
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name not in SKIPPED]
        for name in names:
            if name.endswith(".py"):
                path = Path(folder, name)
                paths.append(path)
    return sorted(paths)


def docstrings(root: Path) -> Iterator[tuple[str, str]]:
    """(name and description, first line) of each function below a folder."""
    for path in files(root):
        code = path.read_text(encoding="utf8", errors="ignore")
        for name, docstring in FUNCTION.findall(code):
            indented = "    " + docstring
            lines = dedent(indented).strip()
            first, _, rest = lines.partition("\n")
            description = " ".join(rest.split())
            is_line = 10 < len(first) < 80
            long_enough = len(description) > 40
            english = first.isascii() and description.isascii()
            if is_line and long_enough and english:
                name_words = name.replace("_", " ")
                yield f"{name_words} {description}", first


def pairs() -> list[tuple[list[str], list[str]]]:
    """Words of source and target, shuffled, each pair once."""
    python_folder = Path(sysconfig.get_path("stdlib"))
    torch_folder = Path(torch.__file__).parent
    texts = list(docstrings(python_folder))
    texts.extend(docstrings(torch_folder))
    unique = dict.fromkeys(texts)  # unlike a set, in their order
    kept = []
    for source, target in unique:
        source_words = words(source)[:SOURCE]
        target_words = words(target)[: TARGET - 2]  # its begin and its end are words, too
        if len(source_words) > 5 and len(target_words) > 2:
            kept.append((source_words, target_words))
    generator = random.Random(0)
    generator.shuffle(kept)
    return kept


def numbered(sides: list[list[str]], numbers: dict[str, int], length: int) -> torch.Tensor:
    """Rows of numbers for the words of sources, or of targets, filled up with PAD."""
    rows = torch.full((len(sides), length), PAD)
    for row, side in zip(rows, sides, strict=True):
        known = [numbers.get(word, OTHER) for word in side]
        count = len(known)
        row[:count] = torch.tensor(known)
    return rows


def f1(row: list[int], truth: list[int]) -> float:
    """How many words agree, wherever they are: from 0 to 1."""
    overlap = Counter(row) & Counter(truth)
    both = len(row) + len(truth)
    return 2 * overlap.total() / max(1, both)


def text(row: torch.Tensor, data: dict) -> list[int]:
    """The numbers of a row up to its end, without special ones, such as that of unknown words."""
    numbers = row.tolist()
    if numbers[0] == data["begin"]:
        numbers = numbers[1:]
    if data["end"] in numbers:
        end = numbers.index(data["end"])
        numbers = numbers[:end]
    return [number for number in numbers if number not in data["special"]]


def readable(numbers: list[int], data: dict) -> str:
    vocabulary = data["vocabulary"]
    return " ".join(vocabulary[number] for number in numbers)


def write(path: str) -> int:
    """Save all pairs as numbers, and the words that the numbers stand for; how many pairs."""
    sources = []
    targets = []
    texts = []
    counts: Counter[str] = Counter()
    for source, target in pairs():
        sources.append(source)
        targets.append(["<begin>", *target, "<end>"])
        texts.append((" ".join(source), " ".join(target)))
        counts.update(source)
        counts.update(target)
    frequent = [word for word, _ in counts.most_common(VOCABULARY - 4)]
    vocabulary = ["<pad>", "<begin>", "<end>", "<other>", *frequent]
    numbers = {word: number for number, word in enumerate(vocabulary)}
    data = {
        "source": numbered(sources, numbers, SOURCE),
        "target": numbered(targets, numbers, TARGET),
        "vocabulary": vocabulary,
        "pad": PAD,
        "begin": BEGIN,
        "end": END,
        "special": [PAD, BEGIN, END, OTHER],
        "texts": texts,
    }
    torch.save(data, path)
    return len(texts)
