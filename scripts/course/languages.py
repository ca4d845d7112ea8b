"""Which language a text is in; that a cell says all twice, in Chinese as Taiwan writes it; and what
of it is left for a class that reads only one.
"""

import re
from functools import cache

CJK = re.compile(r"[\u3400-\u9fff]")
WORD = re.compile(r"[A-Za-z]{2,}")
PUNCTUATION = re.compile("[，。、；：？！]")
ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)]) ")

# Mainland words in traditional characters, and what Taiwan says: from OpenCC and our glossary.
TAIWAN = dict(
    re.findall(
        r"(\w+)→([\w ]+)",
        """內存→記憶體, 顯存→GPU 記憶體, 進程→行程, 線程→執行緒, 默認→預設, 代碼→程式碼,
        緩存→快取, 超時→逾時, 網絡→網路, 分布式→分散式, 並行→平行, 流水線→管線, 集合通信→集體通訊,
        規約→歸約, 損失函式→損失函數, 批量→批次, 加載→載入, 採樣→取樣, 回調→回呼, 鉤子→hook,
        帶寬→頻寬, 死鎖→死結, 梯度累加→梯度累積, 數據→資料, 信息→資訊, 運行→執行, 調用→呼叫,
        變量→變數, 用戶→使用者, 硬件→硬體, 報錯→出錯, 搶占→先占, 搶佔→先占, 腳本→程式, 返回→傳回,
        評量→評估""",
    )
)
# The same characters where two other words meet, as in 行程內存取 or 寫進程式.
INNOCENT = re.compile(r"內存[取放在]|[進線]程[式序]|[微強]調用|改變量")

# What is no prose: fenced code, comments, images; then code, formulas, links, tags, addresses.
FENCED = re.compile(r"^(```+|~~~+).*?^\1|<!--.*?-->|!\[.*?\]\(.*?\)", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`[^`]*`|\$+[^$]+\$+|(?<=\])\([^)]*\)|<[^>]*>|https?://\S+")


def counted(prose: str) -> tuple[int, int]:
    """How many Chinese characters, and how many English words."""
    return len(CJK.findall(prose)), len(WORD.findall(prose))


def is_chinese(prose: str) -> bool | None:
    """Whether a text in one language is Chinese, which may name many things in English.

    None of a text in neither, as a number is.
    """
    chinese, english = counted(prose)
    if not (chinese or english):
        return None
    return chinese >= english or bool(PUNCTUATION.search(prose))


@cache
def converter():
    from opencc import OpenCC  # takes a moment

    return OpenCC("s2t")


@cache
def simplified(character: str) -> bool:
    """Whether a character is simplified only.

    OpenCC changes it, and it is none of Big5's 5401 common ones, as 台 is one.
    """
    common = b"\xa4\x40" <= character.encode("big5", "ignore") <= b"\xc6\x7e"
    return converter().convert(character) != character and not common


def check_words(prose: str, start: str) -> str | None:
    """What is wrong with the words of a block: simplified characters, or words of the mainland."""
    wrong = "".join(filter(simplified, CJK.findall(prose)))
    if wrong:
        return f"simplified characters {wrong} in “{start}”: write 正體中文."
    judged = INNOCENT.sub(" ", prose)
    foreign = [f"{word} (write {ours})" for word, ours in TAIWAN.items() if word in judged]
    if foreign:
        return f"not a word of Taiwan: {', '.join(foreign)} in “{start}”."
    return None


def spread(text: str) -> str:
    """A text with an empty line above and below each heading, as other blocks have."""
    return re.sub(r"^(#+ .*)$", r"\n\1\n", text, flags=re.MULTILINE)


def both(block: str) -> bool:
    """Whether a block gives both languages by itself: a heading, or a table."""
    return block.lstrip().startswith(("#", "|"))


def check_languages(text: str) -> str | None:
    """What is wrong with the languages of a Markdown cell; None when nothing is.

    Blocks alternate, an English one and its Chinese one; a heading or a table holds both by itself.
    The items of one list are one block, however far apart they stand.
    """
    text = re.sub(r"^>[> ]*", "", FENCED.sub("", text), flags=re.MULTILINE)
    text = spread(text)
    last = "中文"
    last_is_list = False
    for block in re.split(r"\n\s*\n", text):
        prose = INLINE.sub(" ", block)
        start = " ".join(block.split())[:50]
        problem = check_words(prose, start)
        if problem:
            return problem
        chinese, english = counted(prose)
        if not (chinese or english):
            continue
        if both(block):
            if chinese and english:
                continue
            lacks = "English" if chinese else "中文"
            return f"“{start}” lacks {lacks}: a heading or a table gives both."
        language = "中文" if is_chinese(prose) else "English"
        is_list = bool(ITEM.match(block))
        if language == last and not (is_list and last_is_list):
            expected = "English" if language == "中文" else "中文"
            return f"“{start}” is {language} where {expected} is expected."
        last = language
        last_is_list = is_list
    return "the last English paragraph lacks its 中文." if last == "English" else None


# ---- one of the two


CODES = ("en", "zh")
CODE = re.compile(f"{FENCED.pattern}|`[^`]*`", FENCED.flags)  # and pictures
ASIDE = re.compile(r"\0(\d+)\0")  # stands for one of them
SEAM = re.compile(r"(\A#{1,6} | ?(?<!\\)\| ?)")  # ahead of a heading, and between cells of a table


def tongue(piece: str) -> bool | None:
    """Whether a piece of a heading or a table is Chinese, which one character shows."""
    prose = INLINE.sub(" ", piece)
    return None if is_chinese(prose) is None else bool(CJK.search(prose))


def part(text: str, chinese: bool) -> str:
    """`06 · Half batches · 一半的批次` in one language; what is in neither stays."""
    pieces = text.split(" · ")
    if chinese not in map(tongue, pieces):
        return text
    return " · ".join(piece for piece in pieces if tongue(piece) in (None, chinese))


def in_one(text: str, code: str) -> str:
    """A Markdown cell that says all twice, in one language; code and pictures stay."""
    chinese = code == "zh"
    aside: list[str] = []

    def lay_aside(match: re.Match) -> str:
        aside.append(match[0])
        return f"\0{len(aside) - 1}\0"

    blocks = []
    for block in re.split(r"\n[>\s]*\n", spread(CODE.sub(lay_aside, text)).strip()):
        if both(block):
            rows = [SEAM.split(line) for line in block.splitlines()]
            blocks.append("\n".join("".join(part(cell, chinese) for cell in row) for row in rows))
        elif is_chinese(INLINE.sub(" ", block)) in (None, chinese):
            blocks.append(block)
    return ASIDE.sub(lambda match: aside[int(match[1])], "\n\n".join(blocks))
