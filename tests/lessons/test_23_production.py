"""Lesson 23 where its notebook does not look.

Twenty kinds of bad input and more at the door, batches in the server, and damaged files.
"""

import asyncio
import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path

import psutil
import pytest
import torch
from ranks import launch

import arrivals
import asking
import door
import fetch
import flat
import serve
from course import rooms

PICTURE = [[[(7 * c + 3 * y + x) % 256 for x in range(32)] for y in range(32)] for c in range(3)]
BODY = json.dumps({"picture": PICTURE}).encode()


def to_its_end(work: Coroutine) -> object:
    """What it returns, in a thread of its own: a browser's tests leave a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def first(number: str) -> bytes:
    """The picture with something else as its first number."""
    return BODY.replace(b"[[[0,", f"[[[{number},".encode(), 1)


HOME = "Host: 127.0.0.1"


def post(
    *headers: str, body: bytes = BODY, line: str = "POST /predict HTTP/1.1", host: str = HOME
) -> bytes:
    """A request as it goes over the wire."""
    return "\r\n".join([line, host, *headers, "", ""]).encode() + body


TYPE = "Content-Type: application/json"
LENGTH = f"Content-Length: {len(BODY)}"

BODIES = {  # what a body must not be → the status that it gets
    "empty": (b"", 400),
    "half of the JSON": (BODY[:5000], 400),
    "no UTF-8": (b"\xff\xfe\xfd", 400),
    "two pictures": (BODY + BODY, 400),
    "brackets": (b"[" * 10_000, 400),
    "a number of 5,000 digits": (first("9" * 5000), 400),
    "too large": (b"0" * (door.BODY + 1), 413),
    "a list": (json.dumps(PICTURE).encode(), 422),
    "a word": (b'"cat"', 422),
    "null": (b"null", 422),
    "no picture": (b"{}", 422),
    "more than a picture": (BODY[:-1] + b', "class": 3}', 422),
    "a picture that is null": (b'{"picture": null}', 422),
    "a text for a picture": (b'{"picture": "abc"}', 422),
    "one colour": (json.dumps({"picture": PICTURE[:1]}).encode(), 422),
    "a row too many": (json.dumps({"picture": [[*c, c[0]] for c in PICTURE]}).encode(), 422),
    "ragged": (BODY.replace(b"[[[0, ", b"[[[", 1), 422),
    "a text for a row": (json.dumps({"picture": [["a" * 32] * 32] * 3}).encode(), 422),
    "a fraction": (first("0.5"), 422),
    "a whole fraction": (first("1.0"), 422),
    "NaN": (first("NaN"), 422),
    "infinity": (first("1e999"), 422),
    "true": (first("true"), 422),
    "a digit in quotes": (first('"7"'), 422),
    "below 0": (first("-1"), 422),
    "above 255": (first("256"), 422),
}
WIRES = {  # what a request must not be → the status that it gets
    "a name that points here": (post(TYPE, LENGTH, host="Host: pictures.example:80"), 421),
    "no host": (post(TYPE, LENGTH, host="X: y"), 421),
    "another protocol": (b"\x16\x03\x01\x02\r\n\r\n", 400),
    "no text": (b"\xff\xfe\r\n\r\n", 400),
    "HTTP/1.0": (post(TYPE, LENGTH, line="POST /predict HTTP/1.0"), 400),
    "a line without a colon": (post(TYPE, LENGTH, "nothing"), 400),
    "one length, twice": (post(TYPE, LENGTH, LENGTH.lower()), 400),
    "two lengths": (post(TYPE, LENGTH, "content-length: 1"), 400),
    "another path": (post(TYPE, LENGTH, line="POST /../etc/passwd HTTP/1.1"), 404),
    "another method": (post(TYPE, LENGTH, line="GET /predict HTTP/1.1"), 405),
    "never finished": (b"POST /predict HTTP/1.1\r\nContent-", 408),
    "a body that never comes": (post(TYPE, LENGTH, body=b"{"), 408),
    "no length": (post(TYPE), 411),
    "a negative length": (post(TYPE, "Content-Length: -1"), 411),
    "in chunks": (post(TYPE, LENGTH, "Transfer-Encoding: chunked"), 411),
    "a length of 5,000 digits": (post(TYPE, f"Content-Length: {'9' * 4000}"), 413),
    "no type": (post(LENGTH), 415),
    "another type": (post("Content-Type: text/plain", LENGTH), 415),
    "a long header": (post(TYPE, f"X: {'x' * 2 * door.HEAD}"), 431),
}


async def echo(numbers: list[int]) -> dict:
    return {"sum": sum(numbers)}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A door behind which numbers are added up, in a thread; its port."""
    opened = threading.Event()
    kept = {}

    async def stand() -> None:
        ended = asyncio.Event()
        visit = door.Door(echo).connection
        async with await asyncio.start_server(visit, "127.0.0.1", 0, limit=door.HEAD) as listener:
            kept["port"] = listener.sockets[0].getsockname()[1]
            kept["end"] = ended.set
            kept["loop"] = asyncio.get_running_loop()
            opened.set()
            await ended.wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "SECONDS", 0.3)
        thread = threading.Thread(target=asyncio.run, args=(stand(),))
        thread.start()
        assert opened.wait(20)
        yield kept["port"]
        kept["loop"].call_soon_threadsafe(kept["end"])
        thread.join()


