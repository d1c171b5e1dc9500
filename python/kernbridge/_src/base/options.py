"""Checks of the keywords, flags and sequences that public functions are called with.

What a function takes is read from its signature and its annotations, so that all of them are
checked in the same way. The checks run when a kernel is wrapped, not when an operation is called.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np


class Options:
    """What the options of one public function have to be."""

    def __init__(self, function: Callable[..., Any], label: str = "") -> None:
        self._function = function
        self._label = label or function.__qualname__.removesuffix(".__init__")
        is_setting = function.__module__ == "kernbridge.config"
        self._code = "KB5105" if self._label.startswith("load_") else "KB1005"
        if is_setting or self._label.startswith("cuda_on_cpu"):
            self._code = "KB8001"
        self._names = function.__code__.co_varnames[: function.__code__.co_argcount]
        annotations = function.__annotations__.items()
        self._flags = {n: "None" in a for n, a in annotations if a in ("bool", "bool | None")}
        several = ("Sequence[", "str | Sequence[")
        self._sequences = {n: a for n, a in annotations if a.startswith(several)}
        self._functions = {n for n, a in annotations if a == "Callable[..., Any]"}

    def check(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuse what is no bool, no sequence or no function where one of them is expected."""
        for name, value in (*zip(self._names, args, strict=False), *kwargs.items()):
            if name in self._flags:
                fits, none = isinstance(value, (bool, np.bool_)), self._flags[name]
                expected = "True, False or None" if none else "True or False"
            elif name in self._sequences:
                kind, is_text = self._sequences[name], isinstance(value, (str, bytes))
                fits = isinstance(value, Iterable) and not (is_text and kind[0] == "S")
                none, expected = "None" in kind, "a text or a list" if kind[0] == "s" else "a list"
                expected += f"; write [{value!r}]" if is_text else " or a tuple"
            elif name in self._functions:
                fits, none, expected = callable(value), False, "a function"
            else:
                continue
            if not fits and not (none and value is None):
                label, code = self._named(args, kwargs), self._code
                code = "KB1001" if name == "func" else code  # what is wrapped
                raise TypeError(f"{label}: {name} is {value!r}, expected {expected} [{code}]")

    def _named(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> str:
        """Return the function's name, and the name of the kernel that it is given."""
        given = dict(zip(self._names, args, strict=False)) | dict(kwargs)
        own = getattr(given.get("self"), "name", None)
        for value in (given.get("name"), given.get("kernel"), given.get("func"), own):
            name = getattr(getattr(value, "py_func", value), "__name__", value)
            if isinstance(name, str):
                return f"{self._label} {name!r}"
        return self._label

    def misfit(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return why the signature does not take these arguments; empty if it does."""
        signature = inspect.signature(self._function)
        parameters = [p for n, p in signature.parameters.items() if n != "self"]
        names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        for name in kwargs if len(names) == len(parameters) else ():
            if name not in names:
                return unknown(self._named(args, kwargs), name, names, self._code)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as e:
            first = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
            called = ", ".join([*first, "..."] if len(first) < len(parameters) else first)
            label = self._named(args, kwargs)
            return f"{label}: {e}; it is called as {self._label}({called}) [{self._code}]"
        return ""


def read_flag(label: str, name: str, value: Any) -> bool:
    """Return a flag of a function that is called too often for `Options`, or refuse it."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{label}: {name} is {value!r}, expected True or False [KB1005]")
    return bool(value)


def unknown(label: str, name: str, known: Iterable[str], code: str) -> str:
    """Return the message about a keyword that a function does not have."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, 1, 0.75)
    hint = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(known)}"
    return f"{label}: unknown option {name!r}; {hint} [{code}]"
