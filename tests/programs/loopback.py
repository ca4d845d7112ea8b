"""A small Kaggle on loopback: run a command beside it, in a network of their own; record requests.

Run:  unshare -rn python loopback.py FOLDER COMMAND…

With KAGGLE_API_ENVIRONMENT=LOCALHOST the official client talks to http://localhost, port 80. A
network namespace has that port free, and no way to the real Kaggle. Each request becomes a line of
FOLDER/requests; FOLDER/answers maps a slug to what the server says instead of taking the push:
{"status": 500} or any fields of the answer.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from device import loopback

FOLDER = Path(sys.argv[1])


def prepared_answers() -> dict[str, dict]:
    path = FOLDER / "answers"
    return json.loads(path.read_text()) if path.exists() else {}


def answer_to(call: str, request: dict) -> dict:
    """What Kaggle would say, or what the test wants it to say."""
    if call == "IntrospectToken":
        return {"active": request["token"] == "made-up", "username": "somebody"}
    slug = request["slug"]
    usual = {"ref": slug, "url": f"https://www.kaggle.com/code/{slug}", "versionNumber": 1}
    return usual | ANSWERS.get(slug, {})


class Kaggle(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        request = json.loads(self.rfile.read(length))
        call = self.path.rpartition("/")[2]
        noted = {"call": call, "token": self.headers["Authorization"]} | request
        with (FOLDER / "requests").open("a") as file:
            file.write(json.dumps(noted) + "\n")

        answer = answer_to(call, request)
        time.sleep(answer.pop("wait", 0))
        body = json.dumps(answer).encode()
        self.send_response(answer.pop("status", 200))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        pass


ANSWERS = prepared_answers()
loopback()
server = ThreadingHTTPServer(("127.0.0.1", 80), Kaggle)
threading.Thread(target=server.serve_forever, daemon=True).start()
signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is meant for the command
os._exit(subprocess.call(sys.argv[2:]))
