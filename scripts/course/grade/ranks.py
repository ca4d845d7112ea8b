"""Runs in the sandbox: the programs of an exam, each among ranks of its own; tells what they did.

python ranks.py '{"rows": 96, "batch": 16, "epochs": 3, "saves": 1, "optimizer": "SGD"}'

In the folder of given.py, mend.py, convert.py, evaluate.py and resume.py, whose sizes these are.
Prints one line of JSON: for each task what its program did, and the error that stopped it. A number
is compared elsewhere: no answer is in the sandbox. A rank is a fork, in a new folder, whose output
goes nowhere.
"""

import inspect
import itertools
import json
import os
import runpy
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn.functional

SECONDS = 20  # that a program may take
HIDDEN = 7  # the seed of the rows: others than those that a student saw
ROWS = 101  # of which no number of ranks gets equal shares
FEW = 3
Notes = dict[str, object]


# ---- ranks


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def be(rank: int, ranks: int, port: int, job: Callable[[], Notes], target: Path) -> None:
    """Do the job as one rank, in a forked process."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    folder = Path(tempfile.mkdtemp())
    for path in Path.cwd().glob("*.py"):
        shutil.copy(path, folder)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    names |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in names.items()}
    notes: Notes = {}
    try:
        notes = job()
    except BaseException as error:
        lines = traceback.extract_tb(error.__traceback__)
        own = [line for line in lines if Path(line.filename).parent == folder]
        place = f"{Path(own[-1].filename).name}, line {own[-1].lineno}: " if own else ""
        notes = {"error": f"{place}{type(error).__name__}: {error}"[:200]}
    part = target.with_suffix(".part")
    part.write_text(json.dumps(notes))
    part.replace(target)
    if "error" not in notes:  # others may still need this rank, until all are ended
        time.sleep(SECONDS)
    os._exit(0)


def among(ranks: int, job: Callable[[], Notes]) -> list[Notes]:
    """What each of some ranks noted; what had no end has an error."""
    port = free_port()
    folder = Path(tempfile.mkdtemp())
    files = [folder / f"{rank}.json" for rank in range(ranks)]
    children = []
    for rank, file in enumerate(files):
        child = os.fork()
        if child == 0:
            be(rank, ranks, port, job, file)
        children.append(child)
    end = time.monotonic() + SECONDS
    while not all(file.exists() for file in files) and time.monotonic() < end:
        time.sleep(0.05)
    for child in children:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    lost = {"error": f"no end within {SECONDS} s"}
    return [json.loads(file.read_text()) if file.exists() else lost for file in files]


# ---- a program that trains


def flat(module: torch.nn.Module) -> list[float]:
    return torch.nn.utils.parameters_to_vector(module.parameters()).tolist()


def train(program: str) -> Notes:
    """Run a program as this rank, and note what it does with given.py and torch."""
    import given

    given.SEED = HIDDEN
    models: list[torch.nn.Module] = []
    batches: list[list[int]] = []
    notes: Notes = {"batches": batches, "epochs": [], "saved": [], "told": [], "stale": False}
    notes |= {"world": 0, "left": False, "wrapped": False, "gradient": [], "rate": 0.0}
    fetched: list[int] = []

    def around(owner: object, name: str, note: Callable) -> None:
        """Let `note` see the arguments of each call ahead of it."""
        original = getattr(owner, name)

        def noted(*args, **options):
            note(*args, *options.values())
            return original(*args, **options)

        setattr(owner, name, noted)

    def forward(*_: object) -> None:
        batches.append(fetched.copy())
        fetched.clear()

    def gradients() -> list[torch.Tensor]:
        parameters = [each for model in models for each in model.parameters()]
        return [each.grad for each in parameters if each.grad is not None]

    def backward(*_: object) -> None:
        notes["stale"] |= any(each.any().item() for each in gradients())

    def step(optimizer: torch.optim.Optimizer, *_: object) -> None:
        notes["optimizer"] = optimizer
        if not notes["gradient"]:
            notes["gradient"] = [
                number for each in gradients() for number in each.flatten().tolist()
            ]

    def save(thing: object, *_: object) -> None:
        notes["saved"].append(list(thing) if isinstance(thing, Mapping) else [str(type(thing))])

    network = given.network

    def made() -> torch.nn.Module:
        model = network()
        model.register_forward_pre_hook(forward)
        models.append(model)
        return model

    def tell(**values: object) -> None:
        notes["told"] += [getattr(value, "requires_grad", False) for value in values.values()]

    def met() -> None:
        notes["world"] = dist.get_world_size()
        notes["left"] = True

    given.network = made
    given.tell = tell
    around(given.Rows, "__getitem__", lambda rows, index: fetched.append(int(index)))
    around(torch.utils.data.DistributedSampler, "set_epoch", lambda _, n: notes["epochs"].append(n))
    around(torch.Tensor, "backward", backward)
    around(torch.optim.SGD, "step", step)
    around(torch, "save", save)
    wrapper = torch.nn.parallel.DistributedDataParallel
    around(wrapper, "forward", lambda *_: notes.update(wrapped=True))
    around(dist, "destroy_process_group", lambda *_: met())
    runpy.run_path(program, run_name="__main__")
    if not batches or "optimizer" not in notes:
        raise RuntimeError(f"{program} trains nothing")
    notes["rate"] = notes.pop("optimizer").param_groups[0]["lr"]
    notes["noise"] = torch.initial_seed()
    notes["weights"] = flat(models[0])
    notes["names"] = list(models[0].state_dict())
    return notes


def by_epoch(notes: Notes, epochs: int) -> list[list[int]]:
    """The rows of each epoch, in order."""
    rows = [row for batch in notes["batches"] for row in batch]
    share = len(rows) // epochs
    return [rows[epoch * share : (epoch + 1) * share] for epoch in range(epochs)]


def plain(notes: Notes) -> bool:
    """Whether what was saved has the network's own names."""
    return bool(notes["saved"]) and all(names == notes["names"] for names in notes["saved"])


