"""`kernbridge explain`: prints the page of a code in messages, such as KB2001."""

from __future__ import annotations

import argparse
import difflib
import re
import tomllib
from importlib import resources
from typing import Any, NamedTuple

from kernbridge._src.tools.printing import Lines, Output


class Page(NamedTuple):
    """The page of a code."""

    title: str
    cause: str
    remedy: str


def pages() -> dict[str, Page]:
    """Return the page of each code."""
    file = resources.files("kernbridge._src.base").joinpath("codes.toml")
    read = tomllib.loads(file.read_text(encoding="utf-8"))
    return {code: Page(**page) for code, page in sorted(read.items())}


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    what = "explain the code of a message, such as KB2001"
    parser = commands.add_parser("explain", parents=[common], help=what)
    parser.add_argument("code", type=_code, help="as printed in the message")
    parser.set_defaults(run=_run)


def _code(text: str) -> str:
    """Return the code that a text means: also in brackets, in small letters, or only its number."""
    found = re.fullmatch(r"\[?(?:KB)?(\d{4})\]?", text.strip(), re.IGNORECASE)
    name = f"KB{found[1]}" if found else text
    known = pages()
    if name in known:
        return name
    close = difflib.get_close_matches(name, known, n=4, cutoff=0.6)
    listed = "".join(f"\n  {other}: {known[other].title}" for other in close)
    like = f"; codes that are like it:{listed}" if close else ""
    raise argparse.ArgumentTypeError(
        f"there is no code {text!r}, expected one such as KB2001{like}"
    )


def _run(chosen: argparse.Namespace, output: Output) -> int:
    page = pages()[chosen.code]
    output.answer |= {"code": chosen.code, **page._asdict()}
    text = f"{chosen.code}: {page.title}\n\nCause: {page.cause}\n\nRemedy: {page.remedy}"
    output.show(Lines(text.split("\n")))
    return 0
