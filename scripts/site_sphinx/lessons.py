"""What makes a page of a notebook a lesson: folded programs, predictions, exercises, long outputs.

A prediction is a card: it hides the outputs of the cells below it and the paragraph after them,
until the reader has guessed. Only the script of the page hides anything, so that nothing is lost
without it, or on paper.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

PREDICT = "Predict:"
GUESSED = (
    '<button class="guessed" type="button" data-guess="{number}" hidden>'
    '<span lang="en">I have guessed</span><span class="between"> · </span>'
    '<span lang="zh-Hant-TW">我猜好了</span></button>'
)
EXERCISE = re.compile(r"Exercise \d+")
LINES = 20  # of an output that are shown unfolded


def is_cell(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and "cell" in node.get("classes", [])


def outputs(cell: nodes.Element) -> list[nodes.Element]:
    """What a code cell printed and drew."""
    inside = cell.findall(nodes.container)
    return [node for node in inside if "cell_output" in node.get("classes", [])]


def predicts(node: nodes.Node) -> bool:
    if not isinstance(node, nodes.paragraph):
        return False
    return any(strong.astext() == PREDICT for strong in node.findall(nodes.strong))


class MakeCards(SphinxTransform):
    """Number each prediction, and what it hides."""

    default_priority = 710

    def apply(self) -> None:
        number = 0
        for section in list(self.document.findall(nodes.section)):
            children = list(section.children)
            for at, node in enumerate(children):
                if predicts(node):
                    number += 1
                    self.hide(section, children[at + 1 :], number)
            if EXERCISE.match(section[0].astext() if len(section) else ""):
                section["classes"].append("exercise")

    def hide(self, section: nodes.section, following: list[nodes.Node], number: int) -> None:
        """Mark what one prediction hides, and put its button ahead of that."""
        hidden: list[nodes.Element] = []
        paragraphs = 0
        for node in following:
            if isinstance(node, nodes.section) or predicts(node):
                break
            if is_cell(node):
                if paragraphs:
                    break
                hidden += outputs(node)
            elif isinstance(node, nodes.paragraph) and hidden:
                hidden.append(node)
                paragraphs += 1
                if paragraphs == 2:
                    break
        if not hidden:
            return
        for node in hidden:
            node["classes"] += ["guess", f"guess-{number}"]
        button = nodes.raw("", GUESSED.format(number=number), format="html")
        first = hidden[0]
        first.parent.insert(first.parent.index(first), button)


class FoldOutputs(SphinxTransform):
    """An output of more lines than a screen is folded after its first ones."""

    default_priority = 720

    def apply(self) -> None:
        for container in self.document.findall(nodes.container):
            if "cell_output" not in container.get("classes", []):
                continue
            for block in list(container.findall(nodes.literal_block)):
                lines = block.astext().count("\n") + 1
                if lines > LINES:
                    block["classes"].append("long")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(MakeCards)
    app.add_transform(FoldOutputs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
