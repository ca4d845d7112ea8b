"""The first cell of a notebook that a test runs: what tests want to know of figures, as text.

A figure is closed when its cell ends, and what stands in a picture cannot be searched. So titles
that say “not yet” are printed here, and complaints of texts too small for a telephone, of legends
over data, and of figures higher than a screen.
"""

import re as _re
import sys as _sys

from IPython import get_ipython as _get_ipython

# A telephone shows a picture 358 CSS pixels wide. A text of 72 points is as high as an inch.
_SMALLEST = 8  # CSS pixels
_HIGHEST = 6.5  # inches


def _titles(figure) -> list[str]:
    sides = ("left", "center", "right")
    titles = [axes.get_title(side) for axes in figure.axes for side in sides]
    return [title for title in titles if _re.search(r"\bnot (?:\w+ )?yet\b", title)]


def _complaints(figure) -> list[str]:
    from matplotlib.legend import Legend
    from matplotlib.text import Text

    figure.draw_without_rendering()
    found = []
    box = figure.get_tightbbox()  # inches: what a notebook shows, with 0.1 on each side
    width = box.width + 0.2
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    for text in sorted(texts, key=Text.get_fontsize)[:1]:
        pixels = text.get_fontsize() / width * 358 / 72
        if pixels < _SMALLEST:
            found.append(f"“{text.get_text()[:30]}” is {pixels:.1f} pixels high on a telephone")
    for legend in figure.findobj(Legend):
        place = legend.get_window_extent()
        if any(place.overlaps(axes.bbox) for axes in figure.axes):
            found.append("a legend stands over the data")
    if box.height + 0.2 > _HIGHEST:
        found.append(f"{box.height + 0.2:.1f} inches high")
    return found


def _print_figures() -> None:
    """Ahead of the callback that shows and closes the figures of a cell."""
    pyplot = _sys.modules.get("matplotlib.pyplot")
    numbers = pyplot.get_fignums() if pyplot else []
    for number in numbers:
        figure = pyplot.figure(number)
        for title in _titles(figure):
            print(f"A figure's title: {title}")
        for complaint in _complaints(figure):
            print(f"A figure's fault: {complaint}")


_get_ipython().events.register("post_execute", _print_figures)
