"""Train with checkpoints; a rank is killed on the way, and all go on from what they have in common.

Run:  python again.py                                        # one process
      torchrun --standalone --nproc-per-node=2 again.py      # two ranks, and with a death:
      torchrun … --max-restarts=1 again.py --die-at 32       # the last rank is killed there
"""

import argparse
import json
import os
import shutil
import signal
import time
from pathlib import Path

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from checkpoint import load_of_rank, newest, path_of, prune, save, usable
from devices import Place, here, report, start
from learner import Training

FOLDER = Path("run")  # of the checkpoints and of the log


def make_folder(place: Place, fresh: bool) -> None:
    """Rank 0 makes the folder, or empties it when there is nothing to take up."""
    if place.rank == 0:
        if fresh:
            shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(exist_ok=True)


def take_up(
    training: Training, place: Place, group: dist.ProcessGroup | None = None
) -> list[list[int]]:
    """Go on from the newest checkpoint that all ranks hold, if any; the steps that each holds."""
    own = usable(FOLDER, place.rank, place.world_size)
    of_ranks = [None] * place.world_size
    dist.all_gather_object(of_ranks, own, group=group)
    chosen = newest(of_ranks)
    if chosen:
        step, world_size = chosen
        same = world_size == place.world_size
        # With another number of ranks, all take what rank 0 saved.
        rank = place.rank if same else 0
        state = load_of_rank(FOLDER, step, rank, world_size, place.device)
        training.restore(state, random=same)
    held = []
    for keys in of_ranks:
        held.append(sorted(step for step, _ in keys))
    return held


def write_down(done: int, loss: float, place: Place) -> None:
    """Add a line to the log: which process was rank 0 in this step, and when."""
    line = {"time": time.time(), "process": os.getpid(), "ranks": place.world_size}
    line["step"] = done
    line["loss"] = loss
    with (FOLDER / "log").open("a") as log:
        print(json.dumps(line), file=log)


def written_down() -> list[dict]:
    """The lines of the log: one for each step that was made, by whatever process."""
    log = (FOLDER / "log").read_text()
    return [json.loads(line) for line in log.splitlines()]


def die(done: int, place: Place) -> None:
    """End this process at the worst moment: rank 0 has saved this step, and this rank has not."""
    other = path_of(FOLDER, done, 0, place.world_size)
    while place.rank > 0 and not other.exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)  # which no process can catch


@record
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--every", type=int, default=8, help="steps from checkpoint to checkpoint")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds added to a step")
    parser.add_argument("--die-at", type=int, help="step")
    args = parser.parse_args()
    place = here()
    last = place.rank == place.world_size - 1
    first_life = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    start(place)

    # Ranks that have met take up what they have in common.
    make_folder(place, fresh=first_life)
    dist.barrier()
    training = Training(place, args.epochs)
    held = take_up(training, place)
    before = len(training.losses)
    if place.rank == 0:
        print(f"whole checkpoints of each rank: {held}, start after step {before}", flush=True)

    for done in training.steps():
        time.sleep(args.pause)
        if place.rank == 0:
            write_down(done, training.losses[-1], place)
        if first_life and last and done == args.die_at:
            die(done, place)
        if done % args.every == 0:
            path = path_of(FOLDER, done, place.rank, place.world_size)
            save(training.to_save(), path)
            prune(FOLDER, place.rank, place.world_size)

    lives = written_down()
    report("again", place, losses=training.losses, start=before, held=held, lives=lives)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