def lives(port: int) -> bool:
    """Whether the door still lets a good picture in."""
    total = sum(number for colour in PICTURE for row in colour for number in row)
    return asking.ask(port, BODY) == (200, {"sum": total})


@pytest.mark.parametrize("kind", BODIES)
def test_a_bad_body_is_refused_and_the_door_lives(port: int, kind: str) -> None:
    body, wanted = BODIES[kind]
    status, answer = asking.ask(port, body)
    assert status == wanted
    assert list(answer) == ["error"]
    assert lives(port)


@pytest.mark.parametrize("kind", WIRES)
def test_a_bad_request_is_refused_and_the_door_lives(port: int, kind: str) -> None:
    data, wanted = WIRES[kind]
    status, answer = asking.raw(port, data)
    assert status == wanted
    assert list(answer) == ["error"]
    assert lives(port)


def test_who_goes_away_gets_nothing_and_harms_nobody(port: int) -> None:
    assert asking.raw(port, post(TYPE, LENGTH, body=BODY[:100]), ends=True) is None
    assert asking.raw(port, b"", ends=True) is None
    assert lives(port)


def test_who_asks_again_after_a_long_pause_gets_no_answer_to_another_request(port: int) -> None:
    client = HTTPConnection(asking.HOST, port, timeout=10)
    client.request("POST", "/predict", BODY, asking.JSON)
    assert client.getresponse().read()
    time.sleep(1.5 * door.SECONDS)  # it has ended its side by now, and still reads
    status = None
    with suppress(RemoteDisconnected, ConnectionError):
        client.request("POST", "/predict", BODY, asking.JSON)
        status = client.getresponse().status
    assert status is None
    client.close()
    assert lives(port)


def test_who_breaks_a_rule_and_runs_away_takes_no_place(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "OPEN", 8)
    for _ in range(20):
        with socket.create_connection((asking.HOST, port)) as client:
            client.sendall(b"no HTTP\r\n\r\n")
    end = time.monotonic() + 20
    while asking.ask(port, BODY)[0] == 503:  # until it has seen that they are gone
        assert time.monotonic() < end
        time.sleep(0.1)
    assert lives(port)


def test_who_comes_too_late_is_refused_and_the_end_lets_everybody_finish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(door, "OPEN", 1)
    monkeypatch.setattr(door, "SECONDS", 8)

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, str]:
        """Status, and what becomes of the connection."""
        writer.write(post(TYPE, LENGTH))
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.split(": ") for line in head.strip().split("\r\n")[1:])
        await reader.readexactly(int(headers["Content-Length"]))
        return head.split()[1], headers["Connection"]

    async def run() -> list:
        visit = door.Door(echo)
        listener = await asyncio.start_server(visit.connection, asking.HOST, 0, limit=door.HEAD)
        address = listener.sockets[0].getsockname()
        first = await asyncio.open_connection(*address)
        found = [await ask(*first)]
        second = await asyncio.open_connection(*address)
        found.append(await ask(*second))
        second[1].close()
        found.append(await ask(*first))
        visit.ending = True
        found.append(await ask(*first))
        assert await first[0].read() == b""  # it is closed
        first[1].close()
        listener.close()
        while visit.open > 0:
            await asyncio.sleep(0.01)
        return found

    found = to_its_end(asyncio.wait_for(run(), 30))
    good = ("200", "keep-alive")
    assert found == [good, ("503", "close"), good, ("200", "close")]


