"""The last step over every page: it loads nothing that it does not need, nothing from elsewhere.

The theme's icon script (1.5 MB) and its search scripts go, since course.css draws the icons and
search.js searches. Handlers written into tags become marks for course.js, so that the policy below
can refuse all scripts but the site's files and those that the theme writes into a page, which are
named by their hash.
"""

import base64
import hashlib
import re
from pathlib import Path

from sphinx.application import Sphinx

UNUSED = re.compile(
    r"\s*<(?:script|link)\b[^>]*(?:fontawesome|searchtools|language_data|searchindex)[^>]*>(?:</script>)?"
)
INLINE = re.compile(r"<script(?:\s+data-cfasync=\"false\")?>(.*?)</script>", re.DOTALL)
HANDLERS = {
    ' onclick="toggleFullScreen()"': ' data-act="full"',
    ' onclick="window.print()"': ' data-act="print"',
}
FILES = ("searchindex.js", "_static/searchtools.js", "_static/language_data.js", "objects.inv")


def policy(page: str) -> str:
    """The page's Content-Security-Policy."""
    hashes = set()
    for script in INLINE.findall(page):
        digest = hashlib.sha256(script.encode()).digest()
        hashes.add(f"'sha256-{base64.b64encode(digest).decode()}'")
    scripts = " ".join(["'self'", "file:", *sorted(hashes)])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self' file: 'unsafe-inline'; "
        "img-src 'self' file: data:; font-src 'self' file:; form-action 'self' file:; "
        "base-uri 'none'"
    )


def finished(page: str) -> str:
    """One page as it is published."""
    page = UNUSED.sub("", page)
    for handler, mark in HANDLERS.items():
        page = page.replace(handler, mark)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy(page)}" />'
    return page.replace('<meta charset="utf-8" />', f'<meta charset="utf-8" />\n    {meta}', 1)


def finish(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.name != "html":
        return
    site = Path(app.outdir)
    for path in site.glob("**/*.html"):
        if path.parent.name != "assets" or path.stem not in ("deck", "handout"):
            path.write_text(finished(path.read_text()))
    for name in FILES:
        (site / name).unlink(missing_ok=True)
    for name in [*site.glob("_static/**/*.map"), *site.glob("_static/**/fontawesome*")]:
        if name.is_file():
            name.unlink()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
