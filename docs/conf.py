"""How Sphinx builds the documentation: `make docs`.

Besides what Sphinx warns of, it is a warning here when a public name of Python or a public header
is on no page, so that the reference stays complete.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[1]
MODULES = ("", ".config", ".cache", ".benchmark", ".errors", ".registry", ".compat.brainevent")

project = "kernbridge"
author = "the authors of kernbridge"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "kernbridge"
myst_heading_anchors = 4
highlight_language = "none"  # of indented blocks, which are commands and output
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
default_role = "code"
autodoc_typehints = "none"  # the docstrings name the types
autodoc_default_options = {"show-inheritance": False}
autodoc_member_order = "bysource"


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
        if header not in included:
            log.warning("%s is on no page of the reference", header.relative_to(ROOT))


def setup(app: Sphinx) -> None:
    app.connect("env-check-consistency", check_that_the_reference_is_complete)
