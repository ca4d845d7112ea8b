"""A small Kaggle on loopback: run a command beside it, in a network of their own, and record what arrives.

Run:  unshare -rn python loopback.py FOLDER COMMAND…

With KAGGLE_API_ENVIRONMENT=LOCALHOST the official client talks to http://localhost, port 80. A network namespace has
that port free, and no way to the real Kaggle. Each request becomes a line of FOLDER/requests; FOLDER/answers maps a
slug to what the server says instead of taking the push: {"status": 500} or any fields of the answer.
"""

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
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


with socket.socket() as plain:  # a new namespace has its loopback device switched off
    asked = struct.pack("16sh", b"lo", 0)
    flags = struct.unpack("16sh", fcntl.ioctl(plain, SIOCGIFFLAGS, asked))[1]
    fcntl.ioctl(plain, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP))
server = ThreadingHTTPServer(("127.0.0.1", 80), Kaggle)
threading.Thread(target=server.serve_forever, daemon=True).start()
signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is meant for the command
os._exit(subprocess.call(sys.argv[2:]))
