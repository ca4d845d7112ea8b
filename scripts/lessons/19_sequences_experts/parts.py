"""Which chunks of a long sequence does a rank hold? The sequence has two chunks for each rank.

Import it: it only answers this question.
"""


def contiguous(rank: int, world_size: int) -> list[int]:
    """Neighbours: rank 0 holds the first two chunks, rank 1 the next two, and so on."""
    return [2 * rank, 2 * rank + 1]


def zigzag(rank: int, world_size: int) -> list[int]:
    """One chunk from the front and one from the back, so that all ranks have the same work."""
    # BEGIN SOLUTION
    return [rank, 2 * world_size - 1 - rank]
    # STUB # your code here: two numbers of chunks, the smaller one first
    # STUB return contiguous(rank, world_size)
    # END SOLUTION


LAYOUTS = {"contiguous": contiguous, "zigzag": zigzag}
