"""The rule that everything is said twice, in English and in Chinese as Taiwan writes it."""

import pytest
from opencc import OpenCC

from course import ROOT
from course.languages import (
    FENCED,
    INLINE,
    INNOCENT,
    TAIWAN,
    check_languages,
    in_one,
    is_chinese,
    simplified,
)
from course.lesson import Lesson

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    "text",
    [
        "# Title · 標題\nOne.\n\n一。",
        "One.\n\n一。\n\nTwo.\n\n二。",
        "- one\n- two\n\n- 一個\n- 兩個",
        "- one\n\n- two\n\n- 一個\n\n- 兩個",
        "1. one\n2. two\n\n1. 第一\n2. 第二",
        "> One.\n>\n> 一。",
        "| a word · 詞 | 1 |\n| --- | --- |\n| more | 2 |",
        "| `a` | 1 |\n| --- | --- |",
        "One.\n\n```text\nfenced English\n\nmore\n```\n\n一。",
        "One.\n\n````\n```\nEnglish\n```\n````\n\n一。",
        "One.\n\n<!-- a remark\n\nin English -->\n\n一。",
        "One.\n\n![an English caption](figure.png)\n\n一。",
        "[![Open in Kaggle](https://kaggle.com/badge.svg)](https://www.kaggle.com/notebooks/welcome?src=a)",
        "One.\n\n$$\\text{loss of one} = \\frac{sum}{count}$$\n\n一。",
        "Look it up.\n\n見[文件](a/long/path/of_many_words.md)",
        "Call it.\n\n呼叫 `all reduce then scatter`",
        "Next: [06 · DDP](06_ddp.ipynb).\n\n下一課：[06 · DDP](06_ddp.ipynb)。",
        "A rank (編號) is a process of its own.\n\nDDP、FSDP 與 all-reduce、reduce-scatter。",
        "The call.\n\n`loss.backward()` 用 `DistributedDataParallel` 算。",
        "Memory.\n\n在行程內存取、寫進程式、把連線程式關掉，一臺台北的電腦。",
        "",
    ],
)
def test_two_languages_in_turn(text: str):
    assert check_languages(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("One.", "the last English paragraph lacks its 中文"),
        ("One.\n\n一。\n\nTwo.", "the last English paragraph lacks its 中文"),
        ("One.\n\nTwo.\n\n一。\n\n二。", "“Two.” is English where 中文 is expected"),
        ("一。\n\nOne.", "“一。” is 中文 where English is expected"),
        ("One.\n\n一。\n\n二。", "“二。” is 中文 where English is expected"),
        ("One.\n\n- one\n\n一。", "“- one” is English where 中文 is expected"),
        ("# Title", "“# Title” lacks 中文"),
        ("# 標題", "“# 標題” lacks English"),
        ("# Title · 標題\nOne.", "the last English paragraph lacks its 中文"),
        ("| only English | 1 |", "lacks 中文"),
        ("One.\n\n一个网络。", "simplified characters 个网络"),
        ("One.\n\n默認的線程。", "線程 (write 執行緒), 默認 (write 預設)"),
    ],
)
def test_what_breaks_the_rule_of_two_languages(text: str, problem: str):
    assert problem in check_languages(text)


def test_simplified_is_what_big5_does_not_hold_among_its_common_characters():
    assert [c for c in "台后里面干只向才体网数这個體網數這" if simplified(c)] == list("体网数这")


def test_opencc_confirms_every_word_that_it_knows():
    to_simplified = OpenCC("t2s").convert
    plain = OpenCC("s2tw").convert
    taiwan = OpenCC("s2twp").convert
    known = {}
    for word in TAIWAN:
        simple = to_simplified(word)
        if taiwan(simple) != plain(simple):
            known[word] = taiwan(simple)
    ours = {word for word, theirs in known.items() if theirs != TAIWAN[word]}
    assert len(known) > 15
    assert ours == {"進程", "顯存", "集合通信", "回調", "腳本"}  # the glossary has better ones
    assert 30 <= len(TAIWAN) <= 37


@pytest.mark.parametrize("word", TAIWAN)
def test_every_word_is_refused_and_its_remedy_is_not(word: str):
    assert not check_languages(f"One.\n\n{TAIWAN[word]}的說明。")
    assert not INNOCENT.search(word)
    assert word in check_languages(f"One.\n\n這個{word}。")


WHOLE = """\
# 06 · DDP · 分散式
One, and *two*:

一，和二：

- one
- two

- 甲
- 乙

| what · 什麼 | `a \\| b` |
| --- | --- |
| `code · of one` · yes · 是 | 3 |

```text
English code

中文
```

> So `all reduce`.
>
> 所以 `all reduce`。

$x$
"""
ENGLISH = """\
# 06 · DDP

One, and *two*:

- one
- two

| what | `a \\| b` |
| --- | --- |
| `code · of one` · yes | 3 |

```text
English code

中文
```

> So `all reduce`.

$x$"""
CHINESE = """\
# 06 · 分散式

一，和二：

- 甲
- 乙

| 什麼 | `a \\| b` |
| --- | --- |
| `code · of one` · 是 | 3 |

```text
English code

中文
```

> 所以 `all reduce`。

$x$"""


def test_a_cell_in_one_language_keeps_what_is_in_neither():
    assert in_one(WHOLE, "en") == ENGLISH
    assert in_one(WHOLE, "zh") == CHINESE


@pytest.mark.parametrize(
    "path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_each_notebook_is_whole_in_one_language(path):
    """Nothing of the other language is left, and each paragraph has its one twin."""
    for cell in Lesson.at(path).cells:
        if cell.is_code:
            continue
        kinds = {}
        for code in ("en", "zh"):
            text = in_one(cell.source, code)
            assert FENCED.findall(text) == FENCED.findall(cell.source)
            blocks = [INLINE.sub(" ", block) for block in FENCED.sub("", text).split("\n\n")]
            kinds[code] = [is_chinese(block) for block in blocks]
        assert True not in kinds["en"], cell.node.id
        assert False not in kinds["zh"], cell.node.id
        assert kinds["en"].count(False) == kinds["zh"].count(True), cell.node.id
