"""Let requests arrive at `collect` at given milliseconds, on a clock that jumps and never waits.

`from arrivals import agrees, batches_of`
Run:  echo '[[[0, 1], 4, 5, []]]' | python arrivals.py
"""

import asyncio
import json
import selectors
import subprocess
import sys
from contextlib import suppress

LIMIT = 20.0  # seconds for all cases, by the clock on the wall
END = 10.0  # seconds, by the clock that jumps: what has not happened by then never will


class Jump(selectors.DefaultSelector):
    """Where a loop would sleep until its next moment, the clock jumps there."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list:
        self.now += max(timeout or 0.0, 1e-6)  # time goes on for those who look again and again
        return super().select(0)


async def arrive(waiting: asyncio.Queue, arrivals: list[float], gone: list[float]) -> None:
    """Put a request into the queue at each of these milliseconds; some are given up 2 ms later."""
    loop = asyncio.get_running_loop()
    for ms in arrivals:
        await asyncio.sleep(ms / 1000 - loop.time())
        answer = loop.create_future()
        if ms in gone:
            loop.call_later(0.002, answer.cancel)
        waiting.put_nowait((ms, answer))


async def gather(arrivals: list[float], most: int, patience: float, gone: list[float]) -> list:
    """The batches: when each was ready, in ms, and the arrivals in it."""
    from batches import collect  # the learner's, as it is now

    clock = asyncio.get_running_loop().time
    waiting: asyncio.Queue = asyncio.Queue()
    coming = asyncio.create_task(arrive(waiting, arrivals, gone))
    made = []
    with suppress(TimeoutError):
        async with asyncio.timeout_at(END):
            while True:
                batch = await collect(waiting, most, patience)
                ready = 1000 * clock()
                made.append([round(ready), [ms for ms, _ in batch]])
    await coming
    return made


def on_that_clock(case: list) -> list:
    """The batches of one case."""
    jump = Jump()
    loop = asyncio.SelectorEventLoop(jump)
    loop.time = lambda: jump.now
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(gather(*case))


def batches_of(cases: list[tuple]) -> list:
    """For each case (arrivals, most, patience, gone) its batches, or what went wrong, as text.

    They run in a process of their own, which is ended if it takes too long.
    """
    command = [sys.executable, __file__]
    try:
        done = subprocess.run(
            command, input=json.dumps(cases), capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return [f"no end after {LIMIT:g} s"] * len(cases)
    if done.returncode != 0:
        return [done.stderr.strip().splitlines()[-1]] * len(cases)
    printed, _, made = done.stdout.rstrip("\n").rpartition("\n")
    if printed:
        print(printed[:1000].rstrip("\n"))  # by `collect` itself
    if not made.startswith("[["):
        return ["no batches: `collect` has ended the program"] * len(cases)
    return json.loads(made)


def agrees(made: list | str, wanted: list) -> bool:
    """Whether these are the batches that we want, each at most a millisecond early or late."""
    if isinstance(made, str) or [each for _, each in made] != [each for _, each in wanted]:
        return False
    times = zip(made, wanted, strict=True)
    return all(abs(own - ready) <= 1 for (own, _), (ready, _) in times)


if __name__ == "__main__":
    found = [on_that_clock(case) for case in json.load(sys.stdin)]
    print("\n" + json.dumps(found))
