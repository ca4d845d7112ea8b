"""The words of the theme itself, such as "Search" and "Back to top", in both languages.

Each becomes `English · 中文`: course.js shows the chosen part of a label or a tooltip, and
`mark` the parts of a text.
"""

from html import escape

from bs4 import BeautifulSoup, NavigableString

from course.site.extensions.languages import BETWEEN, language

WORDS = {
    "Announcement": "公告",
    "Back to top": "回到最上面",
    "Color mode": "明暗",
    "Copied!": "已複製",
    "Copy": "複製",
    "Copy to clipboard": "複製到剪貼簿",
    "Dark": "深色",
    "Failed to copy": "複製失敗",
    "Light": "淺色",
    "On this page": "本頁內容",
    "Search": "搜尋",
    "Site navigation": "課程目錄",
    "Skip to main content": "跳到主要內容",
    "System Settings": "跟隨系統設定",
    "Version warning": "版本提醒",
    "next": "下一頁",
    "next page": "下一頁",
    "previous": "上一頁",
    "previous page": "上一頁",
}
APART = ("title", "code")  # cannot hold a tag, or is no prose


def both(text: str) -> str:
    """A word of the theme in both languages; others as they are."""
    return f"{text}{BETWEEN}{WORDS[text]}" if text in WORDS else text


def marked(text: str) -> str:
    """`English · 中文` in tags that name the languages, if it is that."""
    pieces = text.split(BETWEEN)
    kinds = [language(piece) for piece in pieces]
    if len(set(kinds) - {None}) < 2:
        return text
    made = ""
    for number, (piece, kind) in enumerate(zip(pieces, kinds, strict=True)):
        if number and kind and kinds[number - 1]:
            made += f'<span class="between">{BETWEEN}</span>'
        elif number:
            made += BETWEEN
        name = kind and kind.removeprefix("language-")
        made += f'<span lang="{name}">{piece}</span>' if kind else piece
    return f"<span>{made}</span>"


def mark(page: BeautifulSoup) -> None:
    """Mark every text of a page that is in both languages."""
    for text in page.find_all(string=lambda words: BETWEEN in words):
        if type(text) is NavigableString and not text.find_parent(APART):  # no script
            text.replace_with(BeautifulSoup(marked(escape(text)), "html.parser"))
