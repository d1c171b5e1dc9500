"""The signature of a function whose annotations are types of jaxtyping."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection
from typing import Any

from kernbridge._src.signatures.array_types import ANY


def annotated(
    label: str, function: Callable[..., Any], returns: bool, static: Collection[str]
) -> str | None:
    """The signature that annotations of jaxtyping describe; None if there are none.

    If a function returns nothing, its annotation for what it returns describes the parameters
    without annotations, which are its outputs.
    """
    if not getattr(function, "__annotations__", None):
        return None
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # of annotations that are no types, or that name what is not imported
        return None
    result = hints.pop("return", None)
    results = typing.get_args(result) if typing.get_origin(result) is tuple else (result,)
    if not all(map(_is_array, results)):
        if result is None and not returns and any(map(_is_array, hints.values())):
            raise TypeError(
                f"{label}: its annotations do not say which parameters are outputs; write the type "
                'of the output after the parameters, as in -> Float32[Array, "n"], and none at the '
                "output's own parameter [KB1010]"
            )
        return None
    names = [name for name in inspect.signature(function).parameters if name not in static]
    inputs = [name for name in names if returns or name in hints]
    outputs = [f"{name}: " for name in names if name not in inputs]
    if not returns and len(outputs) != len(results):
        raise TypeError(
            f"{label}: it has {len(outputs)} parameters without an annotation, which are its "
            f"outputs, but the annotation of what it returns describes {len(results)} [KB1010]"
        )
    try:
        left = [f"{name}: {_type(name, hints.get(name))}" for name in inputs]
        right = [_type("result", one) for one in results]
    except ValueError as e:
        raise ValueError(f"{label}: {e} [KB1010]") from None
    named = map("".join, zip(outputs, right, strict=True)) if outputs else right
    return f"{', '.join(left)} -> {', '.join(named)}"


def _is_array(annotation: Any) -> bool:
    return hasattr(annotation, "dim_str") and hasattr(annotation, "dtypes")


def _type(name: str, annotation: Any) -> str:
    """A type of jaxtyping in the notation of signatures; other annotations say nothing."""
    if not _is_array(annotation):
        return ANY
    dims = []
    for i, dim in enumerate(annotation.dim_str.split()):
        if set(dim) & {"#", "?"}:
            raise ValueError(
                f"the annotation of {name!r} has the dimension {dim!r}; arrays of a kernel are not "
                "broadcast: write its extent"
            )
        known = "..." if dim.startswith(("*", "...")) else dim.rpartition("=")[2]
        dims.append(f"_{name}{i}" if known == "_" else known)
    dtypes = annotation.dtypes
    dtype = dtypes[0] if isinstance(dtypes, (tuple, list)) and dtypes else ""
    if not dtype or (len(dtypes) > 1 and dtype != "bool"):
        dtype = annotation.dtype.__name__  # such as Float: one dtype in all arrays of a call
    return f"{dtype}[{', '.join(dims)}]"
