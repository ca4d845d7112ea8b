"""Explain a term of the glossary where a lesson first uses it, once in each language.

A tip is a link to the term's row; reading.js shows the row's explanation beside it.
"""

import re
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from course.site.extensions.languages import BETWEEN, CHINESE, ENGLISH

GLOSSARY = "assets/glossary"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ASIDE = re.compile(r"\s*[（(][^）)]*[）)]")
# Plain words, too: "view" and "reduce" mostly mean nothing special.
COMMON = {"view", "reduce"}
WITHOUT = (nodes.literal, nodes.reference, nodes.raw, nodes.title, nodes.strong)


class Term(NamedTuple):
    place: str  # the id of its row
    says: dict[str, str]  # its explanation in each language


def place(term: str) -> str:
    """The id of the row of a term."""
    return f"term-{nodes.make_id(ASIDE.sub('', term))}"


def english(cell: str) -> list[str]:
    """The words of a row: "forward, backward pass" is two passes."""
    words = ASIDE.sub("", cell).split(", ")
    first, *others = words[-1].split(" ")
    if len(words) > 1 and len(others) == 1 and " " not in words[0] and words[0] != first:
        words = [f"{word} {others[0]}" for word in words[:-1]] + [words[-1]]
    return [word for word in words if word not in COMMON]


def chinese(cell: str) -> list[str]:
    words = ASIDE.sub("", cell).split("、")
    return [word for word in words if word not in COMMON]


def glossary(path: Path) -> dict[str, dict[str, Term]]:
    """The terms in each language, in small letters."""
    terms: dict[str, dict[str, Term]] = {ENGLISH: {}, CHINESE: {}}
    rows = [row.groups() for row in ROW.finditer(path.read_text())]
    lines = [number for number, row in enumerate(rows) if row[0].startswith("---")]
    headings = {number - 1 for number in lines}
    for number, (first, second, third) in enumerate(rows):
        says_english, _, says_chinese = third.partition(BETWEEN)
        term = Term(place(first), {ENGLISH: says_english, CHINESE: says_chinese})
        if not says_chinese or number in headings:
            continue
        for word in english(first):
            terms[ENGLISH].setdefault(word.lower(), term)
        for word in chinese(second):
            terms[CHINESE].setdefault(word.lower(), term)
    return terms


def pattern(words: dict[str, Term], plural: str) -> re.Pattern[str]:
    """Any of these words, the longest first, not as a part of another."""
    longest = sorted(words, key=len, reverse=True)
    latin = [re.escape(word) for word in longest if word.isascii()]
    others = [re.escape(word) for word in longest if not word.isascii()]
    choices = [rf"(?<![\w.-])(?:{'|'.join(latin)}){plural}(?![\w-])"] if latin else []
    return re.compile("|".join([*others, *choices]), re.IGNORECASE | re.ASCII)


class ExplainTerms(SphinxTransform):
    """Link the first use of each term."""

    default_priority = 730

    def apply(self) -> None:
        if self.env.docname == GLOSSARY:
            self.mark_rows()
        elif self.env.docname.startswith("notebooks/"):
            terms = glossary(Path(self.env.srcdir) / f"{GLOSSARY}.md")
            for language, plural in ((ENGLISH, "(?:e?s)?"), (CHINESE, "")):
                self.explain(language, terms[language], plural)

    def mark_rows(self) -> None:
        known: set[str] = set()
        for row in self.document.findall(nodes.row):
            name = place(row[0].astext())
            if name not in known and isinstance(row.parent, nodes.tbody):
                known.add(name)
                row["ids"].append(name)

    def explain(self, language: str, words: dict[str, Term], plural: str) -> None:
        finder = pattern(words, plural)
        explained: set[str] = set()
        address = self.app.builder.get_relative_uri(self.env.docname, GLOSSARY)
        for paragraph in list(self.document.findall(nodes.paragraph)):
            if language not in paragraph["classes"]:
                continue
            for text in list(paragraph.findall(nodes.Text)):
                if not self.inside(text, paragraph):
                    self.link(text, finder, words, explained, language, address)

    def inside(self, text: nodes.Text, paragraph: nodes.paragraph) -> bool:
        """Whether a text is in something that is no prose, such as code."""
        parent = text.parent
        while parent is not paragraph:
            if isinstance(parent, WITHOUT):
                return True
            parent = parent.parent
        return False

    def link(
        self,
        text: nodes.Text,
        finder: re.Pattern[str],
        words: dict[str, Term],
        explained: set[str],
        language: str,
        address: str,
    ) -> None:
        """Put a link in place of each term of one text that was not explained before."""
        made: list[nodes.Node] = []
        written = text.astext()
        begin = 0
        for match in finder.finditer(written):
            term = named(match[0], words)
            if term.place in explained:
                continue
            explained.add(term.place)
            uri = f"{address}#{term.place}"
            title = term.says[language]
            word = match[0]
            made.append(nodes.Text(written[begin : match.start()]))
            made.append(
                nodes.reference(
                    "", word, internal=True, refuri=uri, reftitle=title, classes=["tip"]
                )
            )
            begin = match.end()
        if made:
            made.append(nodes.Text(written[begin:]))
            text.parent.replace(text, made)


def named(word: str, words: dict[str, Term]) -> Term:
    """The term that a word of the text is, also in the plural."""
    small = word.lower()
    forms = [small, small.removesuffix("s"), small.removesuffix("es")]
    return next(words[form] for form in forms if form in words)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(ExplainTerms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
