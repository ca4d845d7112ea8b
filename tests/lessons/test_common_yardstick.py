"""The course's yardstick tells right from wrong, and refuses to measure where it cannot."""

import pytest
import torch

from yardstick import apart

WANTED = torch.tensor([1.0, -4.0, 2.0])
WRONG = torch.zeros(3)


def test_the_largest_difference_is_relative_to_the_largest_number():
    mine = WANTED + torch.tensor([0.5, 0.0, -1.0])
    assert apart(mine, WANTED, WRONG) == 0.25
    assert apart(WANTED.clone(), WANTED, WRONG) == 0.0


def test_of_several_tensors_the_worst_counts():
    wanted = [WANTED, 100 * WANTED, WANTED]
    mine = [WANTED.clone(), 101 * WANTED, WANTED.clone()]
    assert apart(mine, wanted, [WRONG] * 3) == pytest.approx(0.01)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_is_never_near(bad):
    assert not apart(torch.tensor([1.0, bad, 2.0]), WANTED, WRONG) < 1


@pytest.mark.parametrize(
    ("mine", "wanted", "wrong", "says"),
    [
        (WANTED, WANTED, WRONG, "with itself"),
        (WANTED.clone(), WANTED, WANTED + 1e-6, "can tell nothing"),
        (WRONG.clone(), WRONG, WANTED * 0, "can tell nothing"),
        (WANTED[:1], WANTED, WRONG, r"\(1,\) beside \(3,\)"),
        ([WANTED.clone()], [WANTED, WANTED], [WRONG, WRONG], "longer"),
    ],
)
def test_a_comparison_that_can_tell_nothing_is_refused(mine, wanted, wrong, says):
    with pytest.raises((AssertionError, ValueError), match=says):
        apart(mine, wanted, wrong)
