"""Requests that wait for each other: gather a batch, compute it, give out the answers.

A request is a pair: the numbers of a picture, and the future in which its client waits for an
answer.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


async def collect(waiting: asyncio.Queue, most: int, patience: float) -> list:
    """Wait for one request, then `patience` ms for others; leave out whoever has gone."""
    clock = asyncio.get_running_loop().time  # in seconds
    batch = [await waiting.get()]
    end = clock() + patience / 1000
    # BEGIN SOLUTION
    while len(batch) < most:
        try:
            request = await asyncio.wait_for(waiting.get(), end - clock())
        except TimeoutError:
            break
        batch.append(request)
    return [(numbers, answer) for numbers, answer in batch if not answer.done()]
    # STUB return batch  # of one: nobody waits for others
    # END SOLUTION


async def work(
    waiting: asyncio.Queue, most: int, patience: float, compute: Callable, sizes: Counter
) -> None:
    """Without end: a batch at a time, in a thread beside the one that reads and writes."""
    thread = ThreadPoolExecutor(1)
    loop = asyncio.get_running_loop()
    while True:
        batch = await collect(waiting, most, patience)
        if not batch:
            continue
        numbers = [each for each, _ in batch]
        rows, model_ms = await loop.run_in_executor(thread, compute, numbers)
        sizes[len(batch)] += 1
        for (_, answer), row in zip(batch, rows, strict=True):
            if not answer.done():
                answer.set_result((row, len(batch), model_ms))