def test_good_pictures_come_through_as_they_are() -> None:
    assert door.picture(BODY) == torch.tensor(PICTURE).flatten().tolist()
    for number in ("0", "255"):
        assert door.picture(first(number))[0] == int(number)


def server_of(batch: int, patience: float) -> serve.Server:
    """A server whose model gives each picture's first two numbers as its probabilities."""
    server = object.__new__(serve.Server)
    server.args = Namespace(batch=batch, patience=patience)
    server.model = lambda pictures: pictures.flatten(1)[:, :2].float()
    server.classes = ["left", "right"]
    server.waiting = asyncio.Queue(8)
    server.batches = Counter()
    return server


def answers_of(server: serve.Server, counts: list[int]) -> list:
    """What so many pictures get at once; the picture with number i is 3 × 32 × 32 times i."""

    async def run() -> list:
        work = asyncio.create_task(server.work())
        asked = [server.answer([i] * 3072) for i in counts]
        found = await asyncio.gather(*asked, return_exceptions=True)
        work.cancel()
        return found

    return to_its_end(run())


def test_everybody_gets_an_own_answer_and_no_batch_is_too_large() -> None:
    server = server_of(batch=4, patience=50)
    found = answers_of(server, [5, 1, 4, 2, 3])
    assert [each["probabilities"][0] for each in found] == [5, 1, 4, 2, 3]
    assert [each["batch"] for each in found] == [4, 4, 4, 4, 1]
    assert server.batches == {4: 1, 1: 1}
    assert all(each["wait_ms"] >= 45 for each in found[4:])  # the last waited for others in vain


def test_milliseconds_of_the_model_are_no_seconds_and_not_among_those_of_waiting() -> None:
    server = server_of(batch=2, patience=50)
    quick = server.model

    def slow(pictures: torch.Tensor) -> torch.Tensor:
        time.sleep(0.2)
        return quick(pictures)

    server.model = slow
    began = time.perf_counter()
    [alone] = answers_of(server, [7])
    took = 1000 * (time.perf_counter() - began)
    assert alone["model_ms"] >= 200 and alone["wait_ms"] >= 45
    assert alone["model_ms"] + alone["wait_ms"] <= took


def test_nothing_is_computed_for_those_who_have_gone() -> None:
    server = server_of(batch=4, patience=50)

    async def run() -> None:
        asked = [asyncio.create_task(server.answer([i] * 3072)) for i in range(3)]
        await asyncio.sleep(0)
        asked[0].cancel()
        await asyncio.sleep(0)
        work = asyncio.create_task(server.work())
        assert [(await each)["probabilities"][0] for each in asked[1:]] == [1, 2]
        work.cancel()

    to_its_end(run())
    assert server.batches == {2: 1}


def test_a_full_queue_is_said_to_those_who_come_too_late() -> None:
    found = answers_of(server_of(batch=4, patience=5), list(range(12)))
    refused = [each for each in found if isinstance(each, door.Refused)]
    assert len(refused) >= 1
    assert {each.status for each in refused} == {503}
    good = [each["probabilities"][0] for each in found if isinstance(each, dict)]
    assert good == list(range(len(good)))
    assert len(good) == 12 - len(refused)


COLLECT = """
import asyncio
async def collect(waiting, most, patience):
    clock = asyncio.get_running_loop().time
    batch = [await waiting.get()]
    end = clock() + patience / 1000
"""
CASE = ((0, 1, 2, 3, 4), 4, 5, ())
WANTED = [[3, [0, 1, 2, 3]], [9, [4]]]


