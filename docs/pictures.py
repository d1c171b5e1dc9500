"""Draws the pictures of the gallery anew, and makes them small enough for a page.

    python docs/pictures.py                   # all that a machine without a GPU draws in a minute
    python docs/pictures.py microcircuit.png  # one of them; this one takes some minutes and 3 GB

Every program of `examples` writes its picture with 300 dpi, and as PDF. Pages get 1,400 pixels of
width and a palette.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).resolve().parent
EXAMPLES = DOCS.parent / "examples"
WIDTH, MOST_BYTES = 1400, 150_000
PALETTES = (256, 128, 64, 32, 16)  # colours; the most that are small enough are taken
COMMANDS = {
    "coba_raster.png": "coba.py --no-compare --raster",
    "digits.png": "digits.py --picture",
    "fit_neuron.png": "fit_neuron.py --picture",
    "heat.png": "heat.py --picture",
    "mandelbrot.png": "mandelbrot.py --picture",
    "nbody.png": "nbody.py --picture",
    "roofline.png": "roofline.py --picture",
    "microcircuit.png": "../studies/microcircuit.py --scale 1 --plan cpu --seconds 2 --check 0.01"
    " --figure",
}
SLOW = ("microcircuit.png",)


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
    chosen = sys.argv[1:] or [name for name in COMMANDS if name not in SLOW]
    if unknown := set(chosen) - set(COMMANDS):
        sys.exit(f"no picture is named {', '.join(unknown)}; there are {', '.join(COMMANDS)}")
    for name in chosen:
        program, *options = COMMANDS[name].split()
        with tempfile.TemporaryDirectory() as folder:
            drawn = Path(folder) / name
            command = [sys.executable, str(EXAMPLES / program), *options, str(drawn)]
            subprocess.run(command, check=True)
            shrink(drawn, DOCS / name)
        print(f"{name}: {(DOCS / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
