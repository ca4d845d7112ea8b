"""The whole way of a notebook: to Kaggle, through it, and back, on a small server of ours."""

import json
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
import test_publish
from records import a_record
from test_publish import DEFAULTS, TEXT, arrived, beside_kaggle, needs_namespaces, write

from course.evidence.record import record_file

pytestmark = needs_namespaces
namespaces = test_publish.namespaces
root = test_publish.root
SOLVED = "02-two-solution"
RESULTS = "build/kaggle-results"
THREE = ["QUEUED", "RUNNING", "RUNNING", "COMPLETE"]
RAISED = "LaunchError: ddp.py failed (exit code 1). Its own message stands above"


def left(run: dict | str, **more: object) -> dict:
    """A notebook that leaves a record, the last of some files."""
    text = run if isinstance(run, str) else json.dumps(run)
    files = {f"figure{number}.json": "{}" for number in range(25)} | {"02_run.json": text}
    return {"files": files} | more


def circle(root: Path, *arguments: str, **answers: dict) -> tuple[int, str]:
    """What a run of the command says, and how it ends; `s02` stands for the solved notebook."""
    named = {"s02": SOLVED, "l01": "01-one", "l02": "02-two", "l03": "03-three"}
    given = {named[key]: answer for key, answer in answers.items()}
    run = beside_kaggle(root, "--owner", "me", *arguments, answers=given)
    said = run.communicate(timeout=120)[0]
    assert "Traceback" not in said, said
    return run.returncode, said


def calls(root: Path) -> list[tuple[str, str]]:
    """What was asked of the server, in order: the call and the notebook."""
    requests = [json.loads(line) for line in (root / "requests").read_text().splitlines()]
    named = []
    for each in requests:
        slug = each.get("slug", each.get("kernelSlug", "")).rpartition("/")[2]
        named.append((each["call"], slug.removeprefix("a-course-")))
    return named


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_push_three_states_fetch_judge_cut_in_the_middle_and_gone_on(root: Path) -> None:
    answer = left(a_record(), states=THREE, faults={"file": ["cut"]})
    code, said = circle(root, "solutions/02", s02=answer)
    assert code == 0, said
    lines = said.splitlines()
    assert "solutions/02_two: https://www.kaggle.com/code/me/a-course-02-two-solution" in lines
    assert any("the record came in part only" in line for line in lines)
    ran = "solutions/02_two: ran to the end in 6.0 minutes on 2 × Tesla T4, 2 ✓ and 0 ✗"
    assert ran in lines
    assert lines[-1].endswith("make evidence FILE=build/kaggle-results")
    counted = [call for call, _ in calls(root)]
    assert counted.count("SaveKernel") == 1
    assert counted.count("GetKernelSessionStatus") == 5, "three states, and one more after the cut"
    assert counted.count("file") == 2
    place = root / RESULTS / "a-course-02-two-solution"
    assert json.loads((place / "02_run.json").read_text()) == a_record()
    (root / "requests").unlink()
    code, said = circle(root, "solutions/02", s02=answer)
    assert code == 0 and "0 to push" in said
    assert not (root / "requests").exists(), "it is known already what became of it"


def test_two_run_at_a_time(root: Path) -> None:
    slow = {"states": THREE}
    code, said = circle(root, l01=slow, l02=slow, s02=left(a_record()), l03=slow)
    assert code == 0, said
    assert "session count" not in said, "the server refuses a third"
    order = [slug for call, slug in calls(root) if call == "SaveKernel"]
    assert order == ["01-one", "02-two", "02-two-solution", "03-three"]
    asked = [slug for call, slug in calls(root) if call == "GetKernelSessionStatus"]
    assert asked[:6] == ["01-one", "02-two"] * 3
    assert "4 of 4 notebooks ran to the end" in said


def test_other_sessions_of_the_account_are_waited_for(root: Path) -> None:
    full = "Maximum batch GPU session count of 2 reached."
    busy = {
        "faults": {
            "SaveKernel": [{"text": json.dumps({"error": full}), "kind": "application/json"}] * 3
        }
    }
    code, said = circle(root, "01", l01=busy)
    assert code == 0, said
    assert said.count("Waits until one of the others has ended") == 1
    assert len(arrived(root)) == 4


