"""What decides about the lessons' runs: the judge of what they print."""

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from whole import UNSOLVED, complaints

pytestmark = pytest.mark.quick


def cell(text: str, *tags: str, count: int | None = 1):
    output = new_output("stream", text=text)
    metadata = {"tags": list(tags)}
    return new_code_cell("x", execution_count=count, outputs=[output], metadata=metadata)


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        (cell("3 ranks ✓\n"), []),
        (cell("✓\n3 ranks – not yet\n"), ["cell 1 is solved, and prints “3 ranks – not yet”"]),
        (cell("A figure's title: not learnt yet"), ["cell 1 is solved, and prints “A figure's"]),
        (cell("3 ranks – not yet\n", UNSOLVED), []),
        (
            cell("A figure's fault: 8 inches high\n", UNSOLVED),
            ["cell 1: A figure's fault: 8 inches"],
        ),
        (cell("", count=None), ["cell 1 was not run"]),
    ],
    ids=["solved", "not yet", "a figure", "unsolved", "a fault", "not run"],
)
def test_a_solved_notebook_does_not_say_not_yet(ran, said: list[str]) -> None:
    found = complaints(new_notebook(cells=[ran]))
    assert len(found) == len(said)
    assert all(one.startswith(start) for one, start in zip(found, said, strict=True))
