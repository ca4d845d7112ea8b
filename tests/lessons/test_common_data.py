"""The data policy of cifar10.py: attached, local, downloaded, generated; and never a damaged copy.

A small CIFAR-10 in the format of the real one stands in for it. Its own MD5 sums replace the real ones, so that all
of torchvision's checks and all of the loading run as they do on the real files.
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
from torchvision.datasets import CIFAR10

import cifar10
from loader import Pictures, normalise

TRAIN = [f"data_batch_{n}" for n in range(1, 6)]
LAYOUTS = ["cifar10-python/cifar-10-batches-py", "datasets/someone/cifar10-python/cifar-10-batches-py"]


def python2_pickle(value) -> bytes:
    """`value` as Python 2 pickled it, for the real files are as old as that: byte strings, numpy.core, dtype(0, 1)."""
    if isinstance(value, str):
        return b"U" + bytes([len(value)]) + value.encode()
    if isinstance(value, int):
        return b"J" + value.to_bytes(4, "little", signed=True)
    if isinstance(value, list):
        return b"](" + b"".join(map(python2_pickle, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(python2_pickle(part) for item in value.items() for part in item) + b"u"
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    byte = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNN" + 2 * python2_pickle(-1) + b"K\x00tb"
    shape = b"(" + b"".join(map(python2_pickle, value.shape)) + b"t"
    return empty + b"(K\x01" + shape + byte + b"\x89T" + value.nbytes.to_bytes(4, "little") + value.tobytes() + b"tb"


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A folder with `cifar-10-batches-py` and its archive. The test runs in an empty folder, without internet."""
    rng, contents = np.random.default_rng(0), {}
    source = tmp_path / "source"
    (source / "cifar-10-batches-py").mkdir(parents=True)
    for name in [*TRAIN, "test_batch"]:
        data, labels = rng.integers(0, 256, (20, 3072), dtype=np.uint8), rng.permutation(20) % 10
        batch = {"batch_label": name, "labels": labels.tolist(), "data": data, "filenames": ["a.png"] * 20}
        contents[name] = python2_pickle(batch)
    contents["batches.meta"] = python2_pickle({"label_names": [f"class {n}" for n in range(10)], "num_vis": 3072})
    contents = {name: b"\x80\x02" + content + b"." for name, content in contents.items()}
    for name, content in contents.items():
        (source / "cifar-10-batches-py" / name).write_bytes(content)
    with tarfile.open(source / CIFAR10.filename, "w:gz") as archive:
        archive.add(source / "cifar-10-batches-py", "cifar-10-batches-py")

    monkeypatch.setattr(CIFAR10, "train_list", [[name, md5(contents[name])] for name in TRAIN])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", md5(contents["test_batch"])]])
    monkeypatch.setattr(CIFAR10, "meta", CIFAR10.meta | {"md5": md5(contents["batches.meta"])})
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5((source / CIFAR10.filename).read_bytes()))
    monkeypatch.setattr(cifar10, "ATTACHED", tmp_path / "kaggle" / "input")
    monkeypatch.setattr(cifar10.generate, "__defaults__", (300, 100))
    monkeypatch.setattr(os, "environ", os.environ | {"no_proxy": "*"})  # a copy: main() writes into it
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with socket.socket() as nobody:  # bound but not listening: connections are refused
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setattr(CIFAR10, "url", f"http://127.0.0.1:{nobody.getsockname()[1]}/{CIFAR10.filename}")
        yield source


