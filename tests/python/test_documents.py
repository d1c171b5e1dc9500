"""What the documents state about the code is true: output, environment variables, figures."""

import contextlib
import io
import os
import re
import sys
from pathlib import Path

import documents
import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import figures  # noqa: E402

pytestmark = pytest.mark.once
# The pages are about kernbridge with all its extensions (see tests/alone).
is_whole = pytest.mark.skipif("KERNBRIDGE_TEST_ALONE" in os.environ, reason="without extensions")
SHOWN = """
```python
print(1 + 1)  # 2
```
```python
for name in "ab":
    print(name, 0.25)
```

```text
a ...
b 0.25
```
```python
print("took", TIME)
```
<!-- figures vary -->
```text
took 12 ms
```
"""


def differences(text, time="3.5 us"):
    blocks = documents.blocks(text)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(documents.program(blocks), {"TIME": time})
    return "".join(documents.differences(blocks, printed.getvalue()))


def test_output_that_is_shown_is_the_output():
    assert len(documents.blocks(SHOWN)) == 3
    assert differences(SHOWN) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # 2", "  # 3"),
        ("  # 2", ""),
        ("b 0.25", "c 0.25"),
        ("a ...\n", ""),
        ("took 12", "in 12"),
    ],
)
def test_other_output_is_found(old, new):
    assert "the document shows" in differences(SHOWN.replace(old, new))


def test_output_without_a_text_block_is_found():
    assert "the document shows" in differences(SHOWN.replace("```text", "```", 1))


def read_variables():
    """The names of the environment variables in the sources, as strings of Python and C."""
    files = [f for folder in ("src", "python") for f in (ROOT / folder).rglob("*.[cph]*")]
    texts = [f.read_text() for f in files if f.suffix in (".c", ".h", ".py")]
    return {name for t in texts for name in re.findall(r'"((?:KERNBRIDGE|BRAINEVENT)_[A-Z_]+)"', t)}


@is_whole
def test_every_environment_variable_is_documented():
    page = (ROOT / "docs" / "environment.md").read_text()
    documented = set(re.findall(r"`((?:KERNBRIDGE|BRAINEVENT)_[A-Z_]+)", page))
    assert len(documented) > 15
    assert documented == read_variables()


@is_whole
@pytest.mark.parametrize(
    "what",
    [
        pytest.param(w, marks=pytest.mark.exhaustive) if w in figures.SLOW else w
        for w in figures.FIGURES
    ],
)
def test_there_are_as_many_tests_as_the_page_says(what):
    pytest.importorskip("numba_cuda", reason="the corpus needs Numba-CUDA")
    assert figures.stated().keys() == figures.FIGURES.keys()
    assert figures.FIGURES[what]() >= figures.stated()[what] > 0


def test_every_command_is_documented(capsys):
    from kernbridge import cli

    with pytest.raises(SystemExit):
        cli.main(["--help"])
    commands = re.search(r"\{([a-z,-]+)\}", capsys.readouterr().out)[1].split(",")
    page = (ROOT / "docs" / "command-line.md").read_text()
    assert set(re.findall(r"^\| `kernbridge ([a-z-]+)", page, re.M)) == set(commands)


# Code of other tools, and code that needs a GPU or files of a reader's own, is shown as `py`.
@pytest.mark.parametrize("document", sorted((ROOT / "docs").glob("*.md")), ids=lambda d: d.name)
def test_code_that_is_not_run_is_where_it_belongs(document):
    assert "```py\n" not in document.read_text() or document.name in ("moving.md", "ship.md")


def as_a_forge_shows(page):
    """The tokens of a page. Front matter, which forges show as a table, is a line and a heading."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page.read_text())
    return [inner for token in tokens for inner in (token, *(token.children or ()))]


def linked(page):
    """The files to which the links and pictures of a page lead."""
    for token in as_a_forge_shows(page):
        address = token.attrs.get("href") or token.attrs.get("src") or ""
        if address and not re.match("https?:|#", address):
            yield (page.parent / address.partition("#")[0]).resolve()


@is_whole
def test_pages_are_plain_markdown():
    """README and all that it leads to are whole without Sphinx: nothing is left to a directive."""
    pages, todo = set(), {ROOT / "README.md"}
    while todo:
        page = todo.pop()
        pages.add(page)
        for token in as_a_forge_shows(page):
            shown = token.content if token.type in ("text", "html_block") else ""
            assert not re.search(r":::|\{[a-z:-]+\}$", shown), f"{page}: {shown}"
            assert "{" not in token.info, f"{page}: {token.info}"
            assert token.type != "hr", f"{page}: front matter, or a line"
        found = set(linked(page))
        assert not {file for file in found if not file.exists()}, page
        todo |= {file for file in found if file.suffix == ".md"} - pages
    assert {ROOT / "docs" / name for name in ("index.md", "gallery/heat.md")} <= pages
    assert pages >= set((ROOT / "docs").rglob("*.md")), "a page that no link leads to"
