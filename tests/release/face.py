#!/usr/bin/env python3
"""The public names of kernbridge with their parameters, and what a version has lost of another's.

    face.py            prints what is lost of tests/python/data/face.json, and fails if anything is
    face.py --write    writes that file; a release does (docs/releasing.md)

docs/versioning.md says how a name may go; tests/python/test_versioning.py compares at each run.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "python" / "data" / "face.json"
MODULES = ("", ".benchmark", ".cache", ".config", ".errors", ".registry")

# Of each name its parameters, each with its kind and whether a call may leave it out; None for what
# is not called.
Parameters = dict[str, tuple[str, bool]] | None
Face = dict[str, Parameters]


def _parameters(value: Any) -> Parameters:
    try:
        given = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    # Arguments of exceptions are messages, which may change.
    if isinstance(value, type) and issubclass(value, BaseException):
        return None
    return {p.name: (p.kind.name, p.default is not p.empty) for p in given}


def face() -> Face:
    """Return the public names of this version, methods of classes included."""
    found: Face = {}
    for suffix in MODULES:
        module = importlib.import_module(f"kernbridge{suffix}")
        for name in getattr(module, "__all__", None) or _own(module):
            value = getattr(module, name)
            if inspect.ismodule(value):
                continue
            place = f"kernbridge{suffix}.{name}"
            found[place] = _parameters(value) if callable(value) else None
            if isinstance(value, type):
                for attribute in _attributes(value):
                    found[f"{place}.{attribute}"] = _parameters(getattr(value, attribute))
    return found


def _own(module: Any) -> list[str]:
    homes = (module.__name__, "kernbridge._core")
    return [n for n, v in vars(module).items() if getattr(v, "__module__", "") in homes]


def _attributes(of: type) -> list[str]:
    ours = [base for base in of.__mro__ if base.__module__.startswith("kernbridge")]
    return sorted({n for base in ours for n in vars(base) if not n.startswith("_")})


def lost(old: Face, new: Face) -> list[str]:
    """Return what a call that was right with the old names may stumble over with the new ones."""
    found = []
    for name, before in old.items():
        if name not in new:
            found.append(f"{name} is missing")
        elif before is not None:
            now = new[name]
            if now is None:
                found.append(f"{name} is not called any more")
            else:
                found += [f"{name}: {what}" for what in _lost_parameters(before, now)]
    return found


def _lost_parameters(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    found = []
    takes_any_name = any(kind == "VAR_KEYWORD" for kind, _ in new.values())
    for name, (kind, optional) in old.items():
        if name not in new:
            if not takes_any_name or kind.startswith("VAR"):
                found.append(f"parameter {name!r} is missing")
        elif kind != new[name][0] and new[name][0] != "POSITIONAL_OR_KEYWORD":
            found.append(f"parameter {name!r} was {kind}, and is {new[name][0]}")
        elif optional and not new[name][1]:
            found.append(f"parameter {name!r} could be left out")
    found += [
        f"parameter {name!r} is new, and cannot be left out"
        for name, (kind, optional) in new.items()
        if name not in old and not optional and not kind.startswith("VAR")
    ]
    places = [_by_position(each) for each in (old, new)]
    if places[1][: len(places[0])] != places[0]:
        found.append(f"by position it took {places[0]}, and takes {places[1]}")
    return found


def _by_position(parameters: dict[str, Any]) -> list[str]:
    return [name for name, (kind, _) in parameters.items() if kind.startswith("POSITIONAL")]


def main() -> None:
    """Write or compare."""
    if "--write" in sys.argv:
        lines = (f"{json.dumps(name)}: {json.dumps(given)}" for name, given in face().items())
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    else:
        sys.exit("\n".join(lost(json.loads(FILE.read_text()), face())) or 0)


if __name__ == "__main__":
    main()