@pytest.fixture
def server(fake, monkeypatch):
    """The archive's server: it sends `body`, announces `length` bytes, and keeps in `asked` what it was asked for."""

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
        server.status, server.length, server.asked = 200, len(server.body), []
        monkeypatch.setattr(CIFAR10, "url", f"http://127.0.0.1:{server.server_port}/{CIFAR10.filename}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def put(fake: Path, folder: Path) -> Path:
    return Path(shutil.copytree(fake / "cifar-10-batches-py", folder))


def check_loads_the_fake(fake: Path) -> None:
    """Every picture and label, in order, as it stands in the files: 1,024 bytes of red, of green, of blue, by rows."""
    for train, names in [(True, TRAIN), (False, ["test_batch"])]:
        x, y, source = cifar10.load(train)
        assert (source, x.dtype, y.dtype) == ("CIFAR-10", torch.uint8, torch.int64)
        assert x.shape == (20 * len(names), 3, 32, 32)
        files = [(fake / "cifar-10-batches-py" / name).read_bytes() for name in names]
        pixels = b"".join(x[20 * n : 20 * n + 20].numpy().tobytes() for n in range(len(names)))
        for n, file in enumerate(files):
            assert pixels[61440 * n : 61440 * (n + 1)] in file
            labels = y[20 * n : 20 * n + 20].tolist()
            assert python2_pickle(labels) in file


@pytest.mark.parametrize("layout", LAYOUTS)
def test_attached(fake, server, layout, capfd):
    folder = put(fake, cifar10.ATTACHED / layout)
    local = put(fake, Path("data") / "cifar-10-batches-py")
    (local / "data_batch_1").write_bytes(b"never read, since what is attached comes first")
    assert cifar10.find() == folder.parent
    cifar10.main()
    assert f"CIFAR-10: 100 pictures to train on, 20 to test on, from {folder.parent}" in capfd.readouterr().out
    check_loads_the_fake(fake)
    assert server.asked == []


def test_local(fake, server, capfd):
    put(fake, Path("data") / "cifar-10-batches-py")
    cifar10.main()
    assert "CIFAR-10: 100 pictures to train on, 20 to test on, from data\n" in capfd.readouterr().out
    check_loads_the_fake(fake)
    assert [len(part) for part in cifar10.load(True, 33)[:2]] == [33, 33]
    report = json.loads(Path("cifar10.json").read_text())
    assert (report["data"], report["train"], report["test"]) == ("CIFAR-10", 100, 20)
    assert report["first"][1] == cifar10.load(True)[1][:30].tolist()
    assert server.asked == []


def test_download(fake, server, capfd):
    cifar10.main()
    assert server.asked == [f"/{CIFAR10.filename}"]
    assert "CIFAR-10: 100 pictures" in capfd.readouterr().out
    check_loads_the_fake(fake)
    assert list(Path("data").iterdir()) == [Path("data/cifar-10-batches-py")], (
        "the archive and the half-way folder are gone"
    )
    cifar10.main()
    assert len(server.asked) == 1, "once is enough"


@pytest.mark.parametrize("how", ["cut off", "damaged"])
def test_broken_download(fake, server, how):
    whole = server.body
    server.body = whole[: len(whole) // 2] if how == "cut off" else whole[:-9] + b"?" + whole[-8:]
    with pytest.raises(
        RuntimeError, match=r"cifar-10-python\.tar\.gz is damaged or half downloaded: delete it, then run"
    ):
        cifar10.main()
    assert not Path("data/generated.pt").exists()
    with pytest.raises(RuntimeError, match=r"no pictures, or \S+ is damaged: run `python cifar10\.py`"):
        cifar10.load(True)
    server.body = whole
    cifar10.main()
    check_loads_the_fake(fake)


@pytest.mark.parametrize("how", ["connection refused", "server in trouble"])
def test_no_internet(fake, how, capfd, request, monkeypatch):
    if how == "server in trouble":
        request.getfixturevalue("server").status = 503
    Path("data/partial").mkdir(parents=True)  # of a download that was interrupted, when there still was internet
    (Path("data/partial") / CIFAR10.filename).write_bytes(b"half")
    cifar10.main()
    said = capfd.readouterr().out
    assert "no internet: making pictures of the same shape" in said
    assert "generated pictures: 300 pictures to train on, 100 to test on, from data/generated.pt" in said
    assert json.loads(Path("cifar10.json").read_text())["data"] == "generated pictures"
    assert cifar10.load(False)[2] == "generated pictures"

    monkeypatch.setattr(cifar10, "generate", None)  # a second time it makes nothing
    cifar10.main()
    assert "making" not in capfd.readouterr().out

    put(fake, cifar10.ATTACHED / LAYOUTS[0])  # the real ones, once they are there, go before the generated
    check_loads_the_fake(fake)


@pytest.mark.parametrize("where", ["attached", "local"])
@pytest.mark.parametrize("how", ["damaged", "missing"])
@pytest.mark.parametrize("name", ["data_batch_3", "test_batch", "batches.meta"])
def test_damaged_or_missing_file(fake, server, name, how, where):
    """Other data is one step away, in ./data and on the server: none of it may be taken instead."""
    Path("data").mkdir()
    torch.save(cifar10.generate(), "data/generated.pt")
    folder = put(fake, cifar10.ATTACHED / LAYOUTS[0] if where == "attached" else Path("data/cifar-10-batches-py"))
    if where == "attached":
        put(fake, Path("data/cifar-10-batches-py"))
    whole = (folder / name).read_bytes()
    (folder / name).unlink()
    if how == "damaged":
        (folder / name).write_bytes(whole[:-50] + bytes([whole[-50] ^ 1]) + whole[-49:])
    remedy = "detach the dataset and attach it again" if where == "attached" else f"delete {folder}"
    message = f"{folder / name} is missing or damaged: {remedy}, then run `python cifar10.py` again."
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
    assert str(caught.value).startswith(f"{archive} is damaged or half downloaded: delete it, then run")
    assert server.asked == []
    assert not Path("data/generated.pt").exists()
    archive.unlink()  # as it says
    cifar10.main()
    check_loads_the_fake(fake)


def test_whole_archive(fake, server):
    archive = Path("data") / CIFAR10.filename
    archive.parent.mkdir()
    shutil.copy(fake / CIFAR10.filename, archive)
    left = put(fake, Path("data/partial/cifar-10-batches-py"))  # by a run that was interrupted while it unpacked
    (left / "data_batch_2").unlink()
    cifar10.main()
    check_loads_the_fake(fake)
    assert sorted(Path("data").iterdir()) == [Path("data/cifar-10-batches-py"), archive]
    assert server.asked == []


def test_ranks_never_download(server):
    for step in [cifar10.load, Pictures]:
        with pytest.raises(RuntimeError, match=r"no pictures, or \S+ is damaged: run `python cifar10\.py` before"):
            step(True)
    assert server.asked == []
    assert not Path("data").exists()


@pytest.fixture(scope="module")
def made():
    return cifar10.generate(2000, 500)


def test_generated_pictures(made):
    state = torch.get_rng_state()
    again = cifar10.generate(2000, 500)
    assert torch.equal(torch.get_rng_state(), state), "they draw from a generator of their own"
    for split, n in [("train", 2000), ("test", 500)]:
        (x, y), (other_x, other_y) = made[split], again[split]
        assert (x.dtype, x.shape, y.dtype, y.shape) == (torch.uint8, (n, 3, 32, 32), torch.int64, (n,))
        assert torch.equal(x, other_x)
        assert torch.equal(y, other_y)
        assert y.bincount(minlength=10).tolist() == pytest.approx([n / 10] * 10, rel=0.4)
        assert len(x.flatten(1).unique(dim=0)) == n, "no picture twice"


def test_generated_pictures_can_be_learnt(made):
    x, test_x = (normalise(made[split][0]) for split in ("train", "test"))
    y, test_y = (made[split][1] for split in ("train", "test"))
    torch.manual_seed(0)
    convolutions = [torch.nn.Conv2d(3, 16, 5, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, 2), torch.nn.ReLU()]
    pooling = [torch.nn.AdaptiveMaxPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10)]
    model = torch.nn.Sequential(*convolutions, *pooling)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for part in torch.cat([torch.randperm(len(y)) for _ in range(8)]).split(100):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[part]), y[part]).backward()
        optimizer.step()
    accuracy = (model(test_x).argmax(1) == test_y).float().mean().item()
    assert accuracy > 0.4, "guessing gives 0.1"
