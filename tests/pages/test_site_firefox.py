"""The site in Firefox: a page of ours shows it in a frame, uses it, and posts what it found."""

import json
import shutil
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import debian
import pytest

QUERIES = ["梯度", "集體通訊", "all_reduce", "Watchdog caught collective", "xqzvw"]
TEXTS = Path(__file__).with_name("site_texts.js").read_text()
WALK = """<!DOCTYPE html><meta charset="utf-8"><iframe width="1280" height="720"></iframe><script>
const frame = document.querySelector("iframe");
const loaded = () => new Promise((go) => frame.addEventListener("load", go, { once: true }));
const found = (selector) => [...frame.contentDocument.querySelectorAll(selector)];
const texts = (document) => (TEXTS);
async function open(address) {
  frame.src = "SITE/" + address;
  await loaded();
  while (found("[aria-busy=true]").length) await new Promise((go) => setTimeout(go, 50));
}
async function walk() {
  await open("notebooks/06_ddp.html");
  found("[data-choose=zh]")[0].click();
  found(".prev-next-area a.right-next")[0].click();
  await loaded();
  const result = { page: frame.contentWindow.location.href, marked: {} };
  result.foreign = texts(frame.contentDocument)("zh").foreign;
  for (const query of QUERIES) {
    await open("search.html?lang=zh&q=" + encodeURIComponent(query));
    result.marked[query] = found("#course-results mark").map((it) => it.textContent);
  }
  return result;
}
const tell = (body) => fetch("ADDRESS", { method: "POST", mode: "no-cors", body });
walk().then((result) => tell(JSON.stringify(result)), (error) => tell(`"${error}"`));
</script>"""
# A page from a file may otherwise not look into another one.
SETTING = 'user_pref("security.fileuri.strict_origin_policy", false);\n'


class Ear(BaseHTTPRequestHandler):
    """Keeps what is posted to its server."""

    def do_POST(self) -> None:
        self.server.heard = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_) -> None:
        pass


def installed() -> str | None:
    return shutil.which("firefox-esr") or shutil.which("firefox")


@pytest.mark.thorough
def test_firefox_keeps_the_language_and_finds(site: Path, tmp_path: Path) -> None:
    program = debian.needed(installed, "firefox-esr", "Firefox")
    (tmp_path / "user.js").write_text(SETTING)
    with HTTPServer(("127.0.0.1", 0), Ear) as server:
        server.timeout = 60
        server.heard = b'"Firefox says nothing"'
        walk = WALK.replace("TEXTS", TEXTS).replace("SITE", site.as_uri())
        walk = walk.replace("ADDRESS", f"http://127.0.0.1:{server.server_port}")
        (tmp_path / "walk.html").write_text(walk.replace("QUERIES", json.dumps(QUERIES)))
        command = [program, "--headless", "--no-remote", "--profile", tmp_path]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(
            [*command, tmp_path / "walk.html"], stdout=quiet, stderr=quiet
        ) as process:
            server.handle_request()
            process.terminate()
    result = json.loads(server.heard)
    assert result["page"].endswith("?lang=zh") and "06_ddp" not in result["page"], result
    assert not result["foreign"]
    assert not result["marked"].pop("xqzvw")
    for query, marked in result["marked"].items():
        assert query in marked
