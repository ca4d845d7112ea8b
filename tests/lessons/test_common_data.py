"""The data policy of cifar10.py: attached, local, downloaded, generated; and never a damaged copy.

A small CIFAR-10 in the format of the real one stands in for it. Its own MD5 sums replace the real
ones, so that all of torchvision's checks and all of the loading run as they do on the real files.
"""

import hashlib
import json
import os
import shutil
import socket
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torchvision.datasets import CIFAR10

import cifar10
import shapes
from loader import Pictures, normalise

TRAIN = [f"data_batch_{n}" for n in range(1, 6)]
FOLDER = "cifar-10-batches-py"
NO_PICTURES = r"no pictures, or \S+ is damaged: run `python cifar10\.py` before"
LAYOUTS = [f"cifar10-python/{FOLDER}", f"datasets/someone/cifar10-python/{FOLDER}"]


def python2_pickle(value) -> bytes:
    """`value` as Python 2 pickled the real files: byte strings, numpy.core, dtype(0, 1)."""
    if isinstance(value, str):
        return b"U" + bytes([len(value)]) + value.encode()
    if isinstance(value, int):
        return b"J" + value.to_bytes(4, "little", signed=True)
    if isinstance(value, list):
        return b"](" + b"".join(map(python2_pickle, value)) + b"e"
    if isinstance(value, dict):
        parts = [python2_pickle(part) for item in value.items() for part in item]
        return b"}(" + b"".join(parts) + b"u"
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    byte = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNN"
    byte += 2 * python2_pickle(-1) + b"K\x00tb"
    shape = b"(" + b"".join(map(python2_pickle, value.shape)) + b"t"
    content = value.nbytes.to_bytes(4, "little") + value.tobytes()
    return empty + b"(K\x01" + shape + byte + b"\x89T" + content + b"tb"


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A folder with `cifar-10-batches-py` and its archive; the test's own is empty, and offline."""
    rng = np.random.default_rng(0)
    contents = {}
    source = tmp_path / "source"
    (source / FOLDER).mkdir(parents=True)
    for name in [*TRAIN, "test_batch"]:
        data = rng.integers(0, 256, (20, 3072), dtype=np.uint8)
        labels = rng.permutation(20) % 10
        batch = {"batch_label": name, "labels": labels.tolist(), "data": data}
        contents[name] = python2_pickle(batch | {"filenames": ["a.png"] * 20})
    names = [f"class {n}" for n in range(10)]
    contents["batches.meta"] = python2_pickle({"label_names": names, "num_vis": 3072})
    contents = {name: b"\x80\x02" + content + b"." for name, content in contents.items()}
    for name, content in contents.items():
        (source / FOLDER / name).write_bytes(content)
    with tarfile.open(source / CIFAR10.filename, "w:gz") as archive:
        archive.add(source / FOLDER, FOLDER)

    monkeypatch.setattr(CIFAR10, "train_list", [[name, md5(contents[name])] for name in TRAIN])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", md5(contents["test_batch"])]])
    monkeypatch.setattr(CIFAR10, "meta", CIFAR10.meta | {"md5": md5(contents["batches.meta"])})
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5((source / CIFAR10.filename).read_bytes()))
    monkeypatch.setattr(cifar10, "ATTACHED", tmp_path / "kaggle" / "input")
    monkeypatch.setattr(shapes.generate, "__defaults__", (300, 100))
    # A copy: main() writes into it.
    monkeypatch.setattr(os, "environ", os.environ | {"no_proxy": "*"})
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with socket.socket() as nobody:  # bound but not listening: connections are refused
        nobody.bind(("127.0.0.1", 0))
        _, port = nobody.getsockname()
        monkeypatch.setattr(CIFAR10, "url", f"http://127.0.0.1:{port}/{CIFAR10.filename}")
        yield source


