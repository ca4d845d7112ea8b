"""A small Kaggle on loopback: run a command beside it, in a network of their own; record requests.

Run:  unshare -rn python loopback.py FOLDER COMMAND…

With KAGGLE_API_ENVIRONMENT=LOCALHOST the official client talks to http://localhost, port 80. A
network namespace has that port free, and no way to the real Kaggle. Each request becomes a line of
FOLDER/requests. FOLDER/answers maps a slug to what the server does with that notebook:

{"status": 500}, {"error": "…"}: fields of the answer to its push
{"states": ["QUEUED", "RUNNING", "ERROR"], "failure": "…"}: look by look; the last one stays
{"wait": 9}: seconds from a push to its answer
{"files": {"06_run.json": "text"}, "log": "…", "page": 20}: what it has left, so many to a page;
"size", if it lists another one than they have
{"faults": {"GetKernelSessionStatus": [429, 500, "cut"]}}: what the first calls come to; also for
"file", the download: a status, "cut" in the middle, "html", "slow", "gone" (the connection ends)

A push beyond two sessions is refused. The token "silent" never gets an answer.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from device import loopback

FOLDER = Path(sys.argv[1])
FULL = "Maximum batch GPU session count of 2 reached."
ENDED = ("COMPLETE", "ERROR", "CANCEL_ACKNOWLEDGED")
faults: Counter[tuple[str, str]] = Counter()
looks: Counter[str] = Counter()  # of states since the last push
pushed: set[str] = set()


def prepared_answers() -> dict[str, dict]:
    path = FOLDER / "answers"
    return json.loads(path.read_text()) if path.exists() else {}


def state(slug: str) -> str:
    states = ANSWERS.get(slug, {}).get("states", ["COMPLETE"])
    return states[min(looks[slug], len(states) - 1)]


def running() -> int:
    """The sessions of the account, as of the last look at each."""
    return sum(state(slug) not in ENDED for slug in pushed)


def save(request: dict) -> dict:
    slug = request["slug"]
    usual = {"ref": slug, "url": f"https://www.kaggle.com/code/{slug}", "versionNumber": 1}
    own = ANSWERS.get(slug, {})
    fields = ("status", "code", "message", "error", "invalidDatasetSources", "wait")
    answer = usual | {key: own[key] for key in fields if key in own}
    if running() >= 2:
        answer["error"] = FULL
    if "error" not in answer and "status" not in answer:
        looks[slug] = 0
        pushed.add(slug)
    return answer


def content(slug: str, name: str) -> bytes:
    """A file that a notebook has left."""
    own = ANSWERS.get(slug, {})
    return own.get("files", {}).get(name, "").encode("utf-8", "surrogateescape") * own.get(
        "times", 1
    )


def listed(call: str, slug: str, request: dict) -> dict:
    """A page of what a notebook has left."""
    own = ANSWERS.get(slug, {})
    files = own.get("files", {})
    names = own.get("names") or list(files)
    page = own.get("page", 20)
    first = int(request.get("pageToken") or 0)
    told = []
    for name in names[first : first + page]:
        if call == "ListKernelFiles":
            told.append({"name": name, "size": own.get("size", len(content(slug, name)))})
        else:
            place = own.get("address", f"http://localhost/files/{slug}/{name}")
            told.append({"fileName": name, "url": place})
    answer = {"files": told}
    if call != "ListKernelFiles":
        answer["log"] = own.get("log", "") if first == 0 else ""
    if first + page < len(names):
        answer["nextPageToken"] = str(first + page)
    return answer


def answer_to(call: str, request: dict) -> dict:
    """What Kaggle would say, or what the test wants it to say."""
    if call == "IntrospectToken":
        time.sleep(99 if request["token"] == "silent" else 0)
        return {"active": request["token"] == "made-up", "username": "somebody"}
    if call == "SaveKernel":
        return save(request)
    slug = f"{request['userName']}/{request['kernelSlug']}"
    if call == "GetKernelSessionStatus":
        failure = ANSWERS.get(slug, {}).get("failure", "")
        now = state(slug)
        looks[slug] += 1
        return {"status": now} | ({"failureMessage": failure} if failure else {})
    return listed(call, slug, request)


def fault(slug: str, call: str) -> int | str | dict | None:
    """What is to go wrong with this call, if anything is."""
    wanted = ANSWERS.get(slug, {}).get("faults", {}).get(call, [])
    faults[slug, call] += 1
    number = faults[slug, call] - 1
    return wanted[number] if number < len(wanted) else None


class Kaggle(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        request = json.loads(self.rfile.read(length))
        call = self.path.rpartition("/")[2]
        noted = {"call": call, "token": self.headers["Authorization"]} | request
        with (FOLDER / "requests").open("a") as file:
            file.write(json.dumps(noted) + "\n")
        slug = request.get("slug") or f"{request.get('userName')}/{request.get('kernelSlug')}"
        wrong = fault(slug, call)
        if wrong is not None:
            self.go_wrong(wrong, json.dumps(answer_to(call, request)).encode())
            return
        answer = answer_to(call, request)
        time.sleep(answer.pop("wait", 0))
        status = answer.pop("status", 200) if call == "SaveKernel" else 200
        self.reply(status, json.dumps(answer).encode(), "application/json")

    def do_GET(self) -> None:
        """A file that a notebook has left; nobody needs a token for it."""
        _, _, owner, slug, name = unquote(self.path).split("/", 4)
        with (FOLDER / "requests").open("a") as file:
            noted = {"call": "file", "name": name, "token": self.headers["Authorization"]}
            file.write(json.dumps(noted) + "\n")
        held = content(f"{owner}/{slug}", name)
        wrong = fault(f"{owner}/{slug}", "file")
        if wrong is not None:
            self.go_wrong(wrong, held)
        else:
            self.reply(200, held, "application/octet-stream")

    def reply(self, status: int, content: bytes, kind: str, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def go_wrong(self, wrong: int | str | dict, content: bytes) -> None:
        if isinstance(wrong, dict):  # an answer of the test's own
            self.reply(wrong.get("status", 200), wrong["text"].encode(), wrong["kind"])
        elif wrong == "html":
            self.reply(200, b"<html>We are down for maintenance</html>", "text/html")
        elif wrong == "gone":
            self.close_connection = True
        elif wrong in ("cut", "slow"):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            time.sleep(1 if wrong == "slow" else 0)
            if wrong == "slow":
                self.wfile.write(content[len(content) // 2 :])
            self.close_connection = True
        else:
            text = json.dumps({"code": wrong, "message": f"status {wrong}"}).encode()
            self.reply(wrong, text, "application/json", Retry_After="1")

    def log_message(self, *_) -> None:
        pass


ANSWERS = prepared_answers()
loopback()
server = ThreadingHTTPServer(("127.0.0.1", 80), Kaggle)
threading.Thread(target=server.serve_forever, daemon=True).start()
signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is meant for the command
os._exit(subprocess.call(sys.argv[2:]))