def tried(folder: Path, lines: str, cases: list[tuple]) -> list:
    """The batches of a `collect` that ends with these lines."""
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    (folder / "batches.py").write_text(COLLECT + body)
    shutil.copy(rooms.program("arrivals"), folder)
    words = "import json, arrivals; print(json.dumps(arrivals.batches_of(json.loads(input()))))"
    done = subprocess.run(
        [sys.executable, "-c", words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": ""},
        input=json.dumps(cases) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_requests_arrive_when_they_should() -> None:
    began = time.monotonic()
    cases = [CASE, ((0, 2000, 2001), 2, 1500, ()), ((0, 1, 2), 4, 5, (0, 2))]
    late = [[1500, [0]], [2001, [2000, 2001]]]
    assert arrivals.batches_of(cases) == [WANTED, late, [[5, [1]]]]
    assert time.monotonic() - began < 3  # of which no clock on the wall has seen three seconds


@pytest.mark.parametrize(
    ("made", "good"),
    [
        (WANTED, True),
        ([[4, [0, 1, 2, 3]], [9, [4]]], True),  # who looks every half millisecond
        ([[5, [0, 1, 2, 3]], [9, [4]]], False),
        ([[3, [0, 1, 2, 3]]], False),
        ([[3, [0, 1, 2, 4]], [9, [4]]], False),
        ("no end after 20 s", False),
    ],
)
def test_the_check_sees_when_a_batch_is_ready(made: list | str, good: bool) -> None:
    assert arrivals.agrees(made, WANTED) is good


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("return batch", [[0, [0]], [1, [1]], [2, [2]], [3, [3]], [4, [4]]]),
        ("print('here', end='')\nreturn batch", [[0, [0]], [1, [1]], [2, [2]], [3, [3]], [4, [4]]]),
        ("await asyncio.sleep(99)", []),
        ("await waiting.get()\nawait waiting.get()\nreturn batch", [[2, [0]]]),
        ("return", "TypeError: 'NoneType' object is not iterable"),
        ("return nothing", "NameError: name 'nothing' is not defined"),
        ("return [", "SyntaxError: '[' was never closed"),
        ("exit(0)", "no batches: `collect` has ended the program"),
    ],
)
def test_whatever_a_learner_writes_is_told_and_nothing_raises(
    tmp_path: Path, lines: str, wanted: list | str
) -> None:
    assert tried(tmp_path, lines, [CASE]) == [wanted]


def test_a_loop_without_await_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "batches.py").write_text(COLLECT + "    while True:\n        pass\n")
    place = shutil.copy(rooms.program("arrivals"), tmp_path)
    monkeypatch.setattr(arrivals, "__file__", str(place))
    monkeypatch.setattr(arrivals, "LIMIT", 0.5)
    assert arrivals.batches_of([CASE, CASE]) == ["no end after 0.5 s"] * 2


def tensor_of(header: dict, numbers: bytes, name: str) -> torch.Tensor:
    """As exercise 3 asks for it."""
    entry = header[name]
    begin, end = entry["data_offsets"]
    piece = torch.tensor(list(numbers[begin:end]), dtype=torch.uint8)
    return piece.view(flat.KINDS[entry["dtype"]]).reshape(entry["shape"])


def test_all_kinds_of_numbers_survive_a_file(tmp_path: Path) -> None:
    tensors = {str(kind): (10 * torch.randn(3, 2)).to(kind) for kind in flat.LETTERS}
    tensors["no dimension"] = torch.tensor(7)
    tensors["nothing"] = torch.zeros(0, 4)
    tensors["channels last"] = torch.randn(1, 2, 3, 4).to(memory_format=torch.channels_last)
    path = tmp_path / "file"
    flat.save(tensors, path, {"version": "1"})
    header, numbers = flat.parts(path)
    assert header.pop("__metadata__") == {"version": "1"}
    assert list(header) == list(tensors)
    assert (path.stat().st_size - len(numbers)) % 8 == 0
    for name, tensor in tensors.items():
        assert torch.equal(tensor_of(header, numbers, name), tensor)


