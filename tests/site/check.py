"""Opens the documentation, which `make docs` has built, in a browser without a window.

    python tests/site/check.py build/docs

No page is wider than the screen of a desktop or a phone, code and pictures that are wider are
scrolled by themselves, all text has the contrast that level AA of WCAG asks for, in the light and
in the dark mode, and searches find the right page first. Chromium, or a browser like it, does this;
without one, the check is passed over.
"""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SEARCHES = {
    "shared memory": "numba-cuda-kernels.html",
    "Numba kernels on the GPU": "numba-cuda-kernels.html",
    "gradient": "derivatives.html",
    "CSR": "sparse.html",
    "scipy sparse": "sparse.html",
    "STDP": "story.html",
    "random numbers": "random-numbers.html",
    "Optax": "training.html",
    "pybind11": "moving.html",
    "Pallas": "which-tool.html",
    "catch an exception": "catching-errors.html",
    "uninstall": "uninstall.html",
    "cache location": "uninstall.html",
    "float64": "faq.html",
    "CMake": "libraries.html",
    "pointer": "libraries.html",
    "notebook": "notebooks.html",
    "vmap": "numba-kernels.html",
    "export": "ship.html",
    "pytest": "ci.html",
    "index out of bounds": "find-a-fault.html",
    "several devices": "sharding.html",
}
SECONDS = 600


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the site, the page that measures it, and what this page needs to know."""

    server: Server

    def do_GET(self) -> None:
        path = self.path.lstrip("/")
        if path == "measure.html":
            self._send((HERE / path).read_bytes(), "text/html")
        elif path == "todo.json":
            self._send(json.dumps(self.server.todo).encode(), "application/json")
        else:
            super().do_GET()

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.wrong = json.loads(self.rfile.read(length))
        self._send(b"{}", "application/json")
        self.server.done.set()

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nothing."""


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, site: Path, pages: Sequence[str]) -> None:
        super().__init__(("localhost", 0), partial(Handler, directory=str(site)))
        self.todo = {"pages": pages, "searches": SEARCHES}
        self.wrong: list[str] = []
        self.done = threading.Event()


def dead_text(site: Path, pages: Sequence[str]) -> list[str]:
    """Names of pages that are no links, where a reader would want one."""
    wrong = []
    for page in pages:
        if page in ("changelog.html", "releasing.html"):  # about files of the repository
            continue
        prose = re.sub(r"<pre>.*?</pre>", "", (site / page).read_text(), flags=re.S)
        text = re.sub(r"<[^>]+>", "", prose)
        wrong += [f"{page}: {name} is no link" for name in re.findall(r"\bdocs/[\w-]+\.md", text)]
    return wrong


def main() -> int:
    site = Path(sys.argv[1])
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"skipped: tests/site/check.py, because there is none of {', '.join(BROWSERS)}")
        return 0
    hidden = ("_static", "errors", "search.html", "genindex.html", "py-modindex.html")
    found = (p.relative_to(site) for p in site.rglob("*.html"))
    pages = sorted(str(p) for p in found if p.parts[0] not in hidden)
    server = Server(site, pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={profile}",
        ]
        address = f"http://localhost:{server.server_port}/measure.html"
        running = subprocess.Popen(
            [*command, "--remote-debugging-port=0", address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            finished = server.done.wait(SECONDS)
        finally:
            running.kill()
            running.wait()
    wrong = dead_text(site, pages) + server.wrong
    if not finished:
        wrong.append(f"the browser was not done after {SECONDS} s")
    print(*wrong, f"{len(pages)} pages, {len(SEARCHES)} searches: {len(wrong)} wrong", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
