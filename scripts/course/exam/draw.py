"""What differs from one exam to the next: a small function a task, of random numbers.

Each gives the words that notebooks/src/exam.md asks for, as `{{ log.first }}`; answers among them.
"""

from collections.abc import Sequence
from math import ceil
from random import Random
from textwrap import dedent


class Drawn(dict):
    """The words of one task; the template reads `log.first`."""

    __getattr__ = dict.__getitem__


# ---- 2: what does it print?


def accumulated(random: Random) -> tuple[str, float]:
    factor = random.randint(2, 9)
    steps = random.randint(3, 6)
    code = f"""\
        w = torch.tensor({random.randint(1, 9)}.0, requires_grad=True)
        for _ in range({steps}):
            loss = {factor} * w
            loss.backward()
        print(w.grad.item())"""
    return code, steps * factor


def added_twice(random: Random) -> tuple[str, float]:
    ranks = random.randint(3, 5)
    more = random.randint(2, 9)
    code = f"""\
        # {ranks} ranks; each of them prints the same
        t = torch.tensor([dist.get_rank() + {more}])
        dist.all_reduce(t)
        dist.all_reduce(t)
        print(t.item())"""
    return code, ranks * (sum(range(ranks)) + ranks * more)


def dealt(random: Random) -> tuple[str, float]:
    ranks = random.randint(3, 5)
    rows = ranks * random.randint(5, 9) + random.randint(1, ranks - 2)
    rank = ranks - 1  # it gets one of the rows that come twice
    share = ceil(rows / ranks)
    code = f"""\
        sampler = DistributedSampler(
            range({rows}), num_replicas={ranks}, rank={rank}, shuffle=False
        )
        print(list(sampler)[-1])"""
    return code, share * ranks - 1 - rows


def vanished(random: Random) -> tuple[str, float]:
    kind, last = random.choice([("float16", 2048), ("bfloat16", 256)])
    start = last - random.randint(2, 6)
    code = f"""\
        x = torch.tensor({start}.0, dtype=torch.{kind})
        for _ in range({random.randint(10, 20)}):
            x = x + 1
        print(x.item())"""
    return code, last


def averaged(random: Random) -> tuple[str, float]:
    ranks = random.choice([2, 4])
    step = 2 * random.randint(1, 5)
    first = random.randint(1, 9)
    code = f"""\
        # {ranks} ranks; each of them prints the same
        model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
        x = torch.tensor([[{step}.0 * dist.get_rank() + {first}]])
        model(x).sum().backward()
        print(model.module.weight.grad.item())"""
    return code, first + step * (ranks - 1) / 2


def broken(random: Random) -> tuple[str, float]:
    breaks = random.randint(2, 4)
    lines = ["x = x.sin()"] + ["x = x / x.max().item()", "x = x.cos()"] * breaks
    body = "\n    ".join(lines)
    code = "graphs = 0\n\ndef count(graph, inputs):\n    global graphs\n    graphs += 1\n"
    code += f"    return graph\n\n@torch.compile(backend=count)\ndef f(x):\n    {body}\n"
    code += "    return x\n\nf(torch.ones(3))\nf(torch.ones(3))\nprint(graphs)"
    return code, breaks + 1


OUTPUTS = (accumulated, added_twice, dealt, vanished, averaged, broken)


def predict(random: Random) -> Drawn:
    programs = []
    answers = []
    for kind in random.sample(OUTPUTS, 3):
        code, answer = kind(random)
        programs.append(dedent(code))
        answers.append(answer)
    return Drawn(programs=programs, answers=answers)


# ---- 3: a script for one process


def convert(random: Random) -> Drawn:
    batch = random.choice([8, 16, 24, 32])
    return Drawn(
        batch=batch,
        rows=batch * random.randint(3, 5),
        epochs=random.randint(3, 4),
        rate=random.choice([0.05, 0.1, 0.2]),
        net=random.choice(["net", "model", "student", "f"]),
        schedule=random.choice([True, False]),
        every=random.choice([True, False]),  # saved in every epoch, or at the end
    )


# ---- 4: a report of torchrun


ERRORS = (
    (
        'File "labels.py", line 66, in check',
        "  raise ValueError(f'label {label} is not one of 0 to 9')",
        "ValueError: label 12 is not one of 0 to 9",
    ),
    (
        'File "pictures.py", line 71, in load',
        "  return open(path, 'rb')",
        "FileNotFoundError: [Errno 2] No such file or directory: 'shard-3.bin'",
    ),
    (
        'File "table.py", line 83, in column',
        "  return self.columns[name]",
        "KeyError: 'weight'",
    ),
    (
        'File "layers.py", line 62, in forward',
        "  return self.linear(x)",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x64 and 32x10)",
    ),
)
CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:561] Connection closed by peer [127.0.0.1]"


def block(place: int, rank: int, time: str, code: str, lines: list[str]) -> str:
    """What torchrun says of one rank."""
    head, *rest = lines
    told = [f"[{place}]:", f"  time      : 2026-03-02_10:{time}", "  host      : node1"]
    told += [f"  rank      : {rank} (local_rank: {rank})", f"  exitcode  : {code}"]
    return "\n".join([*told, f"  traceback : {head}", *[f"    {line}" for line in rest]])


