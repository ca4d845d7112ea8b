"""What tests need of Debian's packages, such as a browser, is installed where there is none."""

import os
import shutil
import subprocess
from collections.abc import Callable

import pytest

# Another worker may be installing, too.
INSTALL = "apt-get -o DPkg::Lock::Timeout=300 install -y"


def needed(find: Callable[[], str | None], packages: str, what: str) -> str:
    """What `find` finds; as root on Debian the packages are installed first, if it is nothing."""
    remedy = f"{INSTALL} {packages}"
    if not find() and os.geteuid() == 0 and shutil.which("apt-get"):
        install = f"{remedy} || (apt-get update && {remedy})"
        subprocess.run(install, shell=True, capture_output=True, timeout=600, check=False)
    found = find()
    if not found:
        pytest.fail(f"There is no {what}. As root: apt-get install -y {packages}", pytrace=False)
    return found
