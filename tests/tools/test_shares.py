"""How the two workers of `make test` share the tests: the Shares of conftest.py, on small ones."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SHARES = {
    "launching": ["campaigns/test_c", "lessons/test_00", "lessons/test_01"],
    "answers": ["lessons/test_answers"],
    "single": ["pages/test_p", "tools/test_s", "tools/test_t"],
}
SECONDS = {"launching": 0.5, "answers": 0.1, "single": 0.01}


@pytest.fixture(scope="module")
def workers(tmp_path_factory) -> dict[str, list[tuple[str, str]]]:
    """Who ran the tests of each share, and which, in the order in which they ended.

    The shares, too, are in the order in which their first test ended.
    """
    root = tmp_path_factory.mktemp("shares")
    (root / "scripts" / "lessons").mkdir(parents=True)
    for share, files in SHARES.items():
        for file in files:
            path = root / "tests" / f"{file}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            two = "\n".join(
                f"def test_{name}():\n    time.sleep({SECONDS[share]})" for name in "ab"
            )
            path.write_text(f"import time\n\n{two}\n")
    shutil.copy(TESTS / "conftest.py", root / "tests")
    (root / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-n", "2", "-p", "no:cacheprovider", "tests"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    share_of = {file: share for share, files in SHARES.items() for file in files}
    ended: dict[str, list[tuple[str, str]]] = {}
    for worker, file, test in re.findall(r"\[(gw\d)\].*PASSED tests/(\S+)\.py::(\S+)", done.stdout):
        ended.setdefault(share_of[file], []).append((worker, f"{file}::{test}"))
    return ended


def test_every_test_runs_once_and_a_share_in_the_order_of_its_files(workers) -> None:
    for share, files in SHARES.items():
        wanted = [f"{file}::test_{name}" for file in files for name in "ab"]
        assert [test for _, test in workers[share]] == wanted


def test_each_share_has_one_worker_and_the_fixtures_for_itself(workers) -> None:
    for share in SHARES:
        assert len({worker for worker, _ in workers[share]}) == 1, share


def test_answers_are_judged_beside_the_launches_and_the_rest_comes_after_them(workers) -> None:
    by = {share: ran[0][0] for share, ran in workers.items()}
    assert by["launching"] != by["answers"]
    assert by["single"] == by["answers"]
    order = list(workers)
    assert order.index("answers") < order.index("single")
