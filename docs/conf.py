"""How Sphinx builds the documentation: `make docs`.

Besides what Sphinx warns of, it is a warning here when a public name of Python or a public header
is on no page, so that the reference stays complete.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import sys
import tempfile
import tomllib
import zlib
from pathlib import Path
from typing import Any

import kernbridge
from docutils import nodes
from docutils.parsers.rst.states import Inliner
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.roles import XRefRole
from sphinx.util import logging

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))
import notebooks  # noqa: E402  # beside this file

KEYWORDS = {
    page: " ".join(words.split())
    for page, words in tomllib.loads((DOCS / "keywords.toml").read_text()).items()
}
MODULES = ("", ".config", ".cache", ".benchmark", ".errors", ".registry", ".compat.brainevent")

project = "kernbridge"
author = "the authors of kernbridge"
version = release = kernbridge.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinxext.opengraph",
]
html_theme = "furo"
html_title = f"kernbridge {version}"
html_static_path = ["_static"]
html_css_files = ["kernbridge.css"]
html_favicon = "_static/icon.svg"
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
# The address of the sources, where there is one: for lines that clone them, and, on a forge whose
# addresses the theme knows, for the links "edit this page".
REPOSITORY = os.environ.get("KERNBRIDGE_REPOSITORY", "")
if re.match(r"https://(github\.com|gitlab\.com|bitbucket\.org)/", REPOSITORY):
    html_theme_options |= {
        "source_repository": REPOSITORY,
        "source_branch": "main",
        "source_directory": "docs/",
    }
ogp_site_name = "kernbridge"
ogp_site_url = os.environ.get("KERNBRIDGE_SITE", "/")  # the address of the site
ogp_image = "_images/coba_raster.png"
ogp_social_cards = {"enable": False}
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
myst_heading_anchors = 4
highlight_language = "none"  # of indented blocks, which are commands and output
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # names that share a description stay together
napoleon_use_ivar = True
default_role = "name"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
autodoc_default_options = {"show-inheritance": False}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # such as FROM_SIGNATURE


# Names of JAX and Numba that docstrings and signatures refer to. The build needs no network, so
# their pages are listed here, instead of being read from the sites.
_JAX, _NUMBA = "https://docs.jax.dev/en/latest/", "https://numba.readthedocs.io/en/stable/"
_OF_JAX = ["Array", "ShapeDtypeStruct", "grad", "jit", "jvp", "shard_map", "vjp", "vmap"]
_OF_JAX += ["lax.cond", "lax.scan", "nn.gelu"]
INVENTORIES = {
    _JAX: {f"jax.{name}": f"_autosummary/jax.{name}.html#jax.{name}" for name in _OF_JAX},
    _NUMBA: {
        "numba.njit": "user/jit.html",
        "numba.vectorize": "user/vectorize.html",
        "numba.guvectorize": "user/vectorize.html#the-guvectorize-decorator",
    },
}


def _inventory(names: dict[str, str], path: Path) -> str:
    """Write the file in which Sphinx looks up the pages of names."""
    head = "# Sphinx inventory version 2\n# Project: other\n# Version: 0\n# zlib\n"
    lines = "".join(f"{name} py:function 1 {page} -\n" for name, page in names.items())
    path.write_bytes(head.encode() + zlib.compress(lines.encode()))
    return str(path)


_WRITTEN = Path(tempfile.mkdtemp())
intersphinx_mapping = {
    name: (site, _inventory(INVENTORIES[site], _WRITTEN / name))
    for name, site in (("jax", _JAX), ("numba", _NUMBA))
}


def _find(name: str) -> Any:
    """Return the object that a documented name stands for, or None."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:n]))
        except ImportError:
            continue
        for part in parts[n:]:
            found = getattr(found, part, None)
        return found
    return None


