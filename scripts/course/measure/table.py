"""The rows of the bench as a table."""

from course.measure.pairs import Row, outcome

LONG = 60  # letters of the longest name


def words(row: Row) -> str:
    """What the table says of a row's aim."""
    said = outcome(row)
    if said == "missed":
        missed = abs(1 - row["ratio"] / float(row["aim"].split()[1]))
        said += f" by {missed:.1%}"
    return said


def time(seconds: float) -> str:
    """Seconds in a unit that suits them: "73 µs", "24.9 ms", "3.1 s"."""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} µs"
    return f"{1e3 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def notes(row: Row) -> str:
    """What stands below a row: that its ends are no interval, the medians of both sides, a note."""
    ends = "no interval, only the lowest and the highest" if row["span"] == "range" else ""
    times = " / ".join(map(time, row["seconds"]))
    return "; ".join(filter(None, [ends, times, row["note"]]))


def table(rows: list[Row]) -> str:
    lines = [f"{'':{LONG}}{'median':>7}  {'95 % interval':15} rounds  aim"]
    for row in rows:
        span = f"{row['low']:.2f} – {row['high']:.2f}"
        numbers = f"{row['ratio']:7.2f}  {span:15} {row['rounds']:6}"
        line = f"{row['row']:{LONG}}{numbers}  {row['aim']:8} {words(row)}"
        lines.append(line.rstrip())
        if notes(row):
            lines.append(f"    {notes(row)}")
    return "\n".join(lines)
