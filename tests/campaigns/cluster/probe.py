"""Whether this machine has what `make cluster` needs; if not, what to do about it, and exit code 1.

Run:  python tests/campaigns/cluster/probe.py

As root it installs missing packages itself, without letting any of their services start.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

# Programs → the package, of Debian and of Ubuntu, that has them.
PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "munged": "munge",
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "srun": "slurm-wlm",
    "prometheus": "prometheus",
}
APT = "apt-get install --yes --no-install-recommends"
# Asked before a package starts its service; 101: it must not.
POLICY = Path("/usr/sbin/policy-rc.d")
REFUSE = "#!/bin/sh\nexit 101\n"
TUN = Path("/dev/net/tun")
# With a network card that can be switched on: Ubuntu makes the namespace, and forbids its use.
USER_NAMESPACE = ["unshare", "-Urn", "ip", "link", "set", "lo", "up"]
ALL_NAMESPACES = ["unshare", "-Urnmp", "--uts", "--fork", "--mount-proc", "true"]
PACKAGES_NEEDED = f"""\
These packages are missing: {{packages}}. Install them (as root, `make cluster` does so itself); the
first line keeps their services from starting:
    printf '#!/bin/sh\\nexit 101\\n' | sudo tee {POLICY}; sudo chmod +x {POLICY}
    sudo {APT} {{packages}}
    sudo rm {POLICY}"""
NAMESPACES_NEEDED = """\
This machine does not let you make namespaces: {said}. What may help, until the next start:
    Ubuntu from 24.04 on:  sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0
    other systems:         sudo sysctl user.max_user_namespaces=15000
    a container:           docker run --security-opt seccomp=unconfined \\
                           --security-opt apparmor=unconfined \\
                           --security-opt systempaths=unconfined"""
TUN_NEEDED = f"""\
{TUN} cannot be opened, and the wire with latency needs it:
    sudo modprobe tun; sudo chmod 666 {TUN}"""


def find(program: str) -> str | None:
    """Where a program is. Daemons are where only root looks by itself."""
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def missing(find: Callable[[str], str | None]) -> list[str]:
    """The packages that are not installed."""
    return sorted({package for program, package in PACKAGES.items() if not find(program)})


@contextmanager
def no_service_starts():
    """While packages are installed: nothing is started; the rule goes away afterwards."""
    ours = not POLICY.exists()
    if ours:
        POLICY.write_text(REFUSE)
        POLICY.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            POLICY.unlink()


def install(packages: list[str]) -> None:
    """Install packages, as root."""
    print(f"Installing {', '.join(packages)}; their services stay off", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with no_service_starts():
        subprocess.run(["apt-get", "update", "--quiet"], check=True, env=environment)
        subprocess.run([*APT.split(), *packages], check=True, env=environment)


def refused() -> str:
    """What is said where namespaces are refused; nothing where they are not."""
    for command in (USER_NAMESPACE, ALL_NAMESPACES):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return done.stderr.strip() or f"exit code {done.returncode}"
    return ""


def main() -> int:
    packages = missing(find)
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        install(packages)
        packages = missing(find)
    problems = []
    if packages:
        problems.append(PACKAGES_NEEDED.format(packages=" ".join(packages)))
    if "util-linux" not in packages and "iproute2" not in packages:
        said = refused()
        if said:
            problems.append(NAMESPACES_NEEDED.format(said=said))
    if not os.access(TUN, os.R_OK | os.W_OK):
        problems.append(TUN_NEEDED)
    print("\n\n".join(problems) or "make cluster: this machine has all that is needed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