def _public() -> list[str]:
    names = []
    for module in (f"kernbridge{name}" for name in MODULES):
        found = importlib.import_module(module)
        own = [n for n, v in vars(found).items() if getattr(v, "__module__", "") == module]
        listed = [*getattr(found, "__all__", own), *getattr(found, "_MODULE_OF", ())]
        names += [f"{module}.{n}" for n in listed if n[0] != "_"]
    return names


def options() -> dict[str, list[str]]:
    """Return each option of public functions and methods, with the names of these."""
    taken: dict[str, list[str]] = {}
    for name in _public():
        found = _find(name)
        if not callable(found):
            continue
        members = vars(found).items() if isinstance(found, type) else ()
        methods = {f"{name}.{n}": f for n, f in members if callable(f) and n[0] != "_"}
        for function, value in {name: found, **methods}.items():
            try:
                parameters = inspect.signature(value).parameters.values()
            except (TypeError, ValueError):  # of C, or of an exception
                continue
            for p in parameters:
                if p.name[0] != "_" and (p.default is not p.empty or p.kind is p.KEYWORD_ONLY):
                    taken.setdefault(p.name, []).append(function)
    return taken


def _scorer() -> str:
    """Write the script that orders search results, with the keywords of pages and the options."""
    script = _WRITTEN / "scorer.js"
    rules = (DOCS / "_static" / "scorer.js").read_text()
    tables = {"KEYWORDS": KEYWORDS, "OPTIONS": options()}
    lines = [f"const {name} = {json.dumps(table)};\n" for name, table in tables.items()]
    script.write_text("".join(lines) + rules)
    return str(script)


html_search_scorer = _scorer()


def check_that_the_reference_is_complete(app: Sphinx, environment: BuildEnvironment) -> None:
    """Warn of each public name and header that no page describes."""
    log = logging.getLogger(__name__)
    documented = {id(_find(name)) for name in environment.domains["py"].objects}
    for name in _public():
        if id(_find(name)) not in documented:
            log.warning("%s is on no page of the reference", name)
    included = {
        (Path(app.srcdir) / path).resolve()
        for paths in environment.dependencies.values()
        for path in paths
    }
    for header in sorted((ROOT / "include").rglob("*.h*")):
        if header not in included and "emulator" not in header.parts:  # stand-ins of CUDA's
            log.warning("%s is on no page of the reference", header.relative_to(ROOT))


