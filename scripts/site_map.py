"""The map of which lesson needs which, as SVG that follows the page's colours."""

from html import escape

WIDTH, HEIGHT = 92, 40  # of a box and the space around it
BOX = 56, 26


def depth(number: str, needed: dict[str, list[str]]) -> int:
    """In which column a lesson is: one right of the last that it needs."""
    return max((depth(early, needed) + 1 for early in needed[number]), default=0)


def places(needed: dict[str, list[str]]) -> dict[str, tuple[int, int]]:
    """The left upper corner of each lesson's box."""
    rows: dict[int, int] = {}
    found = {}
    for number in sorted(needed):
        column = depth(number, needed)
        row = rows.get(column, 0)
        rows[column] = row + 1
        found[number] = (column * WIDTH + 4, row * HEIGHT + 4)
    return found


def drawn(needed: dict[str, list[str]], links: dict[str, tuple[str, str]]) -> str:
    """The map; `links`: the address and the title of each lesson."""
    at = places(needed)
    width = max(x for x, _ in at.values()) + BOX[0] + 4
    height = max(y for _, y in at.values()) + BOX[1] + 4
    title = "Which lesson needs which · 哪一課要先學哪一課"
    parts = [
        f'<svg class="course-map" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
    ]
    for late, all_early in needed.items():
        x2, y2 = at[late]
        for early in all_early:
            x1, y1 = at[early]
            points = f"{x1 + BOX[0]},{y1 + BOX[1] / 2} {x2},{y2 + BOX[1] / 2}"
            parts.append(f'<polyline points="{points}"/>')
    for number, (x, y) in at.items():
        address, name = links[number]
        parts.append(
            f'<a href="{escape(address)}"><title>{escape(name)}</title>'
            f'<rect x="{x}" y="{y}" width="{BOX[0]}" height="{BOX[1]}" rx="5"/>'
            f'<text x="{x + BOX[0] / 2}" y="{y + 18}">{number}</text></a>'
        )
    return "".join([*parts, "</svg>"])