def test_the_package_of_this_format_reads_what_we_write_and_we_read_its_file(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.syspath_prepend(fetch.folder() / "accelerate")
    package = importlib.import_module("safetensors.torch")
    state = {"a": torch.arange(6.0).view(2, 3), "b.c": torch.tensor([1, -2], dtype=torch.int64)}
    flat.save(state, tmp_path / "ours.safetensors", {"card": "{}"})
    package.save_file(state, tmp_path / "theirs.safetensors", {"card": "{}"})
    read = package.load_file(tmp_path / "ours.safetensors")
    header, numbers = flat.parts(tmp_path / "theirs.safetensors")
    assert header.pop("__metadata__") == {"card": "{}"}
    assert read.keys() == header.keys() == state.keys()
    for name, tensor in state.items():
        assert torch.equal(read[name], tensor)
        assert torch.equal(tensor_of(header, numbers, name), tensor)


@pytest.mark.parametrize("damage", ["cut", "longer", "hole", "long header"])
def test_a_damaged_file_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "file"
    flat.save({"a": torch.arange(4.0), "b": torch.arange(2.0)}, path, {})
    data = path.read_bytes()
    damaged = {
        "cut": data[:-1],
        "longer": data + b"0",
        "hole": data.replace(b"[0, 16]", b"[0, 12]"),
        "long header": b"\xff" * 8 + data[8:],
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(ValueError, match="file"):
        flat.parts(path)


def test_two_ranks_share_every_batch_and_save_with_a_prefix(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    x = torch.randint(256, (512, 3, 32, 32), dtype=torch.uint8)
    pair = x, torch.arange(512) % 10
    torch.save({"train": pair, "test": pair}, tmp_path / "data" / "generated.pt")
    reports = launch(tmp_path, 2, str(rooms.program("graduate"))).reports("graduate", 2)
    for report in reports:
        assert len(report["losses"]) == 2 * 512 // 128
    assert reports[0]["losses"] != reports[1]["losses"]  # each has its own half
    state = torch.load(tmp_path / "wrapped.pt", map_location="cpu", weights_only=True)
    assert all(name.startswith("module.") for name in state)
    assert [tensor.dtype for tensor in state.values()].count(torch.float32) == 37


SEEN = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import graduate
from devices import here, report, start


class Noted(graduate.Pictures):
    seen = []

    def __getitems__(self, indices):
        self.seen += indices
        return super().__getitems__(indices)


place = here(gpus=0)
start(place)
model = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10)))
graduate.train(model, Noted(True), 2, place)
report("seen", place, seen=Noted.seen)
"""


def test_in_an_epoch_each_picture_comes_on_one_rank(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    pair = torch.zeros(512, 3, 32, 32, dtype=torch.uint8), torch.arange(512) % 10
    torch.save({"train": pair, "test": pair}, tmp_path / "data" / "generated.pt")
    (tmp_path / "seen.py").write_text(SEEN)
    both = [rank["seen"] for rank in launch(tmp_path, 2, "seen.py").reports("seen", 2)]
    for epoch in (slice(0, 256), slice(256, 512)):
        assert sorted(both[0][epoch] + both[1][epoch]) == list(range(512))
    assert both[0][:256] != both[0][256:]  # another order in each epoch


class Tiny(torch.nn.Module):
    """Two classes: the share of the first colour among all, and the rest."""

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        bright = pictures.flatten(2).float().sum(2)
        share = bright[:, :1] / bright.sum(1, keepdim=True)
        return torch.cat([share, 1 - share], dim=1)


def test_a_server_answers_and_ends_with_its_owner(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch")
    example = torch.ones(2, 3, 32, 32, dtype=torch.uint8)
    program = torch.export.export(Tiny(), (example,), dynamic_shapes=({0: batch},))
    card = json.dumps({"classes": ["first", "others"]})
    torch.export.save(program, tmp_path / "tiny.pt2", extra_files={"card.json": card})
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with subprocess.Popen(["sleep", "60"]) as owner:
        words = [sys.executable, str(rooms.program("serve")), "--file", "tiny.pt2"]
        words += ["--port", str(port), "--owner", str(owner.pid)]
        path = {"PYTHONPATH": rooms.python_path()}
        with subprocess.Popen(words, cwd=tmp_path, env=os.environ | path) as server:
            while not (tmp_path / "serve.json").exists():
                assert server.poll() is None
                time.sleep(0.1)
            listening = psutil.Process(server.pid).net_connections()
            assert {each.laddr.ip for each in listening} == {"127.0.0.1"}
            status, answer = asking.ask(port, BODY)
            facts = json.loads((tmp_path / "serve.json").read_text())
            owner.kill()
            owner.wait()  # or it would be there still, as a zombie
            assert server.wait(20) == 0
    assert (facts["batch"], facts["patience"]) == (16, 5)  # as the lesson says
    share = (torch.tensor(PICTURE[0]).sum() / torch.tensor(PICTURE).sum()).item()
    assert (status, answer["class"]) == (200, "others")
    assert answer["probabilities"] == pytest.approx([share, 1 - share], rel=1e-6)
    assert json.loads((tmp_path / "serve.json").read_text())["statuses"] == {"200": 1}
