"""What is folded in a lesson: files that may stay closed, and outputs longer than a screen.

The message of `%%writefile`, such as "Writing figures.py", is left out: the cell says it already.
"""

import re
from html import escape

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from course.lesson import file_of
from course.rooms import lexer
from course.site.extensions.wording import both

LINES = 20  # of an output that are shown unfolded
WROTE = re.compile(r"(?:Writing|Overwriting) \S+")
CLOSED = "tag_fold"


def is_cell(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and "cell" in node.get("classes", [])


def outputs(cell: nodes.Element) -> list[nodes.Element]:
    """What a code cell printed and drew."""
    inside = cell.findall(nodes.container)
    return [node for node in inside if "cell_output" in node.get("classes", [])]


def written(cell: nodes.Element) -> str:
    """The name of the file that a cell writes; "" if it writes none."""
    return file_of(cell.astext().lstrip())


def raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def files(names: list[str]) -> nodes.raw:
    """The beginning of a fold around some files, which it names."""
    label = both("Files of this lesson", "這一課的檔案")
    listed = " ".join(f"<code>{escape(name)}</code>" for name in names)
    return raw(f'<details class="files"><summary>{label} {listed}</summary>')


def fold(name: str) -> nodes.raw:
    """The beginning of a fold around the source of one cell."""
    if not name:
        summary = both("The code of this cell", "這一格的程式碼")
    else:
        summary = f"{both('File', '檔案')} <code>{escape(name)}</code>"
    return raw(f'<details class="source"><summary>{summary}</summary>')


class DropMessages(SphinxTransform):
    """`%%writefile` says what it did: on a page nobody needs that."""

    default_priority = 705

    def apply(self) -> None:
        for cell in list(self.document.findall(is_cell)):
            for output in outputs(cell):
                if WROTE.fullmatch(output.astext().strip()):
                    output.parent.remove(output)


class NameLanguages(SphinxTransform):
    """A file that is no Python is not coloured as Python: C++ and scripts as such, others not."""

    default_priority = 706

    def apply(self) -> None:
        for cell in list(self.document.findall(is_cell)):
            name = written(cell)
            if name and not name.endswith(".py"):
                language = lexer(name)
                for block in cell.findall(nodes.literal_block):
                    block["language"] = language


class FoldFiles(SphinxTransform):
    """Fold the source of cells that may stay closed; files in a row make one fold."""

    default_priority = 715

    def apply(self) -> None:
        for section in list(self.document.findall(nodes.section)):
            row: list[nodes.Element] = []
            for node in list(section.children):
                closed = is_cell(node) and CLOSED in node["classes"]
                if closed and written(node):
                    row.append(node)
                    continue
                self.close(section, row)
                row = []
                if closed:
                    self.close(section, [node])
            self.close(section, row)

    def close(self, section: nodes.Element, cells: list[nodes.Element]) -> None:
        names = [written(cell) for cell in cells]
        for cell, name in zip(cells, names, strict=True):
            cell.insert(0, fold(name))
            cell.insert(2, raw("</details>"))
        if len(cells) > 1:
            section.insert(section.index(cells[0]), files(names))
            section.insert(section.index(cells[-1]) + 1, raw("</details>"))


class FoldOutputs(SphinxTransform):
    """An output of more lines than a screen is folded after its first ones."""

    default_priority = 720

    def apply(self) -> None:
        for cell in list(self.document.findall(is_cell)):
            for output in outputs(cell):
                for block in list(output.findall(nodes.literal_block)):
                    lines = block.astext().rstrip("\n").count("\n") + 1
                    if lines > LINES:
                        block["classes"].append("long")
                        after = block.parent.index(block) + 1
                        block.parent.insert(after, self.button(lines))

    def button(self, lines: int) -> nodes.raw:
        more = both(f"Show all {lines} lines", f"顯示全部 {lines} 行")
        less = both(f"Show the first {LINES} lines", f"只顯示前 {LINES} 行")
        return raw(
            '<button class="unfold" type="button" aria-expanded="false">'
            f'<span class="more">{more}</span><span class="less">{less}</span></button>'
        )


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(DropMessages)
    app.add_transform(NameLanguages)
    app.add_transform(FoldFiles)
    app.add_transform(FoldOutputs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
