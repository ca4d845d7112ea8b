"""A part of the bench that measures nothing: its ways always take the same seconds."""

from course.measure.rounds import Part, Ratio


def fixed(minutes: float, **ways: float) -> tuple[Part, list[int]]:
    """A part whose ways always take these seconds, and the rounds of its launches.

    Its copies of one way are as unequal as "again" and "theirs" are.
    """
    launched: list[int] = []

    def run(rounds: int, _: int, copied: tuple[str, int] = ("", 0)) -> dict:
        launched.append(rounds)
        way, number = copied
        if number:
            pair = [ways["again"], ways[way]]
            return {"seconds": {str(copy): [pair[copy % 2]] * rounds for copy in range(number)}}
        seconds = {way: [taken] * rounds for way, taken in ways.items()}
        return {"seconds": seconds, "bytes": {"ours": 3, "theirs": 2}}

    ratios = [
        Ratio("time", "ours", "theirs", aim="≤ 0.5"),
        Ratio("pace", "ours", "theirs", "pace", "≥ 2"),
        Ratio("bytes", "ours", "theirs", "bytes", "≤ 1.5"),
        Ratio("seconds", "ours"),
        Ratio("not measured", "C++", "theirs", aim="≤ 1"),
    ]
    return Part("fixed", minutes, run, ratios, ("again", "theirs")), launched