def test_an_interrupted_wait_goes_on(root: Path) -> None:
    answers = {SOLVED: left(a_record()), "03-three": {"states": ["RUNNING"]}}
    run = beside_kaggle(root, "--owner", "me", "solutions/02", "03", answers=answers)
    end = time.monotonic() + 60
    while not (root / RESULTS / "a-course-02-two-solution" / "ended.json").exists():
        assert time.monotonic() < end and run.poll() is None
        time.sleep(0.1)
    os.killpg(run.pid, signal.SIGINT)
    said = run.communicate(timeout=20)[0]
    assert run.returncode == 1 and "Traceback" not in said
    assert "interrupted; what runs on Kaggle goes on there" in said
    assert "1 of 2 notebooks ran to the end\n  03_three: has not come back yet\n" in said
    assert 'goes on: make kaggle OWNER=me LESSONS="03_three"\n' in said
    (root / "requests").unlink()
    code, said = circle(root, "solutions/02", "03", l03={"states": ["RUNNING", "COMPLETE"]})
    assert code == 0 and "2 of 2 notebooks ran to the end" in said
    assert {call for call, _ in calls(root)} == {
        "IntrospectToken",
        "GetKernelSessionStatus",
        "ListKernelSessionOutput",
    }, "nothing is pushed again"


def test_now_takes_what_has_ended_and_pushes_nothing(root: Path) -> None:
    running = {"states": ["RUNNING"]}
    code, said = circle(root, "--now", "solutions/02", "03", s02=left(a_record()), l03=running)
    assert code == 1
    assert "solutions/02_two: ran to the end in 6.0 minutes" in said
    assert "03_three: running\n" in said
    assert not [call for call, _ in calls(root) if call == "SaveKernel"]
    code, said = circle(root, "--dry-run", "solutions/02")
    assert "1 to push" in said, "what --now brought may be of another version"


def test_what_an_earlier_version_left_is_no_result(root: Path) -> None:
    older = left(a_record(code="0" * 16), states=["COMPLETE"])
    code, said = circle(root, "solutions/02", s02=older)
    assert code == 1
    assert said.count("Kaggle still shows what an earlier version left; tries again") == 1
    assert "solutions/02_two: FAILED Kaggle still shows what an earlier version left" in said
    assert "ran to the end in" not in said


