"""`kernbridge.kernel`: the decorator that finds out which kind of function of Numba it has."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Literal, TypedDict, Unpack

from kernbridge._src.base.options import unknown
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.numba_common.kinds import kind_of, refusal
from kernbridge._src.numba_common.parameters import seems_to_return
from kernbridge._src.numba_cpu.kernel import numba_kernel
from kernbridge._src.numba_cpu.returning import OPTIONS, returning
from kernbridge._src.operation.operation import Operation
from kernbridge._src.operation.spec import FROM_SIGNATURE
from kernbridge._src.sharding.rule import ShardingRule
from kernbridge._src.signatures.annotations import annotated
from kernbridge._src.signatures.call_signature import ResultsOf


class KernelOptions(TypedDict, total=False):
    """The options of `numba_kernel` and of `numba_cuda_kernel`."""

    name: str | None
    signature: str | None
    inplace: str | None
    grid: Any
    block: Any
    launch_dims: Any
    threads_per_block: int | tuple[int, ...] | str
    shared_mem: int
    vmap_method: str | None
    vmap_threads: bool | None
    input_output_aliases: Mapping[int, int] | None
    cooperative: bool
    cluster: int | tuple[int, ...] | None
    pdl: bool
    has_side_effect: bool
    half_as_bits: bool
    zero_outputs: bool
    vector_math: bool | None
    view: Mapping[str | int, Any] | None
    static: Mapping[str, Any] | None
    check: bool
    jvp: Callable[..., Any] | Literal["enzyme"] | None
    vjp: Callable[..., Any] | Literal["enzyme"] | None
    derivatives: Literal["enzyme"] | None
    linear: str | Sequence[str]
    sharding_rule: str | ShardingRule | bool | None


@hides_frames
def kernel(outs: Any = None, **options: Unpack[KernelOptions]) -> Any:
    """Turn a function of Numba into a JAX operation (a decorator).

    What the function is decides what the operation does. The name then refers to the operation.

    - A ``@numba.njit`` function that writes into its last parameters is a kernel of `numba_kernel`,
      and needs `outs`.
    - A ``@numba.njit`` function that returns an array, a number or a tuple of them is called with
      the arrays of the call, and with numbers for 0-d arrays. Numba infers the dtypes and ranks of
      what it returns. The shapes of returned arrays come from one call on zeros (and on ones, if
      that fails or returns nothing) when a call is first traced; another shape later is an error.
    - Annotations of jaxtyping are the signature of either, if there is no other; parameters
      without one are then the outputs, which the annotation after ``->`` describes.
    - ``@numba.vectorize`` makes what `elementwise` makes.
    - ``@numba.guvectorize`` functions take the arrays of their layout; further axes in front are
      broadcast and looped over, as NumPy does. It declares the dtypes.
    - ``@numba.cuda.jit`` (of Numba-CUDA or numba-cuda-mlir) makes what `numba_cuda_kernel` makes.

    Parameters
    ----------
    outs : str, pytree of jax.ShapeDtypeStruct, or a function, optional
        The signature, or shape and dtype of each output; see `numba_kernel`. It is left out for
        functions that return values, or else is a function of all their parameters, which replaces
        the call on zeros. For ``@numba.guvectorize`` it describes the arrays of one call, and is
        needed only if no types are declared.
    name, signature, inplace, vmap_method, input_output_aliases, has_side_effect, zero_outputs, \