def traceback(line: int, code: str, error: str, deeper: Sequence[str] = ()) -> list[str]:
    calls = [f'File "train.py", line {line}, in main', f"  {code}", *deeper]
    return ["Traceback (most recent call last):", *calls, error]


def log(random: Random) -> Drawn:
    *deeper, error = random.choice(ERRORS)
    ranks = random.sample(range(4), 4)
    first = ranks[0]
    waiting = ranks[1 : random.randint(2, 3)]
    line = random.randint(41, 58)
    reduce_line = line + random.randint(3, 9)
    minute = random.randint(10, 50)
    second = random.randint(10, 40)
    pid = random.randint(3000, 9000)
    cause = traceback(line, "step(batch)", error, deeper)
    told = {first: (f"1 (pid: {pid + first})", cause)}
    for rank in ranks[1:]:
        code = f"-15 (pid: {pid + rank})  (SIGTERM)"
        lines = [f"Signal 15 (SIGTERM) received by PID {pid + rank}"]
        if rank in waiting:
            code = f"1 (pid: {pid + rank})"
            lines = traceback(reduce_line, "dist.all_reduce(total)", CLOSED)
        told[rank] = (code, lines)
    # In the same second torchrun may take a rank that only waited for the cause.
    root = random.choice([first, waiting[0]])
    blocks = []
    for place, rank in enumerate(sorted(told, key=lambda rank: (rank == root, rank))):
        late = 0 if rank in (root, first) else 1
        time = f"{minute}:{second + late}"
        blocks.append(block(place, rank, time, *told[rank]))
    *others, last = blocks
    rule = "-" * 60
    cause = "Root Cause (first observed failure):"
    text = "\n".join(["train.py FAILED", rule, "Failures:", *others, rule, cause, last])
    return Drawn(text=text, first=first, line=line, ended=3 - len(waiting))


# ---- 5: a number of uneven shares


METRICS = {
    "mse": ("the mean squared error", "均方誤差（誤差平方的平均）"),
    "rmse": ("the root of the mean squared error", "均方根誤差（誤差平方的平均，再開根號）"),
    "mae": ("the mean absolute error", "平均絕對誤差"),
    "largest": ("the largest absolute error", "最大的絕對誤差"),
    "close": (
        "the share of rows with an absolute error below 1",
        "絕對誤差小於 1 的資料所占的比例",
    ),
}


def evaluate(random: Random) -> Drawn:
    kind = random.choice(list(METRICS))
    english, chinese = METRICS[kind]
    return Drawn(kind=kind, english=english, chinese=chinese)


# ---- 6: where a step's time goes


def budget(random: Random) -> Drawn:
    load = random.randint(20, 70)
    forward = random.randint(15, 30)
    backward = 2 * forward
    hidden = random.randint(10, backward - 5)
    message = hidden + random.randint(5, 60)
    shown = {"load": load, "forward": forward, "backward": backward, "message": message - hidden}
    shown["optimizer"] = random.randint(3, 9)
    longest = max(shown, key=shown.get)
    shown[longest] += 7  # no other one is as long
    message = shown["message"] + hidden
    ranks = random.choice([2, 4, 5, 8])
    size = ranks * random.randint(11, 49)
    saves = random.randint(11, 19)
    compiling = random.randint(21, 59)
    return Drawn(
        {**shown, "message": message},
        hidden=hidden,
        step=sum(shown.values()),
        longest=longest,
        ranks=ranks,
        size=size,
        sent=2 * (ranks - 1) * size // ranks,
        saves=saves,
        compiling=compiling,
        pays=ceil(1000 * compiling / saves),
    )


# ---- 7: DP, DDP or FSDP?


def case(random: Random, kind: str) -> Drawn:
    """A model, its cards, and whether more than one process may start."""
    memory = random.choice([16, 24, 40, 80])
    cards = random.choice([4, 8])
    bytes_each = 16  # in fp32 with Adam: weight, gradient, two moments
    billions = memory / bytes_each
    if kind == "FSDP":  # too large for one card, though its weights alone would fit
        billions *= random.uniform(1.3, 0.45 * cards)
    else:
        billions *= random.uniform(0.2, 0.6)
    return Drawn(
        memory=memory,
        cards=cards,
        millions=round(10 * billions) * 100,
        launch=kind != "DP",
        answer=kind,
    )


def choose(random: Random) -> Drawn:
    kinds = ["DP", "DDP", "FSDP"]
    drawn = [*random.sample(kinds, 2), random.choice(kinds)]
    random.shuffle(drawn)
    return Drawn(cases=[case(random, kind) for kind in drawn])


# ---- 8: what must come back


EXTRAS = {
    "scheduler": ("the learning rate's scheduler", "學習率排程器"),
    "scaler": ("the GradScaler", "GradScaler"),
    "generator": ("a torch.Generator, with the random numbers", "torch.Generator，負責亂數"),
    "average": ("a second network, with averaged weights", "另一個網路，存放平均後的權重"),
}


def resume(random: Random) -> Drawn:
    kind = random.choice(list(EXTRAS))
    english, chinese = EXTRAS[kind]
    return Drawn(
        kind=kind, english=english, chinese=chinese, optimizer=random.choice(["SGD", "Adam"])
    )


TASKS = (predict, convert, log, evaluate, budget, choose, resume)


def everything(random: Random) -> dict[str, Drawn]:
    """The words of each task, by the name of its function."""
    return {task.__name__: task(random) for task in TASKS}
