"""The last step over a page: its frame is in two languages, and it loads nothing from elsewhere.

The theme's icon script (1.5 MB) and its search scripts go, since course.css draws the icons and
search.js searches. The policy refuses all scripts but the site's files and those that the theme
writes into a page's frame, which are named by their hash.
"""

import base64
import re
import shutil
from pathlib import Path

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders import Builder
from sphinx.jinja2glue import BuiltinTemplateLoader
from sphinx.theming import Theme

from course import ROOT, same
from course.site.extensions.interface import both, mark

ARTICLE = "<course-article></course-article>"  # where a page's own text will be
UNUSED = ",".join(
    f'script[src*="{name}"]'
    for name in ("fontawesome", "searchtools", "language_data", "searchindex", "sphinx_highlight")
)
FONTS = re.compile(r"@font-face\s*{[^}]*fontawesome[^}]*}")
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
    "_static/scripts/fontawesome.js*",
    "_static/searchtools.js",
    "_static/sphinx_highlight.js",
)
FOLDERS = ("_sources", "_static/vendor")
COPY_WORDS = ("Copy", "Copy to clipboard", "Copied!", "Failed to copy")


def policy(page: BeautifulSoup) -> str:
    """The page's Content-Security-Policy."""
    hashes = set()
    for script in page.find_all("script", src=False):
        digest = bytes.fromhex(same.letters(script.string))
        hashes.add(f"'sha256-{base64.b64encode(digest).decode()}'")
    scripts = " ".join(["'self'", "file:", *sorted(hashes)])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self' file: 'unsafe-inline'; "
        "img-src 'self' file: data:; font-src 'self' file:; form-action 'self' file:; "
        "base-uri 'none'"
    )


class Templates(BuiltinTemplateLoader):
    """The theme's templates. A page's frame is parsed and marked; then its own text is put in."""

    def init(self, builder: Builder, theme: Theme) -> None:
        super().init(builder, theme)
        self.environment.globals["gettext"] = both

    def render(self, template: str, context: dict) -> str:
        text = super().render(template, context | {"body": ARTICLE})
        if "<html" not in text:
            return text  # a part, which the theme tries whether it is empty
        page = BeautifulSoup(text, "html.parser")
        for script in page.select(UNUSED):
            script.decompose()
        mark(page)
        rule = {"http-equiv": "Content-Security-Policy", "content": policy(page)}
        icon = {"rel": "icon", "href": "data:,"}  # else a browser asks for favicon.ico
        page.meta.insert_after(page.new_tag("meta", attrs=rule), page.new_tag("link", attrs=icon))
        return str(page).replace(ARTICLE, context.get("body", ""))


def place(app: Sphinx, document: nodes.document, name: str) -> None:
    """Images load when they are near, in a place of their size. An empty head is a plain cell."""
    for image in document.findall(nodes.image):
        image["loading"] = "lazy"
        image["scale"] = 100  # Sphinx then writes its width and height
    for head in document.findall(nodes.thead):
        for entry in head.findall(nodes.entry):
            if not entry.astext().strip():
                entry.parent.replace(entry, nodes.raw("", "<td></td>", format="html"))


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
    copying = site / "_static" / "copybutton.js"
    script = copying.read_text()
    for word in COPY_WORDS:
        script = script.replace(f"'{word}'", f"'{both(word)}'")
    copying.write_text(script)
    give_notebooks(site)
    clear(site)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", place)
    app.connect("build-finished", finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
