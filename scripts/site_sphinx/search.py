"""The index of the search: every section of every page, with its words in each language.

`_static/sections.js` sets `courseSections`: a script loads from file://, too, and `fetch` does not.
"""

import json
from pathlib import Path

from docutils import nodes
from languages import CHINESE, ENGLISH
from sphinx.application import Sphinx

WITHOUT = ("notebooks/solutions/",)  # they say what the lessons say


def fields(section: nodes.Element) -> dict[str, str]:
    """The words of one section without those of the sections in it."""
    parts: dict[str, list[str]] = {"en": [], "zh": [], "code": []}

    def gather(node: nodes.Node, kind: str) -> None:
        if isinstance(node, nodes.Text):
            parts[kind].append(node.astext())
            return
        if isinstance(node, nodes.section | nodes.title | nodes.raw | nodes.image):
            return
        classes = node.get("classes", []) if isinstance(node, nodes.Element) else []
        if "tag_fold" in classes:
            return
        if ENGLISH in classes:
            kind = "en"
        elif CHINESE in classes:
            kind = "zh"
        elif isinstance(node, nodes.literal_block):
            kind = "code"
        for child in node.children:
            gather(child, kind)
        if isinstance(node, nodes.paragraph | nodes.literal_block | nodes.entry):
            parts[kind].append(" ")

    for child in section.children:
        gather(child, "en")
    return {kind: " ".join("".join(texts).split()) for kind, texts in parts.items()}


def collect(app: Sphinx) -> list[dict[str, str]]:
    rows = []
    for name in sorted(app.env.found_docs):
        if name.startswith(WITHOUT):
            continue
        document = app.env.get_doctree(name)
        page = app.env.titles[name].astext()
        for section in document.findall(nodes.section):
            heading = section[0].astext()
            title = page if heading == page else f"{page} › {heading}"
            place = f"{name}.html#{section['ids'][0]}"
            rows.append({"address": place, "title": title} | fields(section))
    return rows


def write(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.name != "html":
        return
    rows = json.dumps(collect(app), ensure_ascii=False, separators=(",", ":"))
    target = Path(app.outdir) / "_static" / "sections.js"
    target.write_text(f"window.courseSections = {rows};\n")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
