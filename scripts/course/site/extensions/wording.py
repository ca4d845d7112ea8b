"""Words of our own buttons in both languages."""

from html import escape


def both(english: str, chinese: str) -> str:
    """HTML of which a reader sees one language, or both."""
    return (
        f'<span lang="en">{escape(english)}</span><span class="between"> · </span>'
        f'<span lang="zh-Hant-TW">{escape(chinese)}</span>'
    )
