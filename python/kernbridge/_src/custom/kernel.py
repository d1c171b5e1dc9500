"""`XLACustomKernel`: one operation with kernels for many backends, and rules for JAX."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.private_jax import EVAL_TRACE, current_trace, is_part_of_program
from kernbridge._src.base.reports import hide_frames, hides_frames, warn
from kernbridge._src.benchmark.measure import benchmark_operation
from kernbridge._src.custom.backends import KernelTable, listed
from kernbridge._src.custom.primitive import Bound, exact_keywords, make, params_of
from kernbridge._src.keys.host_state import take
from kernbridge._src.operation import primitive
from kernbridge._src.operation.operation import as_operands, not_an_array
from kernbridge._src.operation.spec import Outputs

CALLS_KEPT = 256  # jitted calls of one operation: outputs, keywords, kernels

_WARP_TYPES = (
    *("bool", "float16", "float32", "float64"),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
)

_registry: dict[str, XLACustomKernel] = {}


class XLACustomKernel(KernelTable):
    """One operation with kernels for several platforms and backends.

    Each kernel is defined by a generator, a function that is called with the static keywords of a
    call and `outs`, and that returns a function of the inputs. JAX traces the returned function;
    usually, it is an operation of `numba_kernel`, `numba_cuda_kernel` or a module built from
    source. The kernel of a call is chosen by the first of the following that is set: ``backend=``
    of the call, `config.set_backend`, `set_default`. Otherwise, it is the first kernel that was
    defined. A change takes effect at the next call, also in functions that were jitted before.

    Parameters
    ----------
    name : str
        The name in jaxprs, in messages and in `get_registry`.
    doc : str, optional
        What the operation does.

    Attributes
    ----------
    name : str
    primitive : jax.extend.core.Primitive
        The primitive that rules may bind, by ``primitive.bind(*inputs, outs=outs, **keywords)``.
    defaults : dict of str to str
        The default backend of each platform.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numba, kernbridge
    >>> @numba.njit
    ... def scale(x, alpha, out):
    ...     for i in range(x.size):
    ...         out[i] = alpha * x[i]
    >>> def generator(*, outs, alpha):
    ...     return lambda x: kernbridge.numba_kernel(scale, outs)(x, alpha)
    >>> op = kernbridge.XLACustomKernel("doc_scale")
    >>> op.def_numba_kernel(generator)
    >>> op.def_jvp_rule2(lambda t, x, *, outs, alpha: op(t, outs=outs, alpha=alpha))
    >>> op.def_transpose_rule(
    ...     lambda ct, x, *, outs, alpha: op(ct[0], outs=outs, alpha=alpha)
    ... )
    >>> x = jnp.arange(3.0)
    >>> op(x, outs=x, alpha=2.0)
    Array([0., 2., 4.], dtype=float32)
    >>> jax.grad(lambda x: op(x, outs=x, alpha=2.0).sum())(x)
    Array([2., 2., 2.], dtype=float32)
    """

    __module__ = "kernbridge"

    def __init__(self, name: str, doc: str | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"XLACustomKernel: name is {name!r}, expected a string [KB8006]")
        super().__init__(name)
        self.__doc__ = doc or type(self).__doc__
        # The names with an underscore are read by programs that were written for BrainEvent.
        self.tags = self._tags = frozenset[str]()
        self.call_function: Callable[..., Any] | None = None
        self.benchmark_data: Callable[..., Any] | None = None
        self._call_fn: Callable[..., Any] | None = None
        self._benchmark_data_fn: Callable[..., Any] | None = None
        self._calls: LRUCache[Any] = LRUCache(CALLS_KEPT)
        self.primitive = make(self)
        register(name, self)

    def __repr__(self) -> str:
        return f"<XLACustomKernel {self.name!r}: {listed(self._kernels)}>"

    def __call__(self, *ins: Any, outs: Any, **kwargs: Any) -> Any:
        """Apply the operation.

        Parameters
        ----------
        *ins : array
            The inputs.
        outs : pytree of jax.ShapeDtypeStruct
            Shape and dtype of each output. Generators and rules get them in JAX's order; a dict
            that is written in another order than that of its sorted keys is refused.
        backend : str, optional
            The kernel to use.
        **kwargs
            Static keywords, passed to generators and rules: numbers, texts, tuples of them.

        Returns
        -------
        pytree of arrays
            In the form of `outs`.

        Raises
        ------
        TypeError
            If a keyword is traced or cannot be hashed, an input is no array, or a rule or generator
            does not take these arguments.
        KernelFallbackExhaustedError
            If there is no such backend; when lowered, if there is no kernel for the platform.
        KernelCompilationError
            When lowered, if the generator or its kernel fails.
        """
        try:
            exact = exact_keywords(self.name, kwargs)
            choice = self.choice(kwargs.get("backend"))
            bound = Bound(choice, exact)
            if current_trace() is not EVAL_TRACE:
                in_program = is_part_of_program(ins)  # then nothing of it is kept here
                look = self.watched.retrace_if_changed
                state = take(self._kernbridge_runs()) if in_program else look(self._calls.clear)
                if in_program or state.traced:
                    bound = replace(bound, outlives=in_program and bool(state.traced))
                    return self._bind(ins, self._outputs(outs), bound, kwargs)
            key = (_as_key(repr(self.name), outs), exact, choice)
            call = self._calls.find(key)
            if call is None:
                call = self._jitted(self._outputs(outs), bound, kwargs)
                self._calls.put(key, call)
            try:
                return call(*ins)
            except TypeError:
                refusal = not_an_array(repr(self.name), ins)
                if refusal is None:
                    raise
                raise refusal from None
        except Exception as e:
            hide_frames(e)
            raise

    def _outputs(self, outs: Any) -> Outputs:
        return Outputs.of(repr(self.name), outs).in_order(repr(self.name), ())

    def _bind(
        self, ins: Sequence[Any], outputs: Outputs, bound: Bound, keywords: dict[str, Any]
    ) -> Any:
        operands, _ = as_operands(repr(self.name), ins)
        params = params_of(self, len(operands), outputs, bound, keywords)
        results = self.primitive.bind(*primitive.match_varying(operands), **params)
        return outputs.unflatten(results)

    def _jitted(self, outputs: Outputs, bound: Bound, keywords: dict[str, Any]) -> Any:
        def call(*ins: Any) -> Any:
            return self._bind(ins, outputs, bound, keywords)

        call.__name__ = call.__qualname__ = self.name
        return jax.jit(call, inline=True)

    @hides_frames
    def def_call(self, fn: Callable[..., Any]) -> None:
        """Define the function that users call, and that `benchmark` measures.

        Parameters
        ----------
        fn : callable
            Takes the user's arguments and ``backend=None``, and calls the operation.
        """
        if not callable(fn):
            raise TypeError(f"{self.name!r}: def_call got {fn!r}, expected a function [KB8006]")
        self.call_function = self._call_fn = fn

    @hides_frames
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function that was passed to `def_call`.

        Raises
        ------
        ValueError
            If there is none.
        """
        if self.call_function is None:
            raise ValueError(
                f"{self.name!r} has no function to call; define one with def_call [KB8006]"
            )
        return self.call_function(*args, **kwargs)

    @hides_frames
    def def_tags(self, *tags: str) -> None:
        """Replace the tags by which `get_primitives_by_tags` finds the operation."""
        for tag in tags:
            if not isinstance(tag, str):
                raise TypeError(f"{self.name!r}: tag {tag!r} is not a string [KB8006]")
        self.tags = self._tags = frozenset(tags)

    @hides_frames
    def def_benchmark_data(self, fn: Callable[..., Any]) -> None:
        """Define what `benchmark` measures.

        Parameters
        ----------
        fn : callable
            ``fn(platform=...)`` returns a list of `BenchmarkConfig`.
        """
        if not callable(fn):
            raise TypeError(
                f"{self.name!r}: def_benchmark_data got {fn!r}, expected a function [KB8006]"
            )
        self.benchmark_data = self._benchmark_data_fn = fn

    benchmark = benchmark_operation


