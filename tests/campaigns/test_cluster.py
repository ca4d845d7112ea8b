"""What of `make cluster` can be tested without a cluster: what it asks for, and what it reads."""

from pathlib import Path

import probe
import pytest
from slurm import facts, states
from test_links import added, alike

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("packages", "said", "tun", "remedies"),
    [
        ([], "", True, ["all that is needed"]),
        (["munge", "slurm-wlm"], "", True, ["exit 101", f"sudo {probe.APT} munge slurm-wlm\n"]),
        ([], "Operation not permitted", True, ["namespaces: Operation not", "sudo sysctl kernel"]),
        (["munge"], "no", False, ["missing: munge", "namespaces: no", "sudo modprobe tun"]),
    ],
)
def test_the_probe_names_what_is_missing_with_its_remedy(
    monkeypatch, capsys, packages: list[str], said: str, tun: bool, remedies: list[str]
) -> None:
    monkeypatch.setattr(probe, "missing", lambda find: packages)
    monkeypatch.setattr(probe, "refused", lambda: said)
    monkeypatch.setattr(probe.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(probe.os, "access", lambda path, mode: tun)
    assert probe.main() == bool(packages or said or not tun)
    printed = capsys.readouterr().out
    assert [remedy for remedy in remedies if remedy not in printed] == []


def test_root_installs_what_is_missing_and_no_service_starts(monkeypatch, tmp_path: Path) -> None:
    assert probe.missing(lambda program: program not in ("srun", "slurmd")) == ["slurm-wlm"]
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(probe, "POLICY", policy)
    ran = []

    def run(command: list[str], **_) -> None:
        ran.append((command[:2], policy.read_text()))

    monkeypatch.setattr(probe.subprocess, "run", run)
    probe.install(["munge"])
    assert ran == [(["apt-get", what], probe.REFUSE) for what in ("update", "install")]
    assert not policy.exists()  # it was ours
    policy.write_text("exit 0")
    probe.install(["munge"])
    assert policy.read_text() == "exit 0"  # it was there before


def test_what_slurm_answers_is_read() -> None:
    assert states("node1 idle\nnode2 down*\n") == {"node1": "idle", "node2": "down*"}
    assert states("") == {}
    line = "JobId=1 JobName=train Restarts=1 NodeList=node[1-2] TRES=cpu=4,mem=1 Command=/a b"
    said = facts(f"{line}\nJobId=2 Restarts=0\n")  # the second part of a job
    assert (said["JobId"], said["Restarts"], said["NodeList"]) == ("1", "1", "node[1-2]")
    assert said["TRES"] == "cpu=4,mem=1"


def test_links_are_compared_by_their_least_times() -> None:
    # At 1 Gbit/s the bucket's 256 KiB are 2 ms; the free link takes 10 ms, the real one 40.
    real = [0.040, 0.900]
    own = [0.010, 0.020]
    for made_up, right in [(0.029, False), (0.040, True), (0.060, True), (0.070, False)]:
        assert alike([5.0, made_up], real, own, "1gbit") == right, made_up


def test_what_a_link_adds_is_beyond_the_least_step_alone() -> None:
    times = {"alone": [0.3, 0.1], "slow": [0.5, 0.4]}
    assert added(times, "slow") == pytest.approx([0.4, 0.3])
