"""Firefox from Debian, spoken to in its own protocol, Marionette.

Playwright drives only a Firefox of its own build, which Debian does not have.
"""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PORT_FILE = "MarionetteActivePort"  # where Firefox says in the profile on which port it listens
SECONDS = 60


def installed() -> str | None:
    """The path of a Firefox: as root on Debian it is installed where there is none."""
    if not shutil.which("firefox-esr") and os.geteuid() == 0 and shutil.which("apt-get"):
        install = "apt-get install -y --no-install-recommends firefox-esr"
        command = f"{install} || (apt-get update && {install})"
        subprocess.run(command, shell=True, capture_output=True, timeout=600, check=False)
    return shutil.which("firefox-esr") or shutil.which("firefox")


class Firefox:
    """One window."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.number = 0
        self.receive()  # its greeting
        self.ask("WebDriver:NewSession", {})

    def receive(self) -> list:
        """The next message: its length, a colon, and JSON."""
        length = b""
        while not length.endswith(b":"):
            length += self.connection.recv(1)
        text = b""
        while len(text) < int(length[:-1]):
            text += self.connection.recv(65536)
        return json.loads(text)

    def ask(self, command: str, arguments: dict) -> object:
        self.number += 1
        message = json.dumps([0, self.number, command, arguments])
        self.connection.sendall(f"{len(message)}:{message}".encode())
        _, _, error, result = self.receive()
        assert not error, error
        return result

    def open(self, address: str) -> None:
        """Go to a page, and wait until it has unpacked what it needs."""
        self.ask("WebDriver:Navigate", {"url": address})
        until = time.monotonic() + 20
        while self.run("return document.querySelector('[aria-busy=true]') !== null"):
            assert time.monotonic() < until, f"{address} is still busy"
            time.sleep(0.05)

    def run(self, script: str) -> object:
        """The value of a piece of JavaScript."""
        result = self.ask("WebDriver:ExecuteScript", {"script": script, "args": []})
        return result["value"]

    def click(self, selector: str) -> None:
        """Click an element, and wait for the page that this may open."""
        place = {"using": "css selector", "value": selector}
        found = self.ask("WebDriver:FindElement", place)["value"]
        self.ask("WebDriver:ElementClick", {"id": next(iter(found.values()))})


@contextmanager
def started(path: str, profile: Path) -> Iterator[Firefox]:
    """A Firefox without a window on the screen, in a new profile."""
    (profile / "user.js").write_text('user_pref("marionette.port", 0);\n')
    command = [path, "--headless", "--no-remote", "--marionette", "--profile", str(profile)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + SECONDS
        while not (profile / PORT_FILE).exists():
            assert process.poll() is None, "Firefox ended at once"
            assert time.monotonic() < until, f"Firefox does not listen after {SECONDS} s"
            time.sleep(0.1)
        port = int((profile / PORT_FILE).read_text())
        with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
            yield Firefox(connection)
    finally:
        process.terminate()
        process.wait(SECONDS)
