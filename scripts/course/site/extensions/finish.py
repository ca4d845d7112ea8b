"""The last step over every page: it is in two languages, and loads nothing from elsewhere.

The theme's icon script (1.5 MB) and its search scripts go, since course.css draws the icons and
search.js searches. The policy refuses all scripts but the site's files and those that the theme
writes into a page, which are named by their hash. Images wait until they are scrolled to, in a
place of their own size, so that the text does not jump.
"""

import base64
import re
import shutil
import struct
from pathlib import Path

from sphinx.application import Sphinx

from course import ROOT, same
from course.site.extensions.interface import both, in_two_languages

UNUSED = re.compile(
    r"\s*<(?:script|link)\b[^>]*"
    r"(?:fontawesome|searchtools|language_data|searchindex|sphinx_highlight|genindex)"
    r"[^>]*>(?:</script>)?"
)
FONTS = re.compile(r"@font-face\s*{[^}]*fontawesome[^}]*}")
INLINE = re.compile(r"<script(?:\s+data-cfasync=\"false\")?>(.*?)</script>", re.DOTALL)
IMAGE = re.compile(r'<img\b(?P<attributes>[^>]*?\bsrc="(?P<source>[^":]+)"[^>]*?)\s*/?>')
# What no page asks for.
FILES = (
    ".buildinfo",
    "objects.inv",
    "searchindex.js",
    "_static/*stemmer.js",
    "_static/check-solid.svg",
    "_static/copy-button.svg",
    "_static/copybutton_funcs.js",
    "_static/**/*.map",
    "_static/*macros.html",
    "_static/file.png",
    "_static/language_data.js",
    "_static/minus.png",
    "_static/plus.png",
    "_static/searchtools.js",
    "_static/sphinx_highlight.js",
)
FOLDERS = ("_sources", "_static/images", "_static/locales", "_static/vendor")
PAGES_APART = ("deck", "handout")  # written by hand, with a policy of their own
COPY_WORDS = ("Copy", "Copy to clipboard", "Copied!", "Failed to copy")


def policy(page: str) -> str:
    """The page's Content-Security-Policy."""
    hashes = set()
    for script in INLINE.findall(page):
        digest = bytes.fromhex(same.letters(script))
        hashes.add(f"'sha256-{base64.b64encode(digest).decode()}'")
    scripts = " ".join(["'self'", "file:", *sorted(hashes)])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self' file: 'unsafe-inline'; "
        "img-src 'self' file: data:; font-src 'self' file:; form-action 'self' file:; "
        "base-uri 'none'"
    )


def size(path: Path) -> tuple[int, int] | None:
    """Width and height of a PNG in pixels."""
    if path.suffix != ".png" or not path.exists():
        return None
    with path.open("rb") as file:
        return struct.unpack(">II", file.read(24)[16:])


def waiting(page: str, folder: Path) -> str:
    """A page whose images load when they are near, and keep their place until then."""

    def lazy(match: re.Match) -> str:
        tag = match["attributes"].rstrip()
        if "loading=" not in tag:
            tag += ' loading="lazy"'
        shape = size(folder / match["source"])
        if shape and "height=" not in tag and "width=" not in tag:
            tag += f' width="{shape[0]}" height="{shape[1]}"'
        return f"<img{tag}>"

    return IMAGE.sub(lazy, page)


def finished(page: str, folder: Path) -> str:
    """One page as it is published."""
    page = waiting(in_two_languages(UNUSED.sub("", page)), folder)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy(page)}" />'
    meta += '\n    <link rel="icon" href="data:,">'  # else a browser asks for favicon.ico
    return page.replace('<meta charset="utf-8" />', f'<meta charset="utf-8" />\n    {meta}', 1)


def give_notebooks(site: Path) -> None:
    """Each lesson's notebook beside its page, for the button that downloads it."""
    for page in site.glob("notebooks/**/*.html"):
        notebook = ROOT / page.relative_to(site).with_suffix(".ipynb")
        if notebook.exists():
            shutil.copy(notebook, page.with_suffix(".ipynb"))


def clear(site: Path) -> None:
    """Remove the files that no page asks for."""
    for name in FILES:
        for path in site.glob(name):
            path.unlink()
    for name in FOLDERS:
        shutil.rmtree(site / name, ignore_errors=True)
    for path in site.glob("_static/styles/*.css"):
        path.write_text(FONTS.sub("", path.read_text()))


def finish(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.name != "html":
        return
    site = Path(app.outdir)
    for path in site.glob("**/*.html"):
        apart = path.parent.name == "assets" and path.stem in PAGES_APART
        if not apart and "_static" not in path.parts:
            path.write_text(finished(path.read_text(), path.parent))
    copying = site / "_static" / "copybutton.js"
    script = copying.read_text()
    for word in COPY_WORDS:
        script = script.replace(f"'{word}'", f"'{both(word)}'")
    copying.write_text(script)
    give_notebooks(site)
    clear(site)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
