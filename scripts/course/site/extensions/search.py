"""What the search needs: every section of every page, both Chinese scripts, words that mean others.

`_static/sections.js` sets `courseSearch`: a script loads from file://, too, and `fetch` does not.
It holds JSON, packed by gzip and written in base64, a third of its size.
"""

import base64
import gzip
import json
import tomllib
from pathlib import Path

from docutils import nodes
from opencc import OpenCC
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from course.languages import CJK
from course.site.extensions.languages import BETWEEN, CHINESE, ENGLISH, language

WITHOUT = (
    "notebooks/solutions/",
    "runs",
    "assets/error-texts",
)  # they say what the lessons say, or nothing to look up
# Lists of messages, of which each has a page.
LISTS = ("From error text to", "Messages of this lesson")
ERROR_PAGES = "errors/"  # a message, its cause and its remedy are one entry
WORDS = Path(__file__).parents[1] / "search-words.toml"
ASKED = Path(__file__).parents[1] / "search-asked.toml"
# Who looks up a word wants the lesson before the error, and before what teachers read.
TOP = 1.5  # a page's own heading
WORD = 0.4  # a row of the glossary
WEIGHT = {ERROR_PAGES: 0.1, "assets/": 0.3, "notebooks/workshop": 0.3}
BLOCKS = nodes.paragraph | nodes.literal_block | nodes.entry | nodes.title


def field(text: str) -> str:
    """The language of a text that is in no marked place."""
    return "zh" if language(text) == CHINESE else "en"


def has_words(table: nodes.Node) -> bool:
    """Whether it is a table of words, of which each row is looked up alone."""
    return any(row["ids"] for row in table.findall(nodes.row))


def fields(section: nodes.Element, whole: bool = False) -> dict[str, str]:
    """The words of one section, without those of the sections in it unless it is taken whole."""
    parts: dict[str, list[str]] = {"en": [], "zh": [], "code": []}

    def gather(node: nodes.Node, kind: str | None) -> None:
        if isinstance(node, nodes.Text):
            for piece in node.astext().split(BETWEEN):
                parts[kind or field(piece)].append(f"{piece} " if kind is None else piece)
            return
        if isinstance(node, nodes.title | nodes.raw | nodes.image):
            return
        if isinstance(node, nodes.section) and not whole:
            return
        if isinstance(node, nodes.table) and has_words(node):
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
        if isinstance(node, BLOCKS):
            for texts in parts.values():
                texts.append(" ")

    for child in section.children:
        gather(child, None)
    return {kind: " ".join("".join(texts).split()) for kind, texts in parts.items()}


def filled(section: nodes.Element, whole: bool = False) -> dict[str, str]:
    return {kind: text for kind, text in fields(section, whole).items() if text}


def collect(app: Sphinx) -> list[dict]:
    """One row a section; `page` is left out where the section's heading is the page's."""
    rows = []
    for name in sorted(app.env.found_docs):
        if name.startswith(WITHOUT):
            continue
        page = app.env.titles[name].astext()
        for section in app.env.get_doctree(name).findall(nodes.section):
            heading = section[0].astext()
            if heading.startswith(LISTS):
                continue
            row: dict = {"at": f"{name}.html#{anchor(section['ids'])}", "title": heading}
            row["weight"] = weight(name)
            if heading != page:
                row["page"] = page
            else:
                row["weight"] *= TOP
            if name.startswith(ERROR_PAGES):
                row["texts"] = [text.astext() for text in section[0].findall(nodes.literal)]
                row["last"] = int("last" in app.env.metadata[name])
            whole = name.startswith(ERROR_PAGES)
            if whole and heading != page:
                continue
            rows.append(row | filled(section, whole))
            for word in section.findall(nodes.row):
                if word["ids"] and word.parent.parent.parent.parent is section:
                    place = f"{name}.html#{word['ids'][0]}"
                    title = BETWEEN.join(entry.astext() for entry in word[:2])
                    rows.append(
                        {"at": place, "title": title, "page": page, "weight": WORD} | filled(word)
                    )
    return rows


def anchor(names: list[str]) -> str:
    """Of a section's names the one made of its heading: a link to a cell adds another."""
    return next((name for name in names if not name.startswith("cell-")), names[0])


def weight(name: str) -> float:
    """What a hit on this page is worth beside one in a lesson."""
    return next((share for kind, share in WEIGHT.items() if name.startswith(kind)), 1)


def scripts(text: str) -> dict[str, str]:
    """The Chinese characters of a text that are written otherwise in the other script."""
    signs = "".join(sorted(set(CJK.findall(text))))
    simplified = OpenCC("t2s").convert(signs)
    changed = [pair for pair in zip(signs, simplified, strict=True) if pair[0] != pair[1]]
    return {
        "traditional": "".join(sign for sign, _ in changed),
        "simplified": "".join(sign for _, sign in changed),
    }


def words() -> list[tuple[str, str]]:
    """What people ask for, and the course's words for it; the longest are looked for first."""
    table = tomllib.loads(WORDS.read_text())["word"]
    pairs = [(asked, word["means"]) for word in table for asked in word["asked"]]
    return sorted(pairs, key=lambda pair: -len(pair[0]))


def ask(rows: list[dict], asked: dict[str, list[str]]) -> None:
    """Give each section the questions that it answers, as people ask them, by `page#Heading`."""
    sections = {}
    for row in rows:
        page = Path(row["at"].partition("#")[0]).stem
        sections[f"{page}#{row['title'].partition(BETWEEN)[0]}"] = row
    pages = {name.partition("#")[0] for name in sections}
    for name, questions in asked.items():
        if name in sections:
            sections[name]["asked"] = " | ".join(questions)
        elif name.partition("#")[0] in pages:
            raise ExtensionError(f"{ASKED.name}: no section {name}: what is it called now?")


def write(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.name != "html":
        return
    rows = collect(app)
    ask(rows, tomllib.loads(ASKED.read_text()))
    text = json.dumps(rows, ensure_ascii=False)
    needed = {"rows": rows, **scripts(text), "words": words()}
    made = json.dumps(needed, ensure_ascii=False, separators=(",", ":"))
    target = Path(app.outdir) / "_static" / "sections.js"
    # Without a time, so that the same course makes the same file.
    packed = base64.b64encode(gzip.compress(made.encode(), mtime=0)).decode()
    target.write_text(f'window.courseSearch = "{packed}";\n')


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