def _as_key(label: str, outs: Any) -> Any:
    """Return a key for `outs`, which is cheap for its usual forms."""
    if type(outs) is jax.ShapeDtypeStruct:
        return outs
    if type(outs) in (tuple, list) and all(type(o) is jax.ShapeDtypeStruct for o in outs):
        return (type(outs), *outs)
    return Outputs.of(label, outs)


def register(name: str, op: XLACustomKernel) -> None:
    """Enter an operation in the registry, which holds the latest of each name."""
    if _registry.get(name, op) is not op:
        warn(
            f"XLACustomKernel: an operation named {name!r} is already registered; the new one "
            "replaces it in the registry [KB8007]"
        )
    _registry[name] = op


def get_registry() -> dict[str, XLACustomKernel]:
    """Return all operations by name. If several have the same name, the newest is returned."""
    return dict(_registry)


def get_primitives_by_tags(tags: Collection[str]) -> dict[str, XLACustomKernel]:
    """Return the operations that have all these tags, by name.

    Raises
    ------
    TypeError
        If `tags` is a text; give a set of them.
    """
    if isinstance(tags, str):
        raise TypeError(
            f"get_primitives_by_tags: tags is {tags!r}, expected a set of strings [KB1005]"
        )
    return {name: op for name, op in _registry.items() if op.tags.issuperset(tags)}


def get_all_primitive_names() -> list[str]:
    """Return the names of all operations, sorted."""
    return sorted(_registry)


def jaxtype_to_warptype(dtype: Any) -> Any:
    """Return the Warp scalar type of a dtype.

    Parameters
    ----------
    dtype : dtype
        bool, float16, float32, float64, or an integer of 8 to 64 bits.

    Raises
    ------
    ImportError
        If Warp is not installed.
    ValueError
        If Warp has no such type.

    Examples
    --------
    >>> import jax.numpy as jnp, kernbridge
    >>> kernbridge.jaxtype_to_warptype(jnp.float32)  # doctest: +SKIP
    <class 'warp.types.float32'>
    """
    name = np.dtype(dtype).name
    if name not in _WARP_TYPES:
        raise ValueError(
            f"jaxtype_to_warptype: Warp has no scalar type for {name}; it has "
            f"{', '.join(_WARP_TYPES)}. Convert the array to one of these [KB2003]"
        )
    return getattr(_warp(), name)


def jaxinfo_to_warpinfo(info: Any) -> Any:
    """Return the Warp array type of an array, or of an object with a shape and a dtype.

    Parameters
    ----------
    info : jax.ShapeDtypeStruct
        Of rank 1 or more.

    Returns
    -------
    warp.array
        The array type, for the annotation of a kernel's parameter.

    Raises
    ------
    ImportError
        If Warp is not installed.
    ValueError
        If the rank is 0, or Warp has no such dtype.
    """
    if not info.shape:
        raise ValueError(
            "jaxinfo_to_warpinfo: the array has rank 0, but Warp's arrays have ranks 1 to 4; "
            "reshape it to (1,) [KB2003]"
        )
    dtype = jaxtype_to_warptype(info.dtype)
    return _warp().array(dtype=dtype, ndim=len(info.shape))


def _warp() -> Any:
    try:
        import warp
    except ImportError as e:
        raise ImportError("Warp is not installed: pip install warp-lang [KB4016]") from e
    return warp


__test__ = {"XLACustomKernel": XLACustomKernel}  # whose __module__ is `kernbridge`
