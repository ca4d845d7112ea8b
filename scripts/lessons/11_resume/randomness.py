"""The state of a rank's random numbers, as plain types that a checkpoint can hold.

Run:  python randomness.py            # draws, goes back, and draws the same again
"""

import random

import numpy as np
import torch
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


def random_state(device: torch.device) -> dict:
    """The state of this rank's random numbers: torch's, also on its GPU, Python's and numpy's.

    Changes of pictures are often drawn from the last two.
    """
    name, numbers, *rest = np.random.get_state()
    state = {"cpu": torch.get_rng_state(), "python": random.getstate()}
    state["numpy"] = [name, numbers.tolist(), *rest]  # an array would be no plain list of numbers
    if device.type == "cuda":
        state["gpu"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: dict, device: torch.device) -> None:
    """Draw the numbers next that would have come next when `random_state` was called."""
    random.setstate(state["python"])
    np.random.set_state(tuple(state["numpy"]))
    torch.set_rng_state(state["cpu"].cpu())  # a random state is bytes in main memory, also a GPU's
    if "gpu" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["gpu"].cpu(), device)


def draw() -> list[float]:
    """A number from each library."""
    return [random.random(), float(np.random.rand()), torch.rand(()).item()]


@record
def main() -> None:
    place = here()
    state = random_state(place.device)
    first = draw()
    set_random_state(state, place.device)
    again = draw()
    print(f"drawn {first}, and again {again}")
    report("randomness", place, first=first, again=again)


if __name__ == "__main__":
    main()
