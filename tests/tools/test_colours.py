"""Who sees no red, no green or no blue can still tell the colours of the figures apart."""

import re
import runpy
from itertools import combinations

import numpy as np
import pytest
from colorspacious import cspace_convert, deltaE
from matplotlib.colors import to_rgb

from course import ROOT, rooms

FIGURES = rooms.program("figures")
NAMES = ("BLUE", "ORANGE", "GREEN", "GREY", "BLACK")
COLOURS = {name: runpy.run_path(str(FIGURES))[name] for name in NAMES} | {"white": "white"}
SIGHTS = ["normal", "deuteranomaly", "protanomaly", "tritanomaly"]  # severity 100: -opia

# In CAM02-UCS: what M. A. Petroff, "Accessible color sequences for data visualization" (2021,
# arXiv 2107.02270), demands of any two of six colours. matplotlib's style petroff6 came of it.
# One in some ten thousand sees no blue: that distance is printed, and not judged.
LEAST = 20
JUDGED = SIGHTS[:3]


def seen(colour: str, sight: str) -> np.ndarray:
    rgb = np.array(to_rgb(colour))
    if sight == "normal":
        return rgb
    space = {"name": "sRGB1+CVD", "cvd_type": sight, "severity": 100}
    return np.clip(cspace_convert(rgb, space, "sRGB1"), 0, 1)


def distance(first: str, second: str, sight: str) -> float:
    return float(deltaE(seen(first, sight), seen(second, sight), input_space="sRGB1"))


def contrast(colour: str) -> float:
    """On white, as WCAG 2.2 works it out."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return 1.05 / (float(linear @ [0.2126, 0.7152, 0.0722]) + 0.05)


def too_near(colours: dict[str, str]) -> list[str]:
    found = []
    print(f"{'ΔE':16}" + "".join(f"{sight:>15}" for sight in SIGHTS))
    for first, second in combinations(colours, 2):
        far = {sight: distance(colours[first], colours[second], sight) for sight in SIGHTS}
        print(f"{first + ' ' + second:16}" + "".join(f"{far[sight]:15.1f}" for sight in SIGHTS))
        found += [f"{first}, {second}: {sight}" for sight in JUDGED if far[sight] < LEAST]
    return found


def test_any_two_colours_can_be_told_apart() -> None:
    assert too_near(COLOURS) == []


def test_red_beside_orange_is_refused() -> None:
    pair = {"red": "#dc2626", "orange": COLOURS["ORANGE"]}
    assert too_near(pair) == [f"red, orange: {sight}" for sight in JUDGED]


@pytest.mark.parametrize("name", NAMES)
def test_a_colour_is_seen_on_white(name: str) -> None:
    """3 : 1 is what WCAG 2.2 asks of graphics (1.4.11)."""
    assert contrast(COLOURS[name]) >= 3
    assert contrast("#9ca3af") < 3  # the grey that we had


def test_phases_look_different() -> None:
    phases = runpy.run_path(str(FIGURES))["PHASES"]
    looks = [(look["color"], look.get("hatch")) for look in phases.values()]
    assert len(set(looks)) == len(phases) - 1  # communication is the all-reduce
    assert {colour for colour, hatch in looks if not hatch} <= set(COLOURS.values()) - {"white"}


def test_colours_are_named_in_one_place() -> None:
    places = [*ROOT.glob("notebooks/src/*.md"), *ROOT.glob("scripts/lessons/**/*.py")]
    written = {}
    for path in places:
        found = re.findall(r"""["'](#[0-9a-fA-F]{3,8})["']""", path.read_text())
        if found:
            written[path.name] = found
    assert list(written) == [FIGURES.name]