def name_role(
    name: str, source: str, text: str, line: int, inliner: Inliner, *options: Any
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Text between single backquotes in a docstring: a link if it is a public or a known name."""
    known = any(text in names for names in INVENTORIES.values())
    if known or (text not in PARAMETERS and _PUBLIC_NAME.fullmatch(text)):
        target = text if known or "." in text else f"{text} <kernbridge.{text}>"
        return XRefRole()("py:obj", source, target, line, inliner)
    return [nodes.literal(source, text)], []


_PUBLIC_NAME = re.compile(rf"(?:kernbridge\.)?(?:{'|'.join(kernbridge.__all__)})(?:\.\w+)?")
PARAMETERS = (
    "kernel",
    "cache",
    "config",
    "errors",
)  # that are names of parameters and modules, too


def link_pages(app: Sphinx, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    """Make links of the pages that a docstring names, such as `docs/checks.md`."""
    lines[:] = [re.sub(r"`*docs/([\w-]+)\.md`*", r":doc:`/\1`", line) for line in lines]


# The files read well as plain Markdown, and the site adds what only Sphinx has words for: its trees
# of pages, the docstrings of names, the text of headers, keywords, and how to get the sources and
# notebooks.
LISTS = {  # pages whose lists of links are trees, and how the names of their pages begin
    "index": "",
    "gallery": "gallery/",
    "contributing": "",
    "design/README": "0",
    "reference/python": "",
    "reference/headers": "headers",
}
_MODULE = re.compile(r"^(#+ (kernbridge\.[\w.]+))$", re.M)
_NAME = re.compile(r"^- \[`(kernbridge\.[\w.]+)`\]\(.*\)$", re.M)
_HEADER = re.compile(r"^- \[([\w./]+)\]\((.*\.(?:h|hpp))\)$", re.M)


def _directive(line: str, *options: str) -> str:
    return "\n".join(["```{eval-rst}", f".. {line}", *(f"   :{o}:" for o in options), "```"])


def _documented(match: re.Match[str]) -> str:
    found = _find(match[1])
    if not isinstance(found, type):
        return _directive(f"autofunction:: {match[1]}")
    kind = "exception" if issubclass(found, BaseException) else "class"
    options = [] if match[1] == "kernbridge.InlinedFunction" else ["members"]  # for front ends
    return _directive(f"auto{kind}:: {match[1]}", *options)


def _trees(page: str, text: str) -> str:
    """What makes trees of the lists of a page: of the index, one for each heading."""
    entry = re.compile(rf"^(?:-|\d+\.|) +\[.+\]\(({LISTS[page]}[\w/-]+)\.md\)", re.M)
    trees = []
    for section in re.split("^## ", text, flags=re.M):
        caption = f":caption: {section.partition(chr(10))[0]}\n" if page == "index" else ""
        if listed := "\n".join(dict.fromkeys(entry.findall(section))):
            trees.append(f"```{{toctree}}\n{caption}:hidden:\n\n{listed}\n```\n")
    return "\n".join(trees)


def add(app: Sphinx, page: str, source: list[str]) -> None:
    """Add to the text of a page, before it is parsed, what the site shows beyond it."""
    text = source[0]
    if page == "changelog":
        text = "```{include} ../CHANGELOG.md\n:relative-docs: docs/\n```\n"
    elif page.startswith("reference/"):
        text = _MODULE.sub(lambda m: f"{m[1]}\n\n{_directive(f'automodule:: {m[2]}')}", text)
        text = _NAME.sub(_documented, text)
        text = _HEADER.sub(r"## \1\n\n```{literalinclude} \2\n:language: cpp\n```\n", text)
        if page == "reference/python":
            text += "\n" + _directive("module:: kernbridge") + "\n"
    elif page.startswith("gallery/"):
        name = page.removeprefix("gallery/")
        link = f'<a class="download" href="{name}.ipynb">Open it as a notebook</a>'
        text = re.sub(r"^# .+\n", rf"\g<0>\n{link}\n", text, count=1, flags=re.M)
    if REPOSITORY:
        clone = f"    git clone {REPOSITORY} kernbridge && cd kernbridge\n"
        text = text.replace("    python3 -m venv", f"{clone}    python3 -m venv")
    if page in LISTS:
        text += "\n" + _trees(page, source[0])
    if page in KEYWORDS:
        text = f"---\nmyst:\n  html_meta:\n    keywords: {KEYWORDS[page]}\n---\n\n{text}"
    source[0] = text


def write_files(app: Sphinx, error: Exception | None) -> None:
    """Write the notebooks, and a page for each code, errors/KB2001.html, that leads to its text."""
    if error or app.builder.name != "html":
        return
    notebooks.write(Path(app.outdir) / "gallery")
    folder = Path(app.outdir) / "errors"
    folder.mkdir(exist_ok=True)
    codes = tomllib.loads((ROOT / "python/kernbridge/_src/base/codes.toml").read_text())
    for code, page in codes.items():
        to = "../errors.html#" + nodes.make_id(f"{code}: {page['title']}")
        (folder / f"{code}.html").write_text(
            f'<!doctype html><title>{code}</title><meta http-equiv="refresh" content="0; url={to}">'
            f'<meta name="robots" content="noindex"><a href="{to}">{code}</a>\n'
        )


def setup(app: Sphinx) -> None:
    app.add_role("name", name_role)
    app.connect("autodoc-process-docstring", link_pages)
    app.connect("source-read", add)
    app.connect("build-finished", write_files)
    app.connect("env-check-consistency", check_that_the_reference_is_complete)
