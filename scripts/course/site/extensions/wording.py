"""Words in both languages: those of our own buttons, and of the link beside each heading."""

from html import escape
from pathlib import Path

from sphinx.application import Sphinx

PERMALINK = 'title="Link to this heading"'
LINK = "Link to this heading · 這個標題的連結"


def both(english: str, chinese: str) -> str:
    """HTML of which a reader sees one language, or both."""
    return (
        f'<span lang="en">{escape(english)}</span><span class="between"> · </span>'
        f'<span lang="zh-Hant-TW">{escape(chinese)}</span>'
    )


def name_links(app: Sphinx, error: Exception | None) -> None:
    """Say what the sign beside a heading is, for readers who cannot see where it stands."""
    if error or app.builder.name != "html":
        return
    for path in Path(app.outdir).glob("**/*.html"):
        page = path.read_text()
        if PERMALINK in page:
            path.write_text(page.replace(PERMALINK, f'title="{LINK}" aria-label="{LINK}"'))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", name_links, priority=800)  # ahead of finish.py
    return {"parallel_read_safe": True, "parallel_write_safe": True}
