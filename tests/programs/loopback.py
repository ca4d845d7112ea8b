"""A small Kaggle on loopback: run a command beside it, in a network of their own, and record what arrives.

Run:  unshare -rn python loopback.py FOLDER COMMAND…

With KAGGLE_API_ENVIRONMENT=LOCALHOST the official client talks to http://localhost, port 80. A network namespace has
that port free, and no way to the real Kaggle. Each request becomes a line of FOLDER/requests; FOLDER/answers maps a
slug to what the server says instead of taking the push: {"status": 500} or any fields of the answer.
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

from network import loopback

folder = Path(sys.argv[1])
answers = json.loads((folder / "answers").read_text()) if (folder / "answers").exists() else {}


class Kaggle(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = {"call": self.path.rpartition("/")[2], "token": self.headers["Authorization"], **asked}
        with (folder / "requests").open("a") as file:
            file.write(json.dumps(said) + "\n")
        if said["call"] == "IntrospectToken":
            answer = {"active": asked["token"] == "made-up", "username": "somebody"}
        else:
            url = f"https://www.kaggle.com/code/{asked['slug']}"
            answer = {"ref": asked["slug"], "url": url, "versionNumber": 1} | answers.get(asked["slug"], {})
        time.sleep(answer.pop("wait", 0))
        body = json.dumps(answer).encode()
        self.send_response(answer.pop("status", 200))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        pass


loopback()
server = ThreadingHTTPServer(("127.0.0.1", 80), Kaggle)
threading.Thread(target=server.serve_forever, daemon=True).start()
signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is meant for the command
os._exit(subprocess.call(sys.argv[2:]))
