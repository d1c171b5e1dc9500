"""The pages of the codes in messages, such as KB2001, which `kernbridge explain` prints."""

from __future__ import annotations

import difflib
import re
import tomllib
from functools import cache
from importlib import resources
from typing import NamedTuple

_CODE = re.compile(r"\[?(?:KB)?(\d{4})\]?", re.IGNORECASE)


class Page(NamedTuple):
    """The page of a code."""

    title: str
    cause: str
    remedy: str


class UnknownCode(LookupError):
    """There is no page for a code."""


@cache
def pages() -> dict[str, Page]:
    """Return the page of each code."""
    file = resources.files("kernbridge._src.base").joinpath("codes.toml")
    read = tomllib.loads(file.read_text(encoding="utf-8"))
    return {code: Page(**page) for code, page in sorted(read.items())}


def explain_code(code: str) -> str:
    """Return the page of a code as text.

    Parameters
    ----------
    code : str
        As a message has it: "KB2001", also in brackets, in small letters, or the number alone.

    Raises
    ------
    UnknownCode
        If there is no such code; the message lists those that are like it.

    Examples
    --------
    >>> from kernbridge._src.tools.error_pages import explain_code
    >>> print(explain_code("KB1008").splitlines()[0])
    KB1008: An output is never written
    """
    name = code_of(code)
    page = pages()[name]
    return f"{name}: {page.title}\n\nCause: {page.cause}\n\nRemedy: {page.remedy}"


def code_of(text: str) -> str:
    """Return the code that a text means, such as KB2001; UnknownCode is raised if there is none."""
    found = _CODE.fullmatch(text.strip())
    name = f"KB{found[1]}" if found else text
    if name not in pages():
        raise UnknownCode(_unknown(text, name))
    return name


def _unknown(code: str, name: str) -> str:
    close = difflib.get_close_matches(name, pages(), n=4, cutoff=0.6)
    listed = "".join(f"\n  {other}: {pages()[other].title}" for other in close)
    like = f"; codes that are like it:{listed}" if close else ""
    return f"there is no code {code!r}, expected one such as KB2001{like}"
