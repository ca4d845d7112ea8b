"""Mark on every page what is English and what is Chinese, so that a reader can choose one.

A paragraph or an item of a list is in one language; a heading, a cell of a table or a caption gives
both, parted by ` · `. What is marked gets `lang`, by docutils' classes `language-…`.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from course.languages import CJK, is_chinese

BETWEEN = " · "
ENGLISH = "language-en"
CHINESE = "language-zh-Hant-TW"
BETWEEN_MARK = "between"
INLINE = nodes.reference | nodes.strong | nodes.emphasis | nodes.inline
OR = ("or", "或")  # between two pieces of code, of which no reader may miss one


def prose(node: nodes.Node) -> str:
    """The words of a node, without code."""
    parts = []
    for text in node.findall(nodes.Text):
        if not isinstance(text.parent, nodes.literal | nodes.raw):
            parts.append(text.astext())
    return "".join(parts)


def language(text: str) -> str | None:
    """The class for a text in one language; None if it is in none, as a number is."""
    chinese = is_chinese(text)
    if chinese is None:
        return None
    return CHINESE if chinese else ENGLISH


def wrap(children: list[nodes.Node], kind: str | None) -> list[nodes.Node]:
    """These nodes, inside one that is marked, if there is a language to mark."""
    if kind is None or not children:
        return children
    return [nodes.inline("", "", *children, classes=[kind])]


def mark_or() -> nodes.inline:
    """`or · 或`, marked, as one piece that parts nothing."""
    english, chinese = OR
    return nodes.inline(
        "",
        "",
        nodes.Text(" "),
        nodes.inline("", "", nodes.Text(english), classes=[ENGLISH]),
        nodes.inline("", "", nodes.Text(BETWEEN), classes=[BETWEEN_MARK]),
        nodes.inline("", "", nodes.Text(chinese), classes=[CHINESE]),
        nodes.Text(" "),
    )


def part(node: nodes.Element) -> None:
    """Mark the parts of a heading, or of a cell, in their languages."""
    for child in list(node.children):
        if isinstance(child, nodes.Text) and child.astext().strip() == BETWEEN.join(OR):
            node.replace(child, mark_or())
    segments: list[list[nodes.Node]] = [[]]
    for child in list(node.children):
        if not isinstance(child, nodes.Text):
            segments[-1].append(child)
            continue
        for number, piece in enumerate(child.astext().split(BETWEEN)):
            if number:
                segments.append([])
            if piece:
                segments[-1].append(nodes.Text(piece))
    words = ["".join(prose_of(child) for child in segment) for segment in segments]
    kinds = [language(each) for each in words]
    if kinds == [ENGLISH, ENGLISH] and CJK.search(words[1]) and not CJK.search(words[0]):
        kinds[1] = CHINESE  # a short sentence in Chinese with many names from code
    if len(set(kinds) - {None}) < 2:
        return  # it does not give both
    made: list[nodes.Node] = []
    for number, (segment, kind) in enumerate(zip(segments, kinds, strict=True)):
        if number:
            both = kinds[number - 1] is not None and kind is not None
            between = nodes.Text(BETWEEN)
            made += [nodes.inline("", "", between, classes=["between"])] if both else [between]
        made += wrap(segment, kind)
    node.children = []
    node.extend(made)


def prose_of(node: nodes.Node) -> str:
    """What tells the language of a piece: not code, nor a link whose words are in both."""
    if isinstance(node, nodes.Text):
        return node.astext()
    words = prose(node)
    return "" if isinstance(node, nodes.literal) or BETWEEN in words else words


def mark_columns(table: nodes.table) -> None:
    """Mark the columns *English* and *中文* of a table of words.

    A reader of Chinese sees the English words, too: programs and messages use them.
    """
    for row in table.findall(nodes.row):
        titles = [entry.astext() for entry in row]
        break
    if not {"English", "中文"} <= set(titles):
        return
    for row in table.findall(nodes.row):
        row[titles.index("English")]["classes"] += [ENGLISH, "kept"]
        row[titles.index("中文")]["classes"].append(CHINESE)


class MarkLanguages(SphinxTransform):
    """After parsing, before titles are collected for the navigation."""

    default_priority = 700

    def apply(self) -> None:
        for title in self.document.findall(nodes.title):
            part(title)
        for entry in self.document.findall(nodes.entry):
            for paragraph in entry.findall(nodes.paragraph):
                part(paragraph)
        for table in self.document.findall(nodes.table):
            mark_columns(table)
        for item in self.document.findall(nodes.list_item):
            for paragraph in item.findall(nodes.paragraph):
                part(paragraph)  # an item may give both, as a heading does
            marked = any(BETWEEN_MARK in node["classes"] for node in item.findall(nodes.inline))
            kind = None if marked else language(prose(item))
            if kind:
                item["classes"].append(kind)
        for paragraph in self.document.findall(nodes.paragraph):
            if not isinstance(paragraph.parent, nodes.entry | nodes.list_item):
                kind = language(prose(paragraph))
                if kind:
                    paragraph["classes"].append(kind)
        for items in self.document.findall(nodes.bullet_list):
            kinds = {tuple(item["classes"]) for item in items}
            if len(kinds) == 1:
                items["classes"] += kinds.pop()
        for words in list(self.document.findall(lambda node: isinstance(node, INLINE))):
            part(words)  # a link in a sentence of one language gives both


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(MarkLanguages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
