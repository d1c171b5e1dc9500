"""An operation: a kernel with its specification, called like a function.

A call goes straight to one jitted function; whatever is checked, is checked while that is traced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from kernbridge import _jax
from kernbridge._spec import ArrayType, Call, OperationSpec


class CheckedFrontend(_jax.Frontend, Protocol):
    """A front end that can check a call before anything is compiled."""

    name: str

    def check(
        self,
        inputs: Sequence[ArrayType],
        scalars: Mapping[str, ArrayType],
        outs: Sequence[ArrayType],
    ) -> None:
        """Raise TypeError or ValueError if the kernel cannot take these arguments."""
        ...


class Operation:
    """A kernel as a JAX operation.

    Calling it with the kernel's inputs gives the outputs as the pytree that `outs` is. It works
    under `jax.jit`, `jax.vmap`, `jax.lax.scan` and the other transformations of JAX.
    """

    __slots__ = ("__weakref__", "_frontend", "_jitted", "spec")

    def __init__(self, spec: OperationSpec, frontend: CheckedFrontend) -> None:
        self.spec = spec
        self._frontend = frontend
        self._jitted = jax.jit(_traced_call(spec, frontend), inline=True)

    def __call__(self, *inputs: Any, **scalars: Any) -> Any:
        try:
            return self._jitted(*inputs, **scalars)
        except TypeError:
            _refuse_non_arrays(self.spec.label, inputs, scalars)
            raise

    def __repr__(self) -> str:
        return f"<{self.spec.label}>"

    @property
    def __name__(self) -> str:
        return self._frontend.name


def _traced_call(spec: OperationSpec, frontend: CheckedFrontend) -> Any:
    def call(*inputs: Any, **scalars: Any) -> Any:
        _refuse_non_arrays(spec.label, inputs, scalars)
        names = tuple(sorted(scalars))
        operands = [_as_operand(x) for x in (*inputs, *(scalars[name] for name in names))]
        types = [_type_of(spec.label, i, x) for i, x in enumerate(operands)]
        input_types = types[: len(inputs)]
        scalar_types = dict(zip(names, types[len(inputs) :], strict=True))
        _refuse_non_scalars(spec.label, scalar_types)

        outputs = spec.outputs_for(input_types, scalar_types)
        frontend.check(input_types, scalar_types, outputs.types)
        spec.check_aliases(input_types, outputs.types)
        static = Call(
            outs=outputs.types,
            scalars=names,
            aliases=spec.aliases,
            vmap_method=spec.vmap_method,
            has_side_effect=spec.has_side_effect or not outputs.types,
        )
        return jax.tree.unflatten(outputs.tree, _jax.bind(frontend, static, operands))

    call.__name__ = call.__qualname__ = frontend.name
    return call


def _as_operand(value: Any) -> Any:
    return value if isinstance(value, jax.Array) else jnp.asarray(value)


def _type_of(label: str, index: int, operand: Any) -> ArrayType:
    aval = jax.typeof(operand)
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended):
        raise TypeError(
            f"{label}: input {index} has JAX's own dtype {aval.dtype}, which no kernel knows; "
            "pass its bits, for a random key jax.random.key_data(key)"
        )
    return ArrayType(aval.shape, np.dtype(aval.dtype))


def _is_operand(value: object) -> bool:
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        return not (isinstance(value, np.ndarray) and value.dtype.hasobject)
    return isinstance(value, (bool, int, float, complex)) or hasattr(value, "__jax_array__")


def _refuse_non_arrays(label: str, inputs: Sequence[Any], scalars: Mapping[str, Any]) -> None:
    named = [(f"input {i}", x) for i, x in enumerate(inputs)]
    named += [(f"keyword {name!r}", x) for name, x in scalars.items()]
    for place, value in named:
        if not _is_operand(value):
            raise TypeError(
                f"{label}: {place} is {value!r} of type {type(value).__name__}, expected an array "
                "or a scalar; convert it with jnp.asarray"
            )


def _refuse_non_scalars(label: str, scalars: Mapping[str, ArrayType]) -> None:
    for name, t in scalars.items():
        if t.shape:
            raise ValueError(
                f"{label}: keyword {name!r} is an array, {t}, expected a scalar; "
                "pass arrays as positional inputs"
            )
