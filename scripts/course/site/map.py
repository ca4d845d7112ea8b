"""The map of which lesson needs which: a list of links, and lines that join them.

Each lesson is a row, indented by how many lessons lead to it. The lines are one SVG behind the
list, in the list's own units (rem), so that both keep together at any size of letters and screen.
"""

from typing import NamedTuple

from markupsafe import Markup

ROW = 40  # the height of a row, in sixteenths of a rem; front.css has the same
STEP = 12  # how far a row is indented for each lesson that leads to it
DOT = 5  # the radius of a lesson's dot
TURN = 8  # the radius of a line's bend
EDGE = DOT + 2  # from the left edge to the first dot's middle


class Place(NamedTuple):
    """One lesson on the map."""

    number: str
    needs: list[str]
    indent: float  # of its title, in rem
    x: int
    y: int


def depth(number: str, needed: dict[str, list[str]]) -> int:
    """How many lessons lead to a lesson, on the longest way."""
    return max((depth(early, needed) + 1 for early in needed[number]), default=0)


def places(needed: dict[str, list[str]]) -> list[Place]:
    """The lessons in order, each with the middle of its dot."""
    found = []
    for row, number in enumerate(sorted(needed)):
        x = EDGE + depth(number, needed) * STEP
        indent = (x + DOT + 6) / 16
        found.append(Place(number, needed[number], indent, x, row * ROW + ROW // 2))
    return found


def described(needed: dict[str, list[str]]) -> str:
    """What the lines show, in words."""
    pairs = [f"{late} ← {', '.join(early)}" for late, early in needed.items() if early]
    return f"Which lesson needs which · 哪一課要先學哪一課: {'; '.join(pairs)}"


def lines(needed: dict[str, list[str]]) -> Markup:
    """The lines and dots: down from a lesson, then right to each lesson that needs it."""
    at = {place.number: place for place in places(needed)}
    width = max(place.x for place in at.values()) + EDGE
    height = len(at) * ROW
    parts = [
        f'<svg viewBox="0 0 {width} {height}" width="{width / 16}rem" height="{height / 16}rem" '
        f'role="img"><title>{described(needed)}</title>'
    ]
    for late in at.values():
        for number in late.needs:
            early = at[number]
            bend = f"V{late.y - TURN} Q{early.x} {late.y} {early.x + TURN} {late.y} H{late.x}"
            edge = f"{number}-{late.number}"
            parts.append(f'<path data-edge="{edge}" d="M{early.x} {early.y} {bend}"/>')
    parts += [f'<circle cx="{place.x}" cy="{place.y}" r="{DOT}"/>' for place in at.values()]
    return Markup("".join([*parts, "</svg>"]))