def error_of(all_notes: list[Notes]) -> str:
    """The error of a rank, and rather one of its own than that another one is gone."""
    errors = [str(notes["error"]) for notes in all_notes if "error" in notes]
    return min(errors, key=lambda error: "closed by peer" in error, default="")


def mend() -> Notes:
    both = among(2, lambda: train("mend.py"))
    if error_of(both):
        return {"error": error_of(both)}
    zero, one = both
    epochs = [by_epoch(notes, 3) for notes in both]
    apart = bool(epochs[0][0]) and not {*epochs[0][0]} & {*epochs[1][0]}
    new = all(len({*map(tuple, rows)}) == 3 for rows in epochs)
    averaged = zero["wrapped"] and one["wrapped"]
    different = epochs[0] != epochs[1]  # of the same rows, both would learn the same anyway
    return {
        "batch": all(len(notes["batches"][0]) == 8 for notes in both),
        "share": apart,
        "noise": zero["noise"] != one["noise"],
        "epoch": all(len({*notes["epochs"]}) == 3 for notes in both) or (apart and new),
        "zero": not (zero["stale"] or one["stale"]),
        "call": zero["weights"] == one["weights"] and (averaged or different),
        "graph": not any(zero["told"] + one["told"]),
        "schedule": abs(zero["rate"] - 0.1 / 2**3) < 1e-12,
        "guard": bool(zero["saved"]) and not one["saved"],
        "names": plain(zero),
    }


def whole_gradient(rows: list[int], count: int) -> torch.Tensor:
    """That of rank 0's first weights on these rows."""
    import given

    os.environ["RANK"] = "0"
    given.SEED = HIDDEN
    data = given.Rows(count)
    model = given.network()
    torch.nn.functional.mse_loss(model(data.x[rows]), data.y[rows]).backward()
    return torch.cat([each.grad.flatten() for each in model.parameters()])


