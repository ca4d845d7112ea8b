"""What of `make cluster` can be tested without a cluster: what it asks for, and what it reads."""

import subprocess
import sys
from pathlib import Path

import probe
import pytest
from slurm import CONFIGURATION, NODES, facts, states
from test_links import added, alike

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[2]
UBUNTU = {"kernel/apparmor_restrict_unprivileged_userns": "1", "user/max_user_namespaces": "9"}


def test_missing_packages_are_named_once() -> None:
    assert probe.missing(lambda program: None) == sorted(set(probe.PACKAGES.values()))
    assert probe.missing(lambda program: "/bin/it") == []
    there = {"ip", "tc", "unshare", "nsenter", "prometheus", "munged", "srun", "slurmctld"}
    assert probe.missing(lambda program: program if program in there else None) == ["slurm-wlm"]


def test_missing_packages_come_with_apts_line() -> None:
    said = probe.packages_needed(["munge", "slurm-wlm"])
    assert "apt-get install --yes --no-install-recommends munge slurm-wlm\n" in said
    # No service may start.
    assert said.index("exit 101") < said.index("apt-get")


@pytest.mark.parametrize(
    ("settings", "docker", "remedy"),
    [
        (UBUNTU, False, "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
        ({"kernel/unprivileged_userns_clone": "0"}, False, "unprivileged_userns_clone=1"),
        ({"user/max_user_namespaces": "0"}, False, "user.max_user_namespaces=15000"),
        ({}, True, "--security-opt seccomp=unconfined"),
        ({}, False, "Ask whoever runs it"),
    ],
)
def test_refused_namespaces_come_with_the_remedy(settings: dict, docker: bool, remedy: str) -> None:
    said = probe.namespaces_needed("unshare failed: Operation not permitted\n", settings, docker)
    assert "unshare failed: Operation not permitted\n" in said
    assert remedy in said
    assert ("sysctl" in said) == bool(settings)
    assert ("Docker" in said) == docker


def test_what_allows_namespaces_is_no_remedy() -> None:
    allowed = {"kernel/apparmor_restrict_unprivileged_userns": "0"}
    assert "sysctl" not in probe.namespaces_needed("no", allowed, docker=False)


def test_the_wire_needs_its_device() -> None:
    assert "chmod 666 /dev/net/tun" in probe.tun_needed(exists=True)
    assert "modprobe tun" in probe.tun_needed(exists=False)


def run_probe(monkeypatch: pytest.MonkeyPatch, packages: list[str], said: str) -> int:
    """The exit code where these packages are missing, and this is said about namespaces."""
    monkeypatch.setattr(probe, "missing", lambda find: packages)
    monkeypatch.setattr(probe, "refused", lambda: said)
    monkeypatch.setattr(probe.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(probe.os, "access", lambda path, mode: True)
    return probe.main()


def test_the_probe_fails_when_something_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert run_probe(monkeypatch, [], "") == 0
    assert "all that is needed" in capsys.readouterr().out
    assert run_probe(monkeypatch, ["munge"], "") == 1
    assert "missing: munge" in capsys.readouterr().out
    assert run_probe(monkeypatch, ["munge"], "Operation not permitted") == 1
    said = capsys.readouterr().out
    assert "missing: munge" in said
    assert "does not let you make namespaces: Operation not permitted" in said


def test_root_installs_and_no_service_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(probe, "POLICY", policy)
    seen = []

    def run(command: list[str], **_) -> None:
        seen.append((command, policy.read_text()))

    monkeypatch.setattr(probe.subprocess, "run", run)
    probe.install(["munge"])
    assert [command[:2] for command, _ in seen] == [["apt-get", "update"], ["apt-get", "install"]]
    assert all(text == "#!/bin/sh\nexit 101\n" for _, text in seen)
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


def test_the_configuration_has_no_place_of_its_own() -> None:
    text = CONFIGURATION.format(folder="/somewhere", user="someone")
    assert "{" not in text
    paths = [line for line in text.splitlines() if "/somewhere" in line]
    assert len(paths) >= 5
    assert f"NodeName=node[1-{len(NODES)}] " in text


@pytest.mark.torch
def test_nothing_of_it_runs_by_itself() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "tests/campaigns/cluster"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 5, done.stdout  # all are left out
    assert done.stdout.splitlines()[-1] == "cluster: not run (make cluster)"


def test_the_workflow_takes_the_remedies_of_the_probe() -> None:
    text = (ROOT / ".github" / "workflows" / "cluster.yml").read_text()
    remedies = ["sysctl kernel.apparmor_restrict_unprivileged_userns=0", "chmod 666 /dev/net/tun"]
    remedies += [*set(probe.PACKAGES.values()) - {"util-linux"}, str(probe.POLICY)]
    before = text[: text.index("make cluster")]
    assert [remedy for remedy in remedies if remedy not in before] == []
