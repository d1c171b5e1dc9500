"""Opens the documentation, which `make docs` has built, in a browser without a window.

    python tests/site/check.py build/docs [--searches]

No page is wider than the screen of a desktop or a phone, code and pictures that are wider are
scrolled by themselves, and all text has the contrast that level AA of WCAG asks for, in the light
and in the dark mode. Of the queries in queries.toml, nine of ten have a right page as their first
result. Chromium, or a browser like it, does this; without one, the check is passed over.
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
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import conf  # noqa: E402  # which lists the public names

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
ALLOWED = {"query": 0.1, "name": 0.0, "code": 0.0, "option": 0.0}  # the part that may fail
SECONDS = 600


class Search(NamedTuple):
    """A query, and the pages or entries of which one must be among the first `within` results."""

    kind: str
    query: str
    right: list[str]
    within: int = 1


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
    def __init__(self, site: Path, pages: Sequence[str], searches: Sequence[Search]) -> None:
        super().__init__(("localhost", 0), partial(Handler, directory=str(site)))
        self.todo = {"pages": pages, "searches": [search._asdict() for search in searches]}
        self.wrong: tuple[list[str], list[str]] = ([], [])
        self.done = threading.Event()

    def handle_error(self, *args: object) -> None:
        """Nothing: a browser that is ended may not have read all."""


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


def is_word(name: str) -> bool:
    """Whether a reader may search for a name without meaning it."""
    return name.isalpha() and name.islower()


def queries() -> Iterator[Search]:
    """What readers search for, and the pages of which one must be the first result."""
    for group in tomllib.loads((HERE / "queries.toml").read_text()).values():
        for query, right in group.items():
            yield Search("query", query, right)


def names(places: dict[str, str], public: Sequence[str]) -> Iterator[Search]:
    """Public names: the first result is the entry of the reference. A name that is a word, such as
    `kernel`, may have two pages that explain it before its entry, if no module is before it.
    """
    entries = {id(conf._find(name)): place for name, place in places.items()}
    for name in public:
        right = [places.get(name) or entries[id(conf._find(name))]]
        last = name.rpartition(".")[2]
        alike = [place for other, place in places.items() if other.rpartition(".")[2] == last]
        yield Search("name", name, right)
        yield Search("name", last, right + alike, 3 if is_word(last) else 1)


def codes() -> Iterator[Search]:
    text = (ROOT / "python/kernbridge/_src/base/codes.toml").read_text()
    for code, page in tomllib.loads(text).items():
        yield Search("code", code, ["errors#" + conf.nodes.make_id(f"{code}: {page['title']}")])


def options(site: Path, places: dict[str, str]) -> Iterator[Search]:
    """Options of functions: the first result is the entry of one that takes it, or a page that has
    the option in a title or, as code, in its text. One that is a word, such as `name`, may have two
    pages before it. Variables of the environment have a page of their own.
    """
    right = {
        option: {places[function] for function in functions if function in places}
        for option, functions in conf.options().items()
    }
    for path in site.rglob("*.html"):
        page = str(path.relative_to(site).with_suffix(""))
        marked = re.findall(r"<(code|h[1-4])\b[^>]*>(.*?)</\1>", path.read_text(), flags=re.S)
        for tag, content in marked:
            text = re.sub("<[^>]+>", "", content).removesuffix("¶").strip()
            text = text if tag == "code" else text.lower()
            for option in [*re.findall(r"\b\w+(?==)", text), text]:
                if option in right:
                    right[option].add(page)
    for option, pages in right.items():
        yield Search("option", option, sorted(pages), 3 if is_word(option) else 1)
    for variable in re.findall(r"`(KERNBRIDGE_\w+)`", (ROOT / "docs/environment.md").read_text()):
        yield Search("option", variable, ["environment"])


def searches(site: Path) -> list[Search]:
    """All searches, each once."""
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entry = re.compile(r"(\S+) py:\w+ -?\d+ ([\w/-]+)\.html(#\S+) ")
    places = {
        name: page + anchor.replace("$", name)
        for name, page, anchor in entry.findall(zlib.decompress(inventory).decode())
    }
    public = conf._public()
    return list(
        {
            (search.kind, search.query): search
            for group in (queries(), names(places, public), codes(), options(site, places))
            for search in group
        }.values()
    )


def main() -> int:
    site = Path(sys.argv[1])
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"skipped: tests/site/check.py, because there is none of {', '.join(BROWSERS)}")
        return 0
    hidden = ("_static", "errors", "search.html", "genindex.html", "py-modindex.html")
    found = (p.relative_to(site) for p in site.rglob("*.html"))
    pages = sorted(str(p) for p in found if p.parts[0] not in hidden)
    if "--searches" in sys.argv:
        pages = []
    todo = searches(site)
    server = Server(site, pages, todo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
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
    wrong, unfound = server.wrong
    wrong = dead_text(site, pages) + wrong
    if not finished:
        wrong.append(f"the browser was not done after {SECONDS} s")
    print(*wrong, *unfound, f"{len(pages)} pages: {len(wrong)} wrong", sep="\n")
    failed = Counter(line.partition(":")[0] for line in unfound)
    for kind, asked in Counter(search.kind for search in todo).items():
        print(f"{kind}: {asked - failed[kind]} of {asked} found")
        if failed[kind] > asked * ALLOWED[kind]:
            wrong.append(kind)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