def convert(count: int, batch: int, epochs: int, saves: int) -> Notes:
    """Four ranks, though the student tried two: nothing may be written for a number of them."""
    ranks = among(4, lambda: train("convert.py"))
    if error_of(ranks):
        return {"error": error_of(ranks)}
    shares = [by_epoch(notes, epochs) for notes in ranks]
    wanted = [*range(count)]
    shared = all(sorted(itertools.chain(*rows)) == wanted for rows in zip(*shares, strict=True))
    new = all(len({*map(tuple, rows)}) == epochs for rows in shares)
    first = [row for notes in ranks for row in notes["batches"][0]]
    own = torch.tensor(ranks[0]["gradient"], dtype=torch.float64)
    whole = whole_gradient(first, count)
    averaged = own.shape == whole.shape and torch.allclose(own, whole, rtol=0, atol=1e-9)
    same = all(notes["weights"] == ranks[0]["weights"] for notes in ranks)
    quiet = not any(notes["saved"] for notes in ranks[1:])
    return {
        "group": all(notes["world"] == 4 and notes["left"] for notes in ranks),
        "share": shared,
        "order": shared and new,
        "batch": all(len(rows) == batch // 4 for notes in ranks for rows in notes["batches"]),
        "average": same and averaged,
        "save": quiet and plain(ranks[0]) and len(ranks[0]["saved"]) == saves,
    }


# ---- a function among ranks


def evaluated(count: int) -> Notes:
    import given

    given.SEED = HIDDEN
    function = runpy.run_path("evaluate.py", run_name="evaluate")["evaluate"]
    seen: list[int] = []
    fetch = given.Rows.__getitem__

    def noted(rows: given.Rows, index: int | slice):
        seen.extend(torch.arange(len(rows))[index].reshape(-1).tolist())
        return fetch(rows, index)

    given.Rows.__getitem__ = noted
    dist.init_process_group("gloo")
    rank = os.environ["RANK"]
    os.environ["RANK"] = "0"  # so that all have the same model
    model = given.network()
    os.environ["RANK"] = rank
    value = function(model, given.Rows(count))
    dist.barrier()
    return {"value": float(value), "seen": seen}


def evaluate() -> Notes:
    told: Notes = {}
    for name, count in (("value", ROWS), ("few", FEW)):
        ranks = among(4, lambda count=count: evaluated(count))
        if error_of(ranks):
            told["error"] = f"{count} rows: {error_of(ranks)}"
            continue
        values = {f"{notes['value']:.8g}" for notes in ranks}
        rows = [row for notes in ranks for row in notes["seen"]]
        fair = max(len(notes["seen"]) for notes in ranks) <= -(-count // 4)
        told[name] = values.pop() if len(values) == 1 and fair else f"on 4 ranks {sorted(values)}"
        if count == ROWS:
            told["once"] = sorted(rows) == [*range(count)]
    return told


# ---- two functions of one process


def trained(extra: str, optimizer: str, seed: int) -> list:
    """A model, its optimizer and what goes with them, after some steps."""
    import given

    torch.manual_seed(seed)
    model = torch.nn.Linear(4, 1)
    options = {"momentum": 0.9} if optimizer == "SGD" else {}
    steps = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1, **options)
    made = {
        "scheduler": lambda: torch.optim.lr_scheduler.StepLR(steps, 2),
        "scaler": lambda: torch.amp.GradScaler("cpu"),
        "generator": lambda: torch.Generator().manual_seed(seed),
        "average": lambda: torch.nn.Linear(4, 1),
    }[extra]()
    if extra == "scaler":
        made.scale(torch.tensor(1.0))
        made.update(float(2**seed))
    for _ in range(seed):
        loss = model(given.Rows().x[:8].float()).square().mean()
        loss.backward()
        steps.step()
        if extra == "scheduler":
            made.step()
    return [model, steps, made]


def state(thing: object) -> str:
    """All that an object holds, as text."""
    held = thing.get_state() if hasattr(thing, "get_state") else thing.state_dict()
    torch.set_printoptions(precision=10, threshold=10**6)
    return repr(held)


def dies(thing: object, target: object, *_: object, **__: object) -> None:
    """torch.save, killed in the middle."""
    if hasattr(target, "write"):
        target.write(b"torn")
        target.flush()
    else:
        Path(target).write_bytes(b"torn")
    raise InterruptedError


def resumed(optimizer: str) -> Notes:
    program = runpy.run_path("resume.py", run_name="resume")
    extra = [*inspect.signature(program["save"]).parameters][-1]
    path = str(Path("checkpoint.pt").resolve())
    before = trained(extra, optimizer, 5)
    wanted = [state(each) for each in before]
    told: Notes = {"error": "", "whole": False}
    program["save"](path, 4, *before)
    after = trained(extra, optimizer, 3)
    try:
        told["epoch"] = program["load"](path, *after) == 5
    except Exception as error:
        told |= {"epoch": False, "error": f"load: {type(error).__name__}: {error}"[:200]}
    names = ("model", "optimizer", "extra")
    told |= {
        name: state(each) == text for name, each, text in zip(names, after, wanted, strict=True)
    }
    if Path(path).exists():
        old = Path(path).read_bytes()
        torch.save = dies
        with suppress(InterruptedError):
            program["save"](path, 5, *after)
        told["whole"] = Path(path).exists() and Path(path).read_bytes() == old
    return told


def resume(optimizer: str) -> Notes:
    (notes,) = among(1, lambda: resumed(optimizer))
    return notes


def safely(job: Callable[[], Notes]) -> Notes:
    """What a job tells; what a program does that nobody thought of costs its own task alone."""
    try:
        return job()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:200]}


def main() -> None:
    torch.set_num_threads(1)
    sys.path.append(str(Path.cwd()))
    import given  # noqa: F401  before any program can change the file

    sizes = json.loads(sys.argv[1])
    optimizer = sizes.pop("optimizer")
    jobs = {
        "1": mend,
        "3": lambda: convert(sizes["rows"], sizes["batch"], sizes["epochs"], sizes["saves"]),
        "5": evaluate,
        "8": lambda: resume(optimizer),
    }
    print(json.dumps({task: safely(job) for task, job in jobs.items()}))


if __name__ == "__main__":
    main()
