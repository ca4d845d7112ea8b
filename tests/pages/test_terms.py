"""The lessons speak as assets/glossary.md does.

Where English uses one of its terms, 中文 uses the words of the same row.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from course.languages import CJK

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "notebooks" / "src").glob("*.md"))
ROW = re.compile(r"^\| (.+?) \| (.+?) \| .+ · .+ \|$", re.MULTILINE)
NOTE = re.compile(r" ?[(（].*?[)）]")
CODE = re.compile(r"^(```+).*?^\1|^---.*?^---", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"([\u3400-\u9fff]+)（([A-Za-z][A-Za-z -]*)[；，）]")  # 中文（English）

# Words that plain English uses as well ("step by step", "from memory"): only in the form
# 中文（English） do they bind.
EVERYDAY = {
    *("argument", "backward", "batch", "cache", "compile", "distributed", "export", "forward"),
    *(
        "hang",
        "kernel",
        "launch",
        "memory",
        "node",
        "overlap",
        "parameter",
        "reduce",
        "step",
        "stride",
    ),
    *("timeout", "view"),
}

Terms = dict[str, set[str]]  # English → its words in Chinese


def glossary(page: str) -> Terms:
    """The terms of the glossary. A row may hold several, in the same order in each language."""
    terms: Terms = {}
    table = page.partition("## Terms")[2].partition("---")[2]
    for english, chinese in ROW.findall(table):
        words = NOTE.sub("", english).split(", ")
        meanings = NOTE.sub("", chinese).split("、")
        if len(words) != len(meanings):
            raise ValueError(f"{english} · {chinese}: as many terms in each language")
        for word, meaning in zip(words, meanings, strict=True):
            terms.setdefault(word.removesuffix(" pass"), set()).add(meaning)
    return terms


def unlike(english: str, chinese: str, terms: Terms) -> Iterator[str]:
    """The terms of an English paragraph that its 中文 says otherwise."""
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)", "", english)
    for term in terms.keys() - EVERYDAY:
        used = re.search(rf"\b{re.escape(term)}(?:s|es)?\b", plain, re.IGNORECASE)
        words = terms[term] | {term}
        if used and not any(word.lower() in chinese.lower() for word in words):
            missing = " or ".join(terms[term])
            yield f"“{english[:50]}…” says {term}; its 中文 lacks {missing}"


def strays(text: str, terms: Terms) -> list[str]:
    """Every place where a lesson's Chinese leaves the glossary."""
    prose = CODE.sub("", text)
    blocks = [block for block in re.split(r"\n\s*\n", prose) if block.strip()]
    found = []
    for english, chinese in pairwise(blocks):
        pair = CJK.search(chinese) and not CJK.search(english)
        if pair and not chinese.startswith(("#", "|")):
            found += unlike(english, chinese, terms)
    for chinese, english in NAMED.findall(prose):
        term = english.lower()
        if term in terms and not chinese.endswith(tuple(terms[term] | {term})):
            right = " or ".join(terms[term])
            found.append(f"{chinese}（{english}）: the glossary says {right}")
    return found


TERMS = glossary((ROOT / "assets" / "glossary.md").read_text())


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_chinese_terms_are_the_glossarys(path: Path) -> None:
    assert not strays(path.read_text(), TERMS)


def test_the_glossary_is_whole() -> None:
    assert len(TERMS) >= 40
    assert {"tensor", "rank", "all-reduce", "gradient", "bucket"} <= TERMS.keys()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The gradient falls.\n\n斜率變小。", "gradient"),
        ("Both ranks wait.\n\n兩邊都在等。", "rank"),
        ("Words.\n\n這叫程序（process），不叫別的。", "程序（process）"),
        ("`gradient` and memory.\n\n程式碼和其他。", ""),
        ("The gradient falls.\n\n梯度變小。", ""),
        ("A process begins.\n\n一個行程（process）開始了。", ""),
    ],
)
def test_a_stray_word_is_found(text: str, said: str) -> None:
    terms = {"gradient": {"梯度"}, "rank": {"rank"}, "process": {"行程"}, "memory": {"記憶體"}}
    found = strays(text, terms)
    assert [said in each for each in found] == [True] * bool(said)


def test_a_lopsided_row_is_refused() -> None:
    with pytest.raises(ValueError, match="forward, backward pass"):
        glossary("## Terms\n---\n| forward, backward pass | 前向傳播 | there · 去 |\n")