@pytest.fixture
def server(fake, monkeypatch):
    """The archive's server: sends `body`, announces `length` bytes, notes in `asked` what for."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.asked.append(self.path)
            self.send_response(self.server.status)
            self.send_header("Content-Length", str(self.server.length))
            self.end_headers()
            self.wfile.write(self.server.body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.body = (fake / CIFAR10.filename).read_bytes()
        server.status = 200
        server.length = len(server.body)
        server.asked = []
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(CIFAR10, "url", f"{address}/{CIFAR10.filename}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def put(fake: Path, folder: Path) -> Path:
    return Path(shutil.copytree(fake / FOLDER, folder))


def check_loads_the_fake(fake: Path) -> None:
    """Every picture and label, in order, as in the files: all red, all green, then blue."""
    for train, names in [(True, TRAIN), (False, ["test_batch"])]:
        x, y, source = cifar10.load(train)
        assert (source, x.dtype, y.dtype) == ("CIFAR-10", torch.uint8, torch.int64)
        assert x.shape == (20 * len(names), 3, 32, 32)
        files = [(fake / FOLDER / name).read_bytes() for name in names]
        pixels = b"".join(x[20 * n : 20 * n + 20].numpy().tobytes() for n in range(len(names)))
        for n, file in enumerate(files):
            assert pixels[61440 * n : 61440 * (n + 1)] in file
            labels = y[20 * n : 20 * n + 20].tolist()
            assert python2_pickle(labels) in file


@pytest.mark.parametrize("layout", LAYOUTS)
def test_attached(fake, server, layout, capfd):
    folder = put(fake, cifar10.ATTACHED / layout)
    local = put(fake, Path("data") / FOLDER)
    (local / "data_batch_1").write_bytes(b"never read, since what is attached comes first")
    assert cifar10.find() == folder.parent
    cifar10.main()
    expected = f"CIFAR-10: 100 pictures to train on, 20 to test on, from {folder.parent}"
    assert expected in capfd.readouterr().out
    check_loads_the_fake(fake)
    assert server.asked == []


def test_local(fake, server, capfd):
    put(fake, Path("data") / FOLDER)
    cifar10.main()
    expected = "CIFAR-10: 100 pictures to train on, 20 to test on, from data\n"
    assert expected in capfd.readouterr().out
    check_loads_the_fake(fake)
    assert [len(part) for part in cifar10.load(True, 33)[:2]] == [33, 33]
    report = json.loads(Path("cifar10.json").read_text())
    assert (report["data"], report["train"], report["test"]) == ("CIFAR-10", 100, 20)
    x, y, _ = cifar10.load(True)
    assert report["one_each"] == [x[y == kind][0].tolist() for kind in range(10)]
    assert server.asked == []


def test_download(fake, server, capfd):
    cifar10.main()
    assert server.asked == [f"/{CIFAR10.filename}"]
    assert "CIFAR-10: 100 pictures" in capfd.readouterr().out
    check_loads_the_fake(fake)
    assert list(Path("data").iterdir()) == [Path("data") / FOLDER], (
        "the archive and the half-way folder are gone"
    )
    cifar10.main()
    assert len(server.asked) == 1, "once is enough"


@pytest.mark.parametrize("how", ["cut off", "damaged"])
def test_broken_download(fake, server, how):
    whole = server.body
    server.body = whole[: len(whole) // 2] if how == "cut off" else whole[:-9] + b"?" + whole[-8:]
    half = r"cifar-10-python\.tar\.gz is damaged or half downloaded: delete it, then run"
    with pytest.raises(RuntimeError, match=half):
        cifar10.main()
    assert not Path("data/generated.pt").exists()
    with pytest.raises(RuntimeError, match=NO_PICTURES):
        cifar10.load(True)
    server.body = whole
    cifar10.main()
    check_loads_the_fake(fake)


@pytest.mark.parametrize("how", ["connection refused", "server in trouble"])
def test_no_internet(fake, how, capfd, request, monkeypatch):
    if how == "server in trouble":
        request.getfixturevalue("server").status = 503
    # Of a download that was interrupted, when there still was internet.
    Path("data/partial").mkdir(parents=True)
    (Path("data/partial") / CIFAR10.filename).write_bytes(b"half")
    cifar10.main()
    printed = capfd.readouterr().out
    assert "no internet: making pictures of the same shape" in printed
    sizes = "300 pictures to train on, 100 to test on"
    assert f"generated pictures: {sizes}, from data/generated.pt" in printed
    assert json.loads(Path("cifar10.json").read_text())["data"] == "generated pictures"
    assert cifar10.load(False)[2] == "generated pictures"

    monkeypatch.setattr(cifar10, "generate", None)  # a second time it makes nothing
    cifar10.main()
    assert "making" not in capfd.readouterr().out

    # The real ones, once they are there, go before the generated.
    put(fake, cifar10.ATTACHED / LAYOUTS[0])
    check_loads_the_fake(fake)


@pytest.mark.parametrize("where", ["attached", "local"])
@pytest.mark.parametrize("how", ["damaged", "missing"])
@pytest.mark.parametrize("name", ["data_batch_3", "test_batch", "batches.meta"])
def test_damaged_or_missing_file(fake, server, name, how, where):
    """Other data is one step away, in ./data and on the server: none of it may be taken instead."""
    Path("data").mkdir()
    torch.save(shapes.generate(), "data/generated.pt")
    local = put(fake, Path("data") / FOLDER)
    folder = put(fake, cifar10.ATTACHED / LAYOUTS[0]) if where == "attached" else local
    whole = (folder / name).read_bytes()
    (folder / name).unlink()
    if how == "damaged":
        (folder / name).write_bytes(whole[:-50] + bytes([whole[-50] ^ 1]) + whole[-49:])
    remedy = "detach the dataset and attach it again" if where == "attached" else f"delete {folder}"
    message = (
        f"{folder / name} is missing or damaged: {remedy}, then run `python cifar10.py` again."
    )
    for step in [cifar10.main, lambda: cifar10.load(True), lambda: cifar10.load(False)]:
        with pytest.raises(RuntimeError) as caught:
            step()
        assert str(caught.value) == message
    assert server.asked == []

    if where == "local":  # the remedy works
        shutil.rmtree(folder)
        cifar10.main()
        check_loads_the_fake(fake)


def test_half_archive(fake, server):
    archive = Path("data") / CIFAR10.filename
    archive.parent.mkdir()
    archive.write_bytes(server.body[:-500])
    with pytest.raises(RuntimeError) as caught:
        cifar10.main()
    expected = f"{archive} is damaged or half downloaded: delete it, then run"
    assert str(caught.value).startswith(expected)
    assert server.asked == []
    assert not Path("data/generated.pt").exists()
    archive.unlink()  # as it says
    cifar10.main()
    check_loads_the_fake(fake)


def test_whole_archive(fake, server):
    archive = Path("data") / CIFAR10.filename
    archive.parent.mkdir()
    shutil.copy(fake / CIFAR10.filename, archive)
    # Left by a run that was interrupted while it unpacked.
    left = put(fake, Path("data/partial") / FOLDER)
    (left / "data_batch_2").unlink()
    cifar10.main()
    check_loads_the_fake(fake)
    assert sorted(Path("data").iterdir()) == [Path("data") / FOLDER, archive]
    assert server.asked == []


def test_ranks_never_download(server):
    for step in [cifar10.load, Pictures]:
        with pytest.raises(RuntimeError, match=NO_PICTURES):
            step(True)
    assert server.asked == []
    assert not Path("data").exists()


@pytest.fixture(scope="module")
def made():
    return shapes.generate(2000, 500)


def test_generated_pictures(made):
    state = torch.get_rng_state()
    again = shapes.generate(2000, 500)
    assert torch.equal(torch.get_rng_state(), state), "they draw from a generator of their own"
    for split, n in [("train", 2000), ("test", 500)]:
        x, y = made[split]
        assert (x.dtype, x.shape) == (torch.uint8, (n, 3, 32, 32))
        assert (y.dtype, y.shape) == (torch.int64, (n,))
        assert torch.equal(x, again[split][0])
        assert torch.equal(y, again[split][1])
        assert y.bincount(minlength=10).tolist() == pytest.approx([n / 10] * 10, rel=0.4)
        assert len(x.flatten(1).unique(dim=0)) == n, "no picture twice"


def test_generated_pictures_can_be_learnt(made):
    x, y = made["train"]
    test_x, test_y = made["test"]
    x = normalise(x)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 5, 3),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    eight_epochs = torch.cat([torch.randperm(len(y)) for _ in range(8)])
    for part in eight_epochs.split(100):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
    answers = model(normalise(test_x)).argmax(1)
    accuracy = (answers == test_y).float().mean().item()
    assert accuracy > 0.4, "guessing gives 0.1"
