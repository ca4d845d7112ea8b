"""What makes a page of a notebook a lesson: predictions, exercises, places to link to.

A prediction hides the outputs of the cells below it and the paragraph after them (in both
languages), until the reader has guessed. Only the script of the page hides anything, so that
nothing is lost without it, or on paper.
"""

import re
from collections.abc import Callable

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.transforms import SphinxTransform

from course.site.extensions.folds import CLOSED, is_cell, outputs, raw, written
from course.site.extensions.languages import CHINESE, ENGLISH
from course.site.extensions.wording import both

PREDICT = re.compile("Predict:?")
TWIN = re.compile("先猜猜看：?")
GUESSED = '<button class="guessed" type="button" data-guess="{number}">{label}</button>'
EXERCISE = re.compile(r"Exercise \d+")
IDENTITY = "tag_id-"


def asks(node: nodes.Node, words: re.Pattern[str] = PREDICT) -> bool:
    """Whether a paragraph asks for a prediction."""
    if not isinstance(node, nodes.paragraph):
        return False
    strong = (found.astext().strip() for found in node.findall(nodes.strong))
    return any(words.fullmatch(text) for text in strong)


def shows(cell: nodes.Element) -> bool:
    """Whether running a cell shows something, or checks it: not a file, nothing that is folded."""
    return not written(cell) and CLOSED not in cell["classes"]


def results(
    following: list[nodes.Node], answers: Callable[[nodes.Element], bool]
) -> list[nodes.Element]:
    """What gives a prediction away: outputs of cells, then a paragraph in each language.

    Paragraphs ahead of the first cell that answers introduce something else.
    """
    hidden: list[nodes.Element] = []
    wanted = [ENGLISH, CHINESE]
    answered = False
    for node in following:
        if isinstance(node, nodes.section) or asks(node) or not wanted:
            break
        if is_cell(node):
            if len(wanted) < 2:
                break
            hidden += outputs(node)
            answered = answered or answers(node)
        elif isinstance(node, nodes.paragraph) and answered:
            if asks(node, TWIN) or wanted[0] not in node["classes"]:
                break
            hidden.append(node)
            del wanted[0]
    return hidden


class PlaceCells(SphinxTransform):
    """Give each code cell an id to link to: its tag `id-…`, which pages.py wrote."""

    default_priority = 702

    def apply(self) -> None:
        for cell in self.document.findall(is_cell):
            for name in [name for name in cell["classes"] if name.startswith(IDENTITY)]:
                cell["classes"].remove(name)
                cell["ids"].append(f"code-{name.removeprefix(IDENTITY)}")


class MakeExercises(SphinxTransform):
    """Let an exercise end with its solution: what follows belongs to the section around it."""

    default_priority = 706

    def apply(self) -> None:
        for section in list(self.document.findall(nodes.section)):
            if not EXERCISE.match(section[0].astext() if len(section) else ""):
                continue
            section["classes"].append("exercise")
            begun = False
            for at, node in enumerate(section.children):
                begun = begun or "details class=" in self.html(node)
                if begun and "</details>" in self.html(node):
                    self.move(section, section.children[at + 1 :])
                    break

    def html(self, node: nodes.Node) -> str:
        return node.astext() if isinstance(node, nodes.raw) else ""

    def move(self, section: nodes.section, following: list[nodes.Node]) -> None:
        after = section.parent.index(section) + 1
        for node in following:
            section.remove(node)
        section.parent[after:after] = following


class MakeCards(SphinxTransform):
    """Number each prediction, and what it hides."""

    default_priority = 710

    def apply(self) -> None:
        number = 0
        for section in list(self.document.findall(nodes.section)):
            children = list(section.children)
            for at, node in enumerate(children):
                if asks(node) or asks(node, TWIN):
                    node["classes"].append("prediction")
                if asks(node):
                    number += 1
                    self.hide(children[at + 1 :], number)

    def hide(self, following: list[nodes.Node], number: int) -> None:
        """Mark what one prediction hides, and put its button ahead of that."""
        hidden = results(following, lambda cell: bool(outputs(cell)))
        if not hidden and any(outputs(cell) for cell in self.document.findall(is_cell)):
            hidden = results(following, shows)  # cells that only check something
        if not hidden:
            return
        for node in hidden:
            node["classes"] += ["guess", f"guess-{number}"]
        label = both("I have guessed: show the result", "我猜好了：看結果")
        button = raw(GUESSED.format(number=number, label=label))
        first = hidden[0]
        first.parent.insert(first.parent.index(first), button)


def choose_copied(app: Sphinx, config: Config) -> None:
    """Copy buttons belong to code, not to what it printed."""
    config.copybutton_selector = "div:not(.output) > div.highlight > pre"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", choose_copied, priority=100)  # ahead of sphinx_copybutton
    for transform in (PlaceCells, MakeExercises, MakeCards):
        app.add_transform(transform)
    app.add_js_file("teacher.js", loading_method="defer")
    app.add_css_file("teacher.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
