"""The words of the theme itself, such as "Search" and "Back to top", in both languages.

Each becomes `English · 中文`: course.js shows the chosen part of a label or a tooltip, and
finish.py marks the parts of a text.
"""

import re

from sphinx.application import Sphinx

from course.site.extensions.languages import BETWEEN, language

WORDS = {
    "Announcement": "公告",
    "Back to top": "回到最上面",
    "Color mode": "明暗",
    "Contents": "本頁內容",
    "Copied!": "已複製",
    "Copy": "複製",
    "Copy to clipboard": "複製到剪貼簿",
    "Dark": "深色",
    "Failed to copy": "複製失敗",
    "Light": "淺色",
    "On this page": "本頁內容",
    "Search": "搜尋",
    "Site navigation": "網站導覽",
    "Skip to main content": "跳到主要內容",
    "System Settings": "跟隨系統設定",
    "Version warning": "版本提醒",
    "next": "下一頁",
    "next page": "下一頁",
    "previous": "上一頁",
    "previous page": "上一頁",
}
# What is no prose, or cannot hold a tag; and a text between two tags.
APART = re.compile(r"(<(script|style|title|pre|code|textarea|noscript|svg)\b.*?</\2>)", re.DOTALL)
TEXT = re.compile(r">([^<>]* · [^<>]*)<")
# What the theme's templates have in English only, or without a label.
LABELS = {
    'title="Toggle primary sidebar"': "Lessons on or off · 開關課程目錄",
    'title="Toggle secondary sidebar"': "Contents on or off · 開關本頁內容",
}
NAVIGATION = {
    'aria-label="Main"': 'aria-label="Lessons · 課程"',
    'aria-label="Page"': 'aria-label="Contents · 本頁內容"',
    'id="pst-primary-sidebar"': (
        'id="pst-primary-sidebar" role="complementary" aria-label="The course · 這門課"'
    ),
    '<th class="head"><p></p></th>': "<td></td>",
}


def both(text: str) -> str:
    """A word of the theme in both languages; others as they are."""
    return f"{text}{BETWEEN}{WORDS[text]}" if text in WORDS else text


def several(one: str, more: str, number: int) -> str:
    return both(one if number == 1 else more)


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


def in_two_languages(page: str) -> str:
    """A page whose every text of both languages is marked, and whose labels have both."""
    for label, words in LABELS.items():
        page = page.replace(label, f'title="{words}" aria-label="{words}"')
    for written, better in NAVIGATION.items():
        page = page.replace(written, better)
    head, body, rest = page.partition("<body")
    pieces = APART.split(body + rest)
    for at in range(0, len(pieces), 3):  # text, what is apart, its tag, text, …
        pieces[at] = TEXT.sub(lambda match: f">{marked(match[1])}<", pieces[at])
        if at + 2 < len(pieces):
            pieces[at + 2] = ""
    return head + "".join(pieces)


def translate(app: Sphinx) -> None:
    """Let the theme's templates say everything in both languages."""
    if app.builder.name == "html":
        environment = app.builder.templates.environment
        environment.install_gettext_callables(gettext=both, ngettext=several)


def give(app: Sphinx, name: str, template: str, context: dict, tree: object) -> None:
    context["translate"] = both


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", translate)
    app.connect("html-page-context", give, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
