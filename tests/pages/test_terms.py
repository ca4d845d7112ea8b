"""The lessons speak as the glossary in the README does: where English uses one of its terms, 中文 uses the same row."""

import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "notebooks" / "src").glob("*.md"))
CJK = re.compile(r"[\u3400-\u9fff]")

# Words that plain English uses as well ("step by step", "from memory"): only in the form 中文（English） do they bind.
EVERYDAY = set(
    re.findall(
        r"\w+",
        """argument backward batch cache compile distributed forward hang kernel launch memory node overlap parameter
        reduce step stride timeout view""",
    )
)


def glossary(readme: str) -> dict[str, set[str]]:
    """English term → its words in Chinese. A row may hold several of each, in the same order."""
    terms: dict[str, set[str]] = {}
    for row in re.findall(
        r"^\| (.+?) \| (.+?) \| .+ · .+ \|$", readme.partition("## Glossary")[2].partition("---")[2], re.MULTILINE
    ):
        english, chinese = (re.sub(r" ?[(（].*?[)）]", "", part) for part in row)
        words, meanings = english.split(", "), chinese.split("、")
        if len(words) != len(meanings):
            raise ValueError(f"{english} · {chinese}: as many terms in each language")
        for word, meaning in zip(words, meanings, strict=True):
            terms.setdefault(word.removesuffix(" pass"), set()).add(meaning)
    return terms


def strays(text: str, terms: dict[str, set[str]]) -> list[str]:
    """Every place where a lesson's Chinese leaves the glossary."""
    prose = re.sub(r"^(```+).*?^\1|^---.*?^---", "", text, flags=re.MULTILINE | re.DOTALL)
    blocks, found = [block for block in re.split(r"\n\s*\n", prose) if block.strip()], []
    for english, chinese in itertools.pairwise(blocks):
        if CJK.search(english) or not CJK.search(chinese) or chinese.startswith(("#", "|")):
            continue
        plain = re.sub(r"`[^`]*`|\]\([^)]*\)", "", english)
        for term in terms.keys() - EVERYDAY:
            used = re.search(rf"\b{re.escape(term)}(?:s|es)?\b", plain, re.IGNORECASE)
            if used and not any(word.lower() in chinese.lower() for word in terms[term] | {term}):
                found.append(f"“{english[:50]}…” says {term}; its 中文 lacks {' or '.join(terms[term])}")
    for chinese, english in re.findall(r"([\u3400-\u9fff]+)（([A-Za-z][A-Za-z -]*)[；，）]", prose):
        term = english.lower()
        if term in terms and not any(chinese.endswith(word) for word in terms[term] | {term}):
            found.append(f"{chinese}（{english}）: the glossary says {' or '.join(terms[term])}")
    return found


TERMS = glossary((ROOT / "README.md").read_text())


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
    found = strays(text, {"gradient": {"梯度"}, "rank": {"rank"}, "process": {"行程"}, "memory": {"記憶體"}})
    assert [said in each for each in found] == [True] * bool(said)


def test_a_lopsided_row_is_refused() -> None:
    with pytest.raises(ValueError, match="forward, backward pass"):
        glossary("## Glossary\n---\n| forward, backward pass | 前向傳播 | there · 去 |\n")
