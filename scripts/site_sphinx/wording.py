"""The words around a lesson in both languages: those of our own buttons, and those of the theme."""

from html import escape
from pathlib import Path

from sphinx.application import Sphinx

SHOWN = {  # what the theme writes between tags
    "previous": "上一頁",
    "next": "下一頁",
    "Contents": "本頁內容",
    "On this page": "本頁內容",
}
NAMED = {  # what it writes into attributes
    "previous page": "上一頁",
    "next page": "下一頁",
    "Link to this heading": "這個標題的連結",
    "On this page": "本頁內容",
    "Page": "本頁",
}


def both(english: str, chinese: str) -> str:
    """HTML of which a reader sees one language, or both."""
    return (
        f'<span lang="en">{escape(english)}</span><span class="between"> · </span>'
        f'<span lang="zh-Hant-TW">{escape(chinese)}</span>'
    )


def translated(page: str) -> str:
    """A page whose theme speaks both languages."""
    page = page.replace('<p class="prev-next-subtitle">previous</p>', PREVIOUS)
    page = page.replace('<p class="prev-next-subtitle">next</p>', NEXT)
    for heading in ("Contents", "On this page"):
        words = both(heading, SHOWN[heading])
        page = page.replace(f"</i> {heading}\n", f"</i> {words}\n")
        page = page.replace(f"<h2> {heading} </h2>", f"<h2>{words}</h2>")
    for name, chinese in NAMED.items():
        for attribute in ("title", "aria-label"):
            page = page.replace(f'{attribute}="{name}"', f'{attribute}="{name} · {chinese}"')
    link = f'title="Link to this heading · {NAMED["Link to this heading"]}"'
    return page.replace(link, f"{link} {link.replace('title', 'aria-label', 1)}")


PREVIOUS = f'<p class="prev-next-subtitle">{both("previous", SHOWN["previous"])}</p>'
NEXT = f'<p class="prev-next-subtitle">{both("next", SHOWN["next"])}</p>'


def translate(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.name != "html":
        return
    for path in Path(app.outdir).glob("**/*.html"):
        if path.parent.name != "assets" or path.stem not in ("deck", "handout"):
            path.write_text(translated(path.read_text()))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", translate, priority=800)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
