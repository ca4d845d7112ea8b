"""What every test needs: the lessons' programs can be imported, as they import one another; and time per file."""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts" / "lessons"))


def pytest_terminal_summary(terminalreporter) -> None:
    """Minutes that each file took, so that growth shows where it happens."""
    took = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            took[getattr(report, "nodeid", "").partition("::")[0]] += getattr(report, "duration", 0)
    for file, seconds in took.most_common():
        if file and seconds:
            terminalreporter.write_line(f"{seconds / 60:5.1f} min  {file}")