FAILED = a_record(whole=False)
FAILED["cells"][-1] |= {"error": RAISED}
FAILED["launches"][-1] |= {"code": 1, "printed": ["E: Address already in use", "more"]}
DIED = a_record(whole=False, running="!torchrun --nproc-per-node=2 fast.py")
ENTRIES = [
    {"stream_name": "stdout", "time": 1.5, "data": "cell 3\n"},
    {"stream_name": "stderr", "time": 2.0, "data": "Traceback:\n\x1b[31mKeyError: 'wei"},
    {"stream_name": "stderr", "time": 2.1, "data": "ght'\x1b[0m\nend of log\n"},
]
BAD = {
    "failed cell": (left(FAILED, states=["ERROR"]), "FAILED failed in cell 3 (run = result"),
    "its page": (left(FAILED, states=["ERROR"]), "→ lesson 12_break_it, Port in use"),
    "died": (
        left(DIED, states=["ERROR"]),
        "ended in cell 4 (!torchrun --nproc-per-node=2 fast.py) without an error, after 6.0 min",
    ),
    "log": (
        {"states": ["ERROR"], "log": json.dumps(ENTRIES)},
        "FAILED failed: KeyError: 'weight'; it left no record",
    ),
    "log is no JSON": (
        {"states": ["ERROR"], "log": "[{]\nRuntimeError: out of luck\n"},
        "FAILED failed: RuntimeError: out of luck",
    ),
    "no log": (
        {"states": ["ERROR"], "failure": "Your notebook was stopped."},
        "FAILED failed: Your notebook was stopped.",
    ),
    "cancelled": ({"states": ["CANCEL_REQUESTED", "CANCEL_ACKNOWLEDGED"]}, "FAILED was cancelled"),
    "deleted": (
        {"faults": {"GetKernelSessionStatus": [404] * 9}},
        "FAILED it is not on Kaggle any more, or not under this name",
    ),
    "expired": (
        {"faults": {"GetKernelSessionStatus": [401] * 99}},
        "log in with `.venv/bin/kaggle auth login`",
    ),
    "no record": ({"files": {"other.json": "{}"}}, "ran to the end; it left no record"),
    "no JSON": (left("<html>"), "its record is left out: it is not the JSON of a record"),
    "another's": (
        left(a_record(notebook="solutions/03_three")),
        "its record is left out: it is that of solutions/03_three",
    ),
    "bomb": (
        left("x" * 1000, times=3000),
        "FAILED the record has more than 2,000,000 bytes",
    ),
    "shorter": (
        left("{}", size=2000),
        "FAILED the record came with 2 bytes, and Kaggle lists 2,000",
    ),
    "longer": (
        left(a_record(), size=7),
        "bytes, and Kaggle lists 7",
    ),
    "no address": (
        left(a_record(), address="file:///etc/passwd", faults={}) | {"states": ["COMPLETE"]},
        "Kaggle gives no address for the record (file:///etc/passwd)",
    ),
}
REPLACED = ("failed cell", "its page", "died")  # they left a record of their own
WELL = {
    "busy": ({"GetKernelSessionStatus": [429, 429, 500], "ListKernelSessionOutput": [503]}, ""),
    "busy files": ({"file": [429, 500]}, ""),
    "maintenance": ({"GetKernelSessionStatus": ["html"]}, "tries again"),
    "gone": ({"GetKernelSessionStatus": ["gone"] * 6}, "tries again"),
    "slow": ({"file": ["slow"]}, ""),
    "cut list": ({"ListKernelSessionOutput": ["cut"] * 6}, "tries again"),
    "no list of sizes": ({"ListKernelFiles": [404]}, ""),
    "record not there yet": (
        {"file": [404]},
        "the record cannot be fetched (status 404); tries again",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_went_wrong_is_told_in_one_line(root: Path, kind: str) -> None:
    answer, expected = BAD[kind]
    (root / "assets").mkdir()
    row = "| `Address already in use` | [Port in use · x](../notebooks/12_break_it.ipynb#c) | y |"
    (root / "assets" / "error-texts.md").write_text(f"{row}\n")
    earlier = root / RESULTS / "a-course-02-two-solution" / "02_run.json"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("an earlier record")
    code, said = circle(root, "solutions/02", s02=answer)
    assert expected in said, said
    assert (earlier.read_text() != "an earlier record") == (kind in REPLACED)
    well = kind in ("no record", "no JSON", "another's")
    assert code == (0 if well else 1)
    if kind == "log":
        assert said.splitlines()[-1].endswith(
            'kaggle OWNER=me ALL=--all LESSONS="solutions/02_two"'
        )
        (root / "requests").unlink()
        assert expected.removeprefix("FAILED ") in circle(root, "solutions/02", s02=answer)[1]
        assert not (root / "requests").exists(), "no hours for the same failure"


HURRIED = "from course.kaggle import fetch, __main__; fetch.LIMIT = (2, 2); exit(__main__.main())"


def test_a_server_that_never_answers_is_waited_for_so_long_and_no_longer(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_publish, "PUBLISH", ["-c", HURRIED])
    code, said = circle(root, "solutions/02", "03", s02={"wait": 99})
    assert code == 1
    assert "solutions/02_two: FAILED Kaggle has not answered for 2 s; perhaps it runs" in said
    assert "03_three: ran to the end" in said
    run = beside_kaggle(root, "--owner", "me", "--all", "03", token="silent")
    said = run.communicate(timeout=60)[0]
    assert run.returncode == 1
    assert said.splitlines()[-1].startswith("publish: Kaggle does not answer: ")


@pytest.mark.parametrize("kind", WELL)
def test_a_busy_or_broken_server_is_asked_again(root: Path, kind: str) -> None:
    faults, expected = WELL[kind]
    code, said = circle(root, "solutions/02", s02=left(a_record(), faults=faults))
    assert code == 0, said
    assert "solutions/02_two: ran to the end in 6.0 minutes" in said
    assert expected in said


NAMES = [
    "../02_run.json",
    "/tmp/02_run.json",
    "02_run.json/..",
    "a" * 4000,
    "",
    "con\x00trol",
    "é" * 300,
]


def test_no_name_of_the_server_becomes_a_path(root: Path) -> None:
    names = [*NAMES, *(f"file{number}" for number in range(2000)), "02_run.json"]
    answer = left(a_record()) | {"names": names, "page": 200}
    before = everything(root)
    code, said = circle(root, "solutions/02", s02=answer)
    assert code == 0, said
    new = set(everything(root)) - set(before)
    place = f"{RESULTS}/a-course-02-two-solution"
    ours = {f"{place}/{name}" for name in ("log.txt", "ended.json", "02_run.json")}
    ours |= {"requests", "answers", "build/kaggle-pushed.json"}
    assert {name for name in new if not name.startswith(("build/kaggle/", "home/"))} == ours
    assert sum(call == "file" for call, _ in calls(root)) == 1


def spoilt(draw: random.Random) -> str:
    """A record that is broken in one of many ways."""
    run = a_record()
    text = json.dumps(run)
    kind = draw.randrange(8)
    if kind == 0:
        return text[: draw.randrange(len(text) - 1)]
    if kind == 1:
        return text.replace(draw.choice(["{", "}", ":", ","]), draw.choice(["[", "\x00", ""]), 1)
    if kind == 2:
        key = draw.choice(["notebook", "code", "date", "seconds", "machine", "cells", "launches"])
        run[key] = draw.choice([None, -1, "x" * 500, {}, [[[]]], "<b>", True])
    elif kind == 3:
        gpus = [["<script>"], [1], "T4", ["T4"] * 65, ["a\nb"], ["x" * 81], [None]]
        run["machine"]["gpus"] = draw.choice(gpus)
    elif kind == 4:
        names = ["../../etc", "solutions/../x", "", "02 two", "x" * 99, "/tmp/x", "02_two"]
        run["notebook"] = draw.choice(names)
    elif kind == 5:
        entry = draw.choice([{}, [], 7, {"mark": "x"}, {"error": 3}, None])
        run["cells"] = [entry] * draw.choice([1, 2000])
    elif kind == 6:
        return "[" * draw.randrange(1, 100_000)
    else:
        run["launches"][0]["reported"] = {"seconds": [draw.choice([10**400, -(10**30)])]}
    return json.dumps(run)


def broken_answer(draw: random.Random) -> dict:
    """What a server that is out of order, or not Kaggle, may say to one of the calls."""
    texts = ["", "null", "[]", "7", "{", '"x"', "<html>", "\x00" * 9, "[" * 90_000, "{" * 3000]
    texts += ['{"files": 3}', '{"files": [7]}', '{"files": [{"url": 3}]}', '{"log": []}']
    texts += ['{"status": "ASLEEP"}', '{"status": 77}', '{"status": {}}', '{"nextPageToken": {}}']
    kinds = ["application/json", "text/html", "", "application/json; charset=nonsense"]
    answer = {"text": draw.choice(texts), "kind": draw.choice(kinds)}
    return answer | {"status": draw.choice([200, 200, 200, 201, 204, 302, 400, 403, 418])}


def test_200_broken_answers(root: Path) -> None:
    """A clear sentence for each; nothing is written outside, and nothing lost of what was there."""
    draw = random.Random(45)
    names = [f"{number:03}_x" for number in range(200)]
    kernels = []
    answers = {}
    for number, name in enumerate(names):
        title = f"A course {name[:3]} X Solution"
        slug = title.lower().replace(" ", "-")
        path = f"notebooks/solutions/{name}.ipynb"
        kernels.append({"title": title, "slug": slug, "code_file": path})
        write(root / path, TEXT)
        own = left(a_record(), states=[draw.choice(["COMPLETE", "ERROR"])])
        if number % 2:
            own["files"] = {record_file(name): spoilt(draw)}
        else:
            calls = ["GetKernelSessionStatus", "ListKernelSessionOutput"]
            own["faults"] = {draw.choice(calls): [broken_answer(draw)] * 20}
        own["log"] = draw.choice(["", "[]", "[7]", '[{"data": 3}]', "ValueError: x", "\x00\u202e"])
        answers[slug.removeprefix("a-course-")] = own
        old = root / RESULTS / slug / record_file(name)
        old.parent.mkdir(parents=True)
        old.write_text(json.dumps(a_record(notebook=f"solutions/{name}")))
    listed = {"repository": "us/course", "defaults": DEFAULTS, "kernels": kernels}
    (root / "kaggle-metadata.json").write_text(json.dumps(listed))
    before = everything(root)
    run = beside_kaggle(root, "--owner", "me", "--pause", "0.01", answers=answers)
    said = run.communicate(timeout=300)[0]
    assert "Traceback" not in said, said
    after = everything(root)
    told = [line for line in said.splitlines() if line.startswith("solutions/")]
    for name in names:
        own = [
            line for line in told if line.startswith(f"solutions/{name}: ") and "://" not in line
        ]
        assert own, name
        assert all(30 < len(line) < 400 and line.isprintable() for line in own), own
        assert any(word in own[-1] for word in SENTENCES), own[-1]
    ours = re.compile(
        r"(build/(kaggle/|kaggle-pushed.json|kaggle-results/[a-z0-9-]+/(log.txt|ended.json))"
        r"|requests|answers|home/).*"
    )
    assert [name for name in after if name not in before and not ours.fullmatch(name)] == []
    kept = [name for name in before if name.startswith(RESULTS)]
    assert len(kept) == 200
    assert all(after[name] == before[name] for name in kept)


SENTENCES = (
    "its record is left out: it ",
    "Kaggle's answer cannot be read",
    "not on Kaggle any more",
)
SENTENCES += (
    "Kaggle does not answer",
    "Kaggle answers with status",
    "a state that is not known",
    "no address for the record",
)
SENTENCES += ("it left no record",)
