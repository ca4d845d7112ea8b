"""What every test needs: the tools and the lessons' programs can be imported; and minutes per group of tests."""

import sys
from collections import Counter
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
# The programs of all rooms, as they lie side by side in a notebook's folder.
sys.path[:0] = [str(SCRIPTS), *map(str, sorted((SCRIPTS / "lessons").iterdir()))]


def pytest_terminal_summary(terminalreporter) -> None:
    """Minutes that each file took, so that growth shows where it happens."""
    took = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            took[getattr(report, "nodeid", "").partition("::")[0]] += getattr(report, "duration", 0)
    for file, seconds in took.most_common():
        if file and seconds:
            terminalreporter.write_line(f"{seconds / 60:5.1f} min  {file}")
