"""Draws the pictures of the gallery anew, and makes them small enough for a page.

    python docs/pictures.py                   # all that a machine without a GPU draws in a minute
    python docs/pictures.py microcircuit.png  # one of them; this one takes some minutes and 3 GB

Every program of `examples` writes its picture with 300 dpi, and as PDF. Pages get 1,400 pixels of
width and a palette, and what the program printed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from notebooks import COMMANDS, DOCS, EXAMPLES, write_page
from PIL import Image

WIDTH, MOST_BYTES = 1400, 150_000
PALETTES = (256, 128, 64, 32, 16)  # colours; the most that are small enough are taken
SLOW = {
    "stdp.png": "../docs/story.py",  # of docs/story.md
    "microcircuit.png": "../studies/microcircuit.py --scale 1 --plan cpu --seconds 2 --check 0.01"
    " --figure",
}


def shrink(drawn: Path, small: Path) -> None:
    with Image.open(drawn) as image:
        height = round(image.height * WIDTH / image.width)
        scaled = image.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS)
    for colours in PALETTES:
        scaled.quantize(colours, dither=Image.Dither.NONE).save(small, optimize=True)
        if small.stat().st_size <= MOST_BYTES:
            return
    raise SystemExit(f"{small.name} has {small.stat().st_size:,} bytes, more than {MOST_BYTES:,}")


def main() -> None:
    commands = COMMANDS | SLOW
    chosen = sys.argv[1:] or list(COMMANDS)
    if unknown := set(chosen) - set(commands):
        sys.exit(f"no picture is named {', '.join(unknown)}; there are {', '.join(commands)}")
    for name in chosen:
        program, *options = commands[name].split()
        with tempfile.TemporaryDirectory() as folder:
            drawn = Path(folder) / name
            command = [sys.executable, str(EXAMPLES / program), *options, str(drawn)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            shrink(drawn, DOCS / name)
        if name in COMMANDS:
            write_page(Path(program).stem, done.stdout.replace(f"{folder}/", ""))
        print(f"{name}: {(DOCS / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
