"""Finds the operation that `kernbridge inspect` is called for, and its calls."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from kernbridge._src.cuda_kernel.kernel import CudaKernel
from kernbridge._src.operation.inspection import Inspection
from kernbridge._src.operation.operation import Operation, TracedCall, traced_calls
from kernbridge._src.operation.spec import ArrayType, Call
from kernbridge._src.source.frontend import Export
from kernbridge._src.tools import imports
from kernbridge._src.tools.inspected_source import export_of
from kernbridge._src.tools.printing import CommandError

NothingThere = imports.NothingThere
Arguments = tuple[list[Any], dict[str, Any]]  # by position, and by name

_COMMA = re.compile(r",(?![^\[]*\])")  # none within the brackets of a shape
_ARGUMENT = re.compile(
    r"(?:(?P<name>[^\W\d]\w*)\s*=\s*)?"
    r"(?:(?P<dtype>[a-z]\w*)(?:\[(?P<shape>[\d\s,]*)\])?|(?P<value>[^\[\]]+))"
)


def read_arguments(text: str) -> Arguments:
    """Read "float32[8, 4], int32, alpha=0.5", or raise ValueError; a dtype alone is a scalar."""
    inputs: list[Any] = []
    named: dict[str, Any] = {}
    for part in filter(None, map(str.strip, _COMMA.split(text))):
        match = _ARGUMENT.fullmatch(part)
        if match is None:
            raise ValueError(_nonsense(part))
        value = _value(part, match)
        if match["name"]:
            named[match["name"]] = value
        elif named:
            raise ValueError(f"--args: {part!r} has no name, but follows an argument with a name")
        else:
            inputs.append(value)
    return inputs, named


def _value(part: str, match: re.Match[str]) -> Any:
    try:
        if match["value"]:
            value = ast.literal_eval(match["value"])
            if isinstance(value, (bool, int, float, complex)):
                return value
        else:
            shape = tuple(int(n) for n in (match["shape"] or "").split(",") if n.strip())
            return jax.ShapeDtypeStruct(shape, jnp.dtype(match["dtype"]))
    except (TypeError, ValueError, SyntaxError):
        pass
    raise ValueError(_nonsense(part))


def _nonsense(part: str) -> str:
    return (
        f"--args: {part!r} is neither an array such as 'float32[1024, 8]', nor a scalar such as "
        "'int32', 'alpha=float32' or 'n=3'"
    )


def find(target: str) -> tuple[Operation | CudaKernel | Export, list[TracedCall]]:
    """Import "module:op"; return the operation, and the calls that were traced meanwhile.

    Of a function from source, what its library exports is returned.

    NothingThere is raised if there is no module or no such name; what the module raises is raised.
    """
    module_name, colon, name = target.rpartition(":")
    if not colon or not module_name or not name:
        raise NothingThere(f"expected module:op or file.py:op, got {target!r}")
    with traced_calls() as traced:
        found: Any = imports.load(module_name)
        try:
            found = functools.reduce(getattr, name.split("."), found)
        except AttributeError as e:
            raise NothingThere(f"{module_name} has no operation {name!r}: {e}") from None
    return export_of(found) or _operation(target, found), traced


def calls(
    target: str,
    operation: Operation | CudaKernel,
    traced: Sequence[TracedCall],
    given: Arguments | None,
) -> list[tuple[str, tuple[Inspection, ...]]]:
    """Inspect an operation for these arguments, or for those of its calls that were traced.

    Each call is a text, which describes its arguments, and its kernels.
    """
    if given is not None:
        inputs, named = given
        texts = [*map(_described, inputs), *(f"{n}={_described(v)}" for n, v in named.items())]
        return [(", ".join(texts), operation.inspect(*inputs, **named))]
    its = [(f, types, call) for f, types, call in traced if _belongs(f, operation)]
    if not its:
        raise CommandError(
            f"{target} was not called when its module was imported, so the shapes of its inputs "
            f"are not known; pass --args 'float32[1024], ...'{_parameters(operation)}"
        )
    distinct = {(types, call): frontend for frontend, types, call in its}
    return [
        (_of_call(types, call), frontend.inspect(types, call))
        for (types, call), frontend in distinct.items()
    ]


def _operation(target: str, value: Any) -> Operation | CudaKernel:
    """The operation that a value is, or that `jax.jit` or another decorator wraps."""
    found = inspect.unwrap(value, stop=lambda f: isinstance(f, (Operation, CudaKernel)))
    if isinstance(found, (Operation, CudaKernel)):
        return found
    kind = type(value).__name__
    hint = "inspect an operation, as numba_kernel or cuda_kernel returns it"
    if "Dispatcher" in kind:
        hint = "decorate it with @kernbridge.kernel(outs=...), or wrap it with numba_kernel"
    elif kind == "CompiledModule":
        hint = f"inspect one of its functions: {', '.join(value.function_names)}"
    elif kind == "XLACustomKernel":
        hint = "it chooses among backends; inspect the operation of one of them"
    raise CommandError(f"{target} is a {kind}, which has no kernel to inspect; {hint}")


def _belongs(frontend: Any, operation: Operation | CudaKernel) -> bool:
    if isinstance(operation, CudaKernel):
        return getattr(frontend, "description", None) is operation._description
    return frontend is operation._frontend


def _parameters(operation: Operation | CudaKernel) -> str:
    """Which parameters its kernel has, as far as they are known."""
    if isinstance(operation, Operation) and operation._frontend.parameter_names:
        return f" (the kernel's parameters: {', '.join(operation._frontend.parameter_names)})"
    return ""


def _of_call(types: Sequence[ArrayType], call: Call) -> str:
    inputs = [_described(t) for t in types[: call.n_inputs]]
    named = zip(call.scalars, types[call.n_inputs :], strict=True)
    return ", ".join((*inputs, *(f"{name}={_described(t)}" for name, t in named)))


def _described(value: Any) -> str:
    if not hasattr(value, "dtype"):
        return repr(value)
    shape: Iterable[Any] = value.shape
    extents = ", ".join(map(str, shape))
    return f"{jnp.dtype(value.dtype).name}[{extents}]" if extents else jnp.dtype(value.dtype).name
