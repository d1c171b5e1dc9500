"""Makes notebooks of the programs of `examples`, and the pages of the gallery.

    python docs/notebooks.py  # writes docs/gallery/*.md

A program is the source of its page and of its notebook. Its docstring comes first, and each
function or class with what stands before it is one block. The notebook also runs the program, with
the options of `COMMANDS`, and shows its picture. A page keeps what its program printed when
`docs/pictures.py` ran it last.
"""

from __future__ import annotations

import ast
import base64
import inspect
import itertools
import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
GALLERY = DOCS / "gallery"
EXAMPLES = DOCS.parent / "examples"
COMMANDS = {
    "aftershocks.png": "aftershocks.py --picture",
    "coba_raster.png": "coba.py --no-compare --raster",
    "digits.png": "digits.py --picture",
    "encounter.png": "encounter.py --picture",
    "epidemic.png": "epidemic.py --picture",
    "fit_neuron.png": "fit_neuron.py --picture",
    "heat.png": "heat.py --picture",
    "mandelbrot.png": "mandelbrot.py --picture",
    "nbody.png": "nbody.py --picture",
    "roofline.png": "roofline.py --picture",
}
TITLES = {
    "aftershocks": "Aftershocks",
    "coba": "A spiking network",
    "digits": "Learning to read digits",
    "encounter": "An encounter of two galaxies",
    "epidemic": "An epidemic in a network",
    "fit_neuron": "A neuron fitted to a recording",
    "heat": "Heat in a plate",
    "mandelbrot": "The Mandelbrot set",
    "nbody": "A gradient through an orbit",
    "roofline": "A roofline",
}
PICTURES = {command.split(".py")[0]: name for name, command in COMMANDS.items()}


def about(name: str) -> tuple[str, str]:
    """The first line of a program's docstring, and the other lines."""
    source = (EXAMPLES / f"{name}.py").read_text()
    first, _, rest = inspect.cleandoc(ast.get_docstring(ast.parse(source)) or "").partition("\n")
    return first, rest.strip("\n").replace("\n[", "\n\n[")


def printed(name: str) -> str:
    """What a program printed last: the last block of its page."""
    return (GALLERY / f"{name}.md").read_text().rpartition("```text\n")[2].removesuffix("```\n")


def code_cells(name: str) -> list[str]:
    """The code of a program without its docstring and its last statement, which runs `main`."""
    source = (EXAMPLES / f"{name}.py").read_text()
    lines, body = source.splitlines(), ast.parse(source).body
    cells, begin = [], body[0].end_lineno or 0
    for statement, after in itertools.pairwise(body[1:]):
        is_last = isinstance(after, ast.If) and after is body[-1]
        if is_last or isinstance(statement, ast.FunctionDef | ast.ClassDef):
            cells.append("\n".join(lines[begin : statement.end_lineno]).strip())
            begin = statement.end_lineno or 0
    return [cell.replace("# mypy: allow-untyped-defs, allow-untyped-calls\n", "") for cell in cells]


def run_cell(name: str, *options: str, picture: str | None = None) -> str:
    """The cell that runs a program: by default with the options of the gallery's picture."""
    chosen = COMMANDS[PICTURES[name]].split()[1:]
    arguments = [*chosen[:-1], *options, chosen[-1], picture or PICTURES[name]]
    return f"assert main({arguments!r}) == 0".replace("'", '"')


def notebook(name: str) -> dict[str, Any]:
    """The notebook of a program, with its outputs, in version 4.5 of Jupyter's format."""
    title, text = about(name)
    run = 'Run this notebook in the folder `examples` of a clone, after `pip install ".[demo]"`.'
    text_cell = {"cell_type": "markdown", "metadata": {}, "source": f"# {title}\n\n{text}\n\n{run}"}
    image = base64.b64encode((DOCS / PICTURES[name]).read_bytes()).decode()
    shown = {"data": {"image/png": image}, "metadata": {}, "output_type": "display_data"}
    said = {"name": "stdout", "output_type": "stream", "text": printed(name)}
    show = f'from IPython.display import Image, display\n\ndisplay(Image("{PICTURES[name]}"))'
    sources = [*code_cells(name), run_cell(name), show]
    outputs: list[list[Any]] = [*([] for _ in sources[2:]), [said], [shown]]
    code = [
        {"cell_type": "code", "execution_count": i + 1, "metadata": {}, "source": s, "outputs": out}
        for i, (s, out) in enumerate(zip(sources, outputs, strict=True))
    ]
    kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
    return {
        "cells": [{"id": f"cell-{i}", **cell} for i, cell in enumerate([text_cell, *code])],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def page(name: str, said: str) -> str:
    """The page of a program that printed `said`, in plain Markdown."""
    title, text = about(name)
    text = re.sub(r"docs/([\w-]+)\.md", r"[\1](../\1.md)", text)
    code = "\n".join(f"```py\n{cell}\n```\n" for cell in code_cells(name))
    return (
        f"<!-- Written by docs/notebooks.py from examples/{name}.py -->\n"
        f"# {TITLES[name]}\n\n![{title}](../{PICTURES[name]})\n\n{title}\n\n{text}\n\n{code}\n"
        f"`python examples/{COMMANDS[PICTURES[name]]} {PICTURES[name]}` prints:\n\n"
        f"```text\n{said}```\n"
    )


def write_page(name: str, said: str) -> None:
    (GALLERY / f"{name}.md").write_text(page(name, said))


def write(folder: Path) -> None:
    """Write all notebooks to a folder."""
    for name in PICTURES:
        (folder / f"{name}.ipynb").write_text(json.dumps(notebook(name), indent=1))


if __name__ == "__main__":
    for program in PICTURES:
        write_page(program, printed(program))
