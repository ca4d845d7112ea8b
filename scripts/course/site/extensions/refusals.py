"""What the site refuses of a page: no title, an image that says nothing, words in no language.

Each fault is a warning of Sphinx with its place; course.site tells them all and fails.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from course.languages import counted

KIND = "course"  # of all these warnings: `[course.title]`
LETTERS = re.compile(r"[^\W\d_]{2,}")
SENTENCE = re.compile(r"(?<=[.!?])\s+|[。！？]")
# Code and formulas are in no language; languages.py judges headings and tables.
ELSEWHERE = (nodes.literal, nodes.raw, nodes.math, nodes.title, nodes.entry)
LONG = 6  # words or characters of a sentence that is too long to be a name or a quotation

logger = logging.getLogger(__name__)


def refuse(what: str, text: str, location: object) -> None:
    logger.warning(text, type=KIND, subtype=what, location=location)


def is_marked(node: nodes.Element) -> bool:
    """Whether languages.py says of a node which language it is in."""
    return any(name.startswith("language-") for name in node.get("classes", []))


def without_language(paragraph: nodes.paragraph) -> str:
    """Words of a paragraph that languages.py has marked neither as English nor as Chinese."""
    for text in paragraph.findall(nodes.Text):
        node = text.parent
        words = LETTERS.search(text.astext())
        while words and node is not None:
            if isinstance(node, ELSEWHERE) or is_marked(node):
                words = None
            node = node.parent
        if words:
            return words[0]
    return ""


def marked_texts(paragraph: nodes.paragraph) -> list[str]:
    """The words of a paragraph; those of each part that is marked as in one language together."""
    parts: dict[int, list[str]] = {}
    for text in paragraph.findall(nodes.Text):
        node = text.parent
        if isinstance(node, nodes.literal | nodes.raw | nodes.math):
            continue
        while node is not paragraph and not is_marked(node):
            node = node.parent
        parts.setdefault(id(node), []).append(text.astext())
    return ["".join(texts) for texts in parts.values()]


def mixed(text: str) -> str:
    """The first sentence of a text that is in another language than the sentences before it."""
    kinds = set()
    for sentence in SENTENCE.split(text):
        chinese, english = counted(sentence)
        if chinese >= LONG and chinese > english:
            kinds.add("zh")
        elif english >= LONG and not chinese:
            kinds.add("en")
        if len(kinds) == 2:
            return " ".join(sentence.split())[:50]
    return ""


def check_page(app: Sphinx, document: nodes.document) -> None:
    if not any(isinstance(node, nodes.section) for node in document.children):
        remedy = "the page has no title: begin with `# Title · 標題`"
        refuse("title", remedy, (app.env.docname, 1))
    for image in document.findall(nodes.image):
        if image.get("alt", "").strip():
            continue
        text = f"the image {image['uri']} has no alternative text: ![what it shows](…)"
        if isinstance(image.parent, nodes.container):  # a cell drew it
            text = "a figure has no alternative text: give it a title and labels"
        refuse("image", text, image if image.line else image.parent)
    for paragraph in document.findall(nodes.paragraph):
        word = without_language(paragraph)
        if word:
            remedy = f"“{word}” is in no language: write a paragraph in English or in 中文"
            refuse("language", remedy, paragraph)
        if isinstance(paragraph.parent, nodes.entry):
            continue
        start = next(filter(None, map(mixed, marked_texts(paragraph))), "")
        if start:
            remedy = f"“{start}” is in another language than its paragraph: make two paragraphs"
            refuse("language", remedy, paragraph)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", check_page, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