static, check, jvp, vjp, derivatives, linear, sharding_rule
        See `numba_kernel`.
    vector_math
        See both functions.
    vmap_threads, half_as_bits
        For kernels on CPUs only; see `numba_kernel`.
    grid, block, launch_dims, threads_per_block, shared_mem, cooperative, cluster, pdl, view
        For kernels of ``@numba.cuda.jit`` only; see `numba_cuda_kernel`.

    Returns
    -------
    function or Operation
        A decorator that takes the function and returns the `Operation`, or, if the decorator is
        written without parentheses, the `Operation` itself. The operation has the function's name,
        module and docstring, and is pickled by its name. Its attribute ``__wrapped__`` is the
        function, which kernels can call and which Numba can launch.

    Raises
    ------
    TypeError
        If an option is unknown or applies only to the other kind of kernel, or if the decorated
        object is not a Numba kernel: the decorator that compiles it determines where it runs.
    ImportError, ValueError
        See `numba_kernel` and `numba_cuda_kernel`.

    Examples
    --------
    >>> import jax.numpy as jnp, numba, kernbridge
    >>> @kernbridge.kernel("x: f32[n], y: f32[n] -> f32[n]")
    ... @numba.njit
    ... def add(x, y, out):
    ...     for i in range(out.size):
    ...         out[i] = x[i] + y[i]
    >>> add(jnp.arange(3.0), jnp.ones(3))
    Array([1., 2., 3.], dtype=float32)
    >>> @kernbridge.kernel
    ... @numba.njit
    ... def scaled(x):
    ...     return x / x.sum()
    >>> scaled(jnp.ones(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    if options.get("signature", "") is None:
        options.pop("signature")
    if isinstance(outs, str) and "signature" not in options:
        outs, options = FROM_SIGNATURE, {"signature": outs, **options}
    elif outs is None and options.keys() & {"signature", "inplace"}:
        outs = FROM_SIGNATURE
    for name in options:
        if name not in KernelOptions.__optional_keys__:
            raise TypeError(unknown("kernel", name, KernelOptions.__optional_keys__, "KB1005"))

    is_bare = kind_of(outs) in _FRONT_ENDS  # written without parentheses
    described = None if is_bare else outs

    @hides_frames
    def decorate(kernel: Any = None, *others: Any, **named: Any) -> Operation:
        front_end = None if others or named else _FRONT_ENDS.get(kind_of(kernel))
        if front_end is None:
            # Until this call, a function under @kernel without parentheses looked like `outs`.
            is_kernel = isinstance(described, FunctionType) and described.__name__ != "<lambda>"
            raise refusal("kernel", described if is_kernel and not callable(kernel) else kernel)
        outs, given = described, dict[str, Any](options)
        label = f"kernel {options.get('name') or _name(kernel)!r}"
        is_function = front_end == "numba_kernel" and seems_to_return(kernel.py_func.__code__)
        static = given.get("static") or ()
        if described is None and "signature" not in given and "py_func" in dir(kernel):
            text = annotated(label, kernel.py_func, is_function, static)
            if text is not None:
                given["signature"], outs = text, FROM_SIGNATURE
        results = None
        if is_function and "signature" in given:
            # A kernel that fills its outputs may also return something, as a lambda does.
            parameters = inspect.signature(kernel.py_func).parameters
            names = [name for name in parameters if name not in static]
            optional = {n for n in names if parameters[n].default is not inspect.Parameter.empty}
            results = ResultsOf.read(label, given["signature"], names, optional)
        if results is None:
            kind = _kind_of(front_end, kernel, outs, is_function)
        else:
            kind, outs = "arrays", results
            del given["signature"]
        function: Callable[..., Operation] = numba_kernel
        if front_end == "numba_cuda_kernel":
            from kernbridge._src.numba_cuda.kernel import numba_cuda_kernel as function
        known = OPTIONS if kind else inspect.signature(function).parameters
        for name in given:
            if name not in known:
                is_of_cpus = name in inspect.signature(numba_kernel).parameters
                raise TypeError(
                    f"kernel {_name(kernel)!r}: {name} is an option of "
                    f"numba{'' if is_of_cpus else '_cuda'}_kernel; {_REMEDIES[front_end]} [KB1005]"
                )
        return returning(kind, kernel, outs, given) if kind else function(kernel, outs, **given)

    return decorate(outs) if is_bare else _DecoratorClass(decorate)


# Decorators of Numba above @kernel refuse an object of this class, and show its name.
_DecoratorClass = type("kernel", (functools.partial,), {"__module__": "kernbridge"})


def _kind_of(front_end: str, kernel: Any, outs: Any, is_function: bool) -> str:
    """The kind of a function that returns values, see `returning`, or "" for another kernel."""
    if front_end == "guvectorize":
        return "layout"
    if front_end == "elementwise":
        if outs is not None:
            raise TypeError(
                f"kernel {_name(kernel)!r}: a numba.vectorize function returns its values; "
                "leave `outs` out [KB1002]"
            )
        return "elementwise"
    if outs is None:
        if is_function:
            return "arrays"
        raise TypeError(
            f"kernel {_name(kernel)!r}: it returns no value, and `outs` does not describe its "
            "outputs; write `return` before the result, or @kernbridge.kernel(outs=...) above the "
            "kernel, with the shape and dtype of each array that it fills [KB1002]"
        )
    # It may be a function of all parameters of a function that returns its results.
    if not (is_function and inspect.isfunction(outs)):
        return ""
    code = outs.__code__
    takes_all = code.co_argcount == kernel.py_func.__code__.co_argcount
    return "arrays" if takes_all and not code.co_flags & inspect.CO_VARARGS else ""


def _name(kernel: Any) -> str:
    return getattr(getattr(kernel, "py_func", kernel), "__name__", type(kernel).__name__)


_FRONT_ENDS = {  # the public function for each kind of kernel, or what `returning` calls it
    "njit": "numba_kernel",
    "cuda": "numba_cuda_kernel",
    "cuda simulated": "numba_cuda_kernel",
    "vectorize": "elementwise",
    "guvectorize": "guvectorize",
}
_REMEDIES = {
    "elementwise": "remove it from this function, which returns values",
    "guvectorize": "remove it from this numba.guvectorize function",
    "numba_kernel": "remove it, or decorate the function with @numba.cuda.jit for a launch",
    "numba_cuda_kernel": "remove it, or decorate the function with @numba.njit for CPUs",
}
