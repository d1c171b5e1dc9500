"""Functions that return values as operations: `elementwise`, and the front end behind it.

A call is a call of an ordinary kernel of `numba_kernel`, which `loops.py` writes for the dtypes,
the ranks and the broadcasting of the call. What the function returns is asked of Numba once for
each combination of argument types, and kept on disk with other artefacts.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from kernbridge._src.base import debug
from kernbridge._src.base.dtypes import wide
from kernbridge._src.base.errors import unknown_name
from kernbridge._src.base.lru import LRUCache, attached_to
from kernbridge._src.base.reports import beginning_of, hides_frames
from kernbridge._src.calls import call as calls
from kernbridge._src.calls.call import WHOLE, ArrayType, Call, Terms, Types, is_inexact, wide_types
from kernbridge._src.forge.obtain import obtain
from kernbridge._src.keys import fingerprint
from kernbridge._src.numba_common import kinds
from kernbridge._src.numba_common import parameters as kernel_parameters
from kernbridge._src.numba_common import static as static_values
from kernbridge._src.numba_common.parameters import KernelParameters
from kernbridge._src.numba_cpu.kernel import NumbaCpu, Variant, needs_numba
from kernbridge._src.numba_cpu.loops import Axes, copy, dispatcher_of, loop, made
from kernbridge._src.numba_cpu.results import Question, Results, canonical
from kernbridge._src.numba_cpu.signature import CompileOptions
from kernbridge._src.operation.inspection import Inspection
from kernbridge._src.operation.operation import OPERATIONS_KEPT, Operation, as_operands, wrap
from kernbridge._src.operation.primitive import BATCH_LEVELS_MAX, NativeCall
from kernbridge._src.operation.spec import Functions, OperationSpec, Outputs, call_with_shapes
from kernbridge._src.sharding.rule import ShardingRule
from kernbridge._src.signatures.call_signature import ResultsOf, check_number, is_weak

# Dispatchers of functions of Python and of numba.vectorize, by all that Numba reads in them.
_dispatchers: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()


def _dispatcher_of(function: Any, options: dict[str, Any]) -> Any:
    """A dispatcher of a function as it reads now, one for all that read the same variables."""
    new = dispatcher_of(function, options, error_model="numpy")  # divides by zero as NumPy
    found = fingerprint.take(new)
    if found.opaque:
        return new
    names = (function.__module__, function.__qualname__, function.__doc__)
    # What is equal now stays equal only where it is the same: a variable may change, and Numba
    # reads it when it compiles for further types.
    variables = tuple(map(id, (function.__globals__, *(function.__closure__ or ()))))
    key = (found.digest, found.lines, found.inlined, names, variables)
    return _dispatchers.setdefault(key, new)


class _Outs:
    """The outputs of a call, as a function of its operands."""

    def __init__(self, frontend: Returning) -> None:
        self._frontend = frontend

    def __call__(self, *operands: Any) -> Any:
        return self._frontend.outputs([ArrayType.of(x) for x in operands])

    def __str__(self) -> str:
        return "what the function returns"

    def _kernbridge_runs(self) -> Functions:  # see keys/function_state.py
        outs = self._frontend.outs
        return [("outs", outs)] if callable(outs) and not isinstance(outs, Outputs) else []


@dataclass(frozen=True)
class _Summed:
    """A vjp rule of the user, whose cotangents are summed over the axes of broadcasting."""

    rule: Callable[..., Any]

    def __call__(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        found = self.rule(inputs, outputs, cotangents)
        if len(inputs) == 1 and not isinstance(found, (tuple, list)):
            found = (found,)
        if not isinstance(found, (tuple, list)) or len(found) != len(inputs):
            return found
        return tuple(map(_summed, found, inputs))


def _summed(ct: Any, x: Any) -> Any:
    if ct is None or np.ndim(ct) != np.ndim(x):
        return ct
    pairs = zip(np.shape(ct), np.shape(x), strict=True)
    axes = tuple(i for i, (have, want) in enumerate(pairs) if want == 1 and have != 1)
    return jnp.sum(ct, axes, keepdims=True) if axes else ct


@dataclass(eq=False, repr=False)
class Returning(kernel_parameters.PythonFrontend):
    """A function that returns values, or of `numba.guvectorize`, as a front end."""

    kind: str
    original: Any
    options: CompileOptions
    outs: Any
    static: Any
    name: Any
    dispatcher: Any  # of the function with all its parameters

    platforms = ("cpu",)

    def __post_init__(self) -> None:
        front_end = "elementwise" if self.kind == "elementwise" else "kernel"
        function = self.dispatcher.py_func
        self.name = kernel_parameters.name_of(front_end, function, self.name)
        self.label = f"{front_end} {self.name!r}"
        refusal = static_values.refusal_on_cpus
        self.static = static_values.read(self.label, function, self.static, refusal)
        self._declared = _declared(self.original)
        if isinstance(self.outs, ResultsOf):
            self.static |= self.outs.signature.fields
            self.check_numbers = self.outs.signature.check_numbers
        elif self._declared:
            self.check_numbers = self._check_declared
        kernel = self.dispatcher
        of_code = functools.partial(dispatcher_of, options=kernel.targetoptions)
        self._dispatcher = static_values.bound(kernel, self.static, of_code, kernel)
        self.function = self._dispatcher.py_func
        self.place = beginning_of(function)
        self.signature = inspect.signature(self.function)
        self._layout: tuple[Any, Any] | None = None
        if self.kind == "layout":
            ins, filled = self._layout = _layout(self.label, self.original, self.outs)
            inputs = [*self.signature.parameters.values()][: len(ins)]
            self.signature = self.signature.replace(parameters=inputs)
            terms = [[f"({','.join(core)})" for core in side] for side in (ins, filled)]
            self._layout_text = "->".join(map(",".join, terms))
        self.parameters = KernelParameters(self.label, self.function, zeroed=True)
        self.described_outs = _Outs(self)
        self._kernels: LRUCache[NumbaCpu] = attached_to(
            self._dispatcher, "loops", lambda: LRUCache(OPERATIONS_KEPT)
        )

    def calling(self, functions: Mapping[str, Any], spec: OperationSpec) -> Operation | None:
        has_fields = any(isinstance(f, calls.Fields) for f in functions.values())
        if has_fields and (self.kind == "layout" or self.outs is not None):
            return None  # they describe the arrays of the function itself
        made = replace(self, static={**self.static, **functions})
        spec = replace(spec, outs=made.described_outs, aliases=dict(spec.aliases))
        return made.make_operation(spec)

    # What follows is called while a call is traced, in this order.

    def bind(self, inputs: Sequence[Any], scalars: Mapping[str, Any]) -> tuple[Any, Any]:
        """All arguments in the order of the function's parameters; defaults may be left out."""
        if isinstance(self.outs, ResultsOf):
            by_name = self.outs.signature.converted(inputs, scalars)
            return [by_name[name] for name in self.outs.names], {}
        try:
            given = self.signature.bind(*inputs, **scalars)
        except TypeError as e:
            why = unknown_name(scalars, self.signature.parameters) or e
            text = f"{self.label}: {why}; the function is {self.name}{self.signature} [KB2001]"
            raise TypeError(text) from None
        if given.kwargs:
            given.apply_defaults()
        return given.args, {}

    def arranged(self, operands: Sequence[Any], types: Types) -> list[ArrayType]:
        """Let a Python float have the precision of the arrays, and operands have equal ranks."""
        cores = self._cores(types)
        for name, t, core in zip(self._names(types), types, cores, strict=True):
            self.check_dtype(f"{self.label}: input {name!r}", t.dtype.name)
            if len(t.shape) < len(core):
                raise ValueError(
                    f"{self.label}: input {name!r} is {t}, expected the axes ({','.join(core)}) of "
                    f"the layout {self._layout_text}, and any before them [KB2007]"
                )
        weak = [*map(is_weak, operands)]
        reals = [
            np.empty(0, t.dtype).real.dtype
            for t, is_number in zip(types, weak, strict=True)
            if is_inexact(t.dtype) and not is_number
        ]
        dtypes = [t.dtype for t in types]
        for i, dtype in enumerate(dtypes):
            if weak[i] and reals and dtype.kind in "fc":
                dtypes[i] = jnp.result_type(*reals, *[np.complex64] * (dtype.kind == "c"))
        if self._declared:
            for i, wanted in enumerate(self._declared_for(dtypes, weak)[0]):
                if self._layout or (weak[i] and not types[i].shape):
                    dtypes[i] = canonical(wanted)
        n, each = len(self._leading(types)), zip(types, cores, dtypes, strict=True)
        return [ArrayType((1,) * (n + len(c) - len(t.shape)) + t.shape, d) for t, c, d in each]

    def widened(self, types: Types) -> Types:
        return wide_types(types)

    def outputs(self, operands: Types) -> Any:
        """The outputs of a call, whose operands are arranged.

        If all real operands have the same half-precision dtype, real results are rounded to it.
        """
        given = self._given_outs(operands) if self.kind == "arrays" else None
        results = self._results(wide_types(operands), given and wide_types(given))
        reals = {t.dtype for t in operands if is_inexact(t.dtype)}
        half = next(iter(reals)) if len(reals) == 1 and not self._declared else None
        found = []
        for i, (t, shape) in enumerate(results.items):
            computed = given[i].dtype if given else canonical(t)
            is_half = half is not None and not given and computed == wide(half)
            found.append(jax.ShapeDtypeStruct(shape or (), half if is_half else computed))
        if results.single:
            return found[0]
        return tuple(found) if results.made_by is tuple else results.made_by(*found)

    def buffer_names(
        self, n_inputs: int, scalars: Sequence[str], n_outputs: int
    ) -> tuple[str, ...]:
        return (*self._names(range(n_inputs)), *[""] * n_outputs)

    def vjp_of_call(self, rule: Any) -> Any:
        return _Summed(rule) if self.kind == "elementwise" and callable(rule) else rule

    def terms(self, inputs: Types, n_scalars: int, outs: Types) -> Terms:
        """Without a rule, a call may be split along every axis over which it loops."""
        leading = self._leading(inputs)
        ins, results = (tuple(_term(t, leading) for t in side) for side in (inputs, outs))
        return replace(Terms.undeclared(inputs, n_scalars, outs), ins=ins, outs=results)

    def check(self, operands: Types, call: Call) -> None:
        """Nothing: `arranged` and `outputs` have checked the operands."""

    # What follows is called when it is lowered.

    def lower(self, platform: str, operands: Types, call: Call) -> NativeCall:
        native = self.kernel_of(operands, call).lower(platform, operands, call)
        if self.kind == "arrays":
            return native._replace(shapes="tried" if self.outs is None else "declared")
        axes = self._axes(operands, call)
        if not axes.loops or axes.n > BATCH_LEVELS_MAX or native.copied:
            return native
        return native._replace(row_axes=len(axes.loops[0]), has_rows=axes.members[0])

    def inspect(self, operands: Types, call: Call) -> tuple[Inspection, ...]:
        return self.kernel_of(operands, call).inspect(operands, call)

    def kernel_of(self, operands: Types, call: Call) -> NumbaCpu:
        """The kernel of a call: one for all calls whose source is the same."""
        names, casts = self._names(operands), self._casts(operands)[0]
        if self.kind == "arrays":
            results = self._results(operands, None if self.outs is None else call.outs)
            source = copy(names, [len(t.shape) for t in operands], results.ranks, results.single)
        else:
            axes = self._axes(operands, call)
            cores: Sequence[int | None] = [None] * len(operands)
            filled: Sequence[int | None] = [None] * len(call.outs)
            if self._layout:
                arrays = self._declared_for([t.dtype for t in operands])[2]
                pairs = zip(self._layout[0], arrays, strict=True)
                cores = [len(core) if core or is_array else None for core, is_array in pairs]
                filled = [*map(len, self._layout[1])]
            single = bool(self._layout) or self._results(operands, None).single
            source = loop(names, cores, filled, axes, single, bool(casts))

        def make() -> NumbaCpu:
            kernel = made(source, self.function, self._dispatcher, casts)
            return NumbaCpu.of(kernel, Variant(self.options, named=named))

        named = self.name, self.label
        return self._kernels.find_or_make((source, casts, self.options, named), make)

    def _axes(self, operands: Types, call: Call) -> Axes:
        n = len(self._leading(operands))
        return Axes.of([t.shape[:n] for t in operands], call.outs[0].shape[:n])

    def _names(self, operands: Sequence[Any]) -> list[str]:
        starred, parameters = inspect.Parameter.VAR_POSITIONAL, self.signature.parameters.values()
        names = [p.name for p in parameters if p.kind is not starred]
        return (names + [f"arg{i}" for i in range(len(names), len(operands))])[: len(operands)]

    def _cores(self, operands: Sequence[Any]) -> Sequence[tuple[str, ...]]:
        """The axes of the operands that one call of the function gets."""
        if self.kind == "arrays":
            return [("",) * len(t.shape) for t in operands]
        return self._layout[0] if self._layout else [()] * len(operands)

    def _leading(self, operands: Types) -> tuple[Any, ...]:
        """The broadcast shape of the axes over which a call loops."""
        pairs = zip(operands, self._cores(operands), strict=True)
        try:
            return jnp.broadcast_shapes(*(t.shape[: len(t.shape) - len(core)] for t, core in pairs))
        except ValueError:
            named = zip(self._names(operands), operands, strict=True)
            listed = ", ".join(f"{name}: {t}" for name, t in named)
            layout = f", in front of the axes of {self._layout_text}" if self._layout else ""
            raise ValueError(
                f"{self.label}: the shapes of {listed} cannot be broadcast together{layout}; "
                "insert axes of one element, as in x[:, None] [KB2007]"
            ) from None

    def _results(self, operands: Types, given: tuple[ArrayType, ...] | None) -> Results:
        """What a call returns, with the shapes of the whole call.

        Of a function of arrays, they are `given` if the user describes them.
        """
        if self.kind == "arrays":
            return obtain(Question(self.label, self._dispatcher, tuple(operands), given))
        leading = self._leading(operands)
        if self._layout:
            return self._of_layout(operands, leading)
        ins, declared = self._casts(operands)
        arguments = [ArrayType((), np.dtype(d)) for d in ins or [t.dtype for t in operands]]
        found = obtain(Question(self.label, self._dispatcher, tuple(arguments)))
        if any(rank is not None for rank in found.ranks):
            raise TypeError(
                f"{self.label}: the function returns an array, but is called for each element, and "
                "is expected to return numbers; use kernbridge.kernel for a function of arrays "
                "[KB4002]"
            )
        dtypes = declared or [dtype for dtype, _ in found.items]
        return found._replace(items=tuple((dtype, leading) for dtype in dtypes))

    def _casts(self, operands: Types) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The dtypes to which `numba.vectorize` converts scalars, and of what it returns."""
        if self._layout or not self._declared or hasattr(self.original, "py_func"):
            return (), ()
        return self._declared_for([t.dtype for t in operands])[:2]

    def _check_declared(self, inputs: Sequence[Any], scalars: Mapping[str, Any]) -> None:
        if not any(map(is_weak, (*inputs, *scalars.values()))):
            return
        given, _ = self.bind(inputs, scalars)
        wanted = self.arranged(given, as_operands(self.label, given)[1])
        for name, value, t in zip(self._names(given), given, wanted, strict=True):
            check_number(f"{self.label}: input {name!r}", value, t.dtype.name)

    def _declared_for(
        self, given: Sequence[np.dtype[Any]], weak: Sequence[bool] | None = None
    ) -> Declared:
        """The first declaration to which operands can be converted, as NumPy chooses it.

        Of numbers of Python, which are `weak`, only the kind counts; for `numba.vectorize`, only
        if nothing else fits.
        """
        given = [*map(wide, given)]
        if not self._declared:
            return tuple(d.name for d in given), (), (False,) * len(given)
        none = (False,) * len(given)
        for numbers in (weak or none,) if self._layout else (none, weak or none):
            for ins, outs, arrays in self._declared:
                if all(map(self._converts, given, map(np.dtype, ins), numbers)):
                    return ins, outs, arrays
        listed = "; ".join(", ".join(ins) for ins, _, _ in self._declared)
        raise TypeError(
            f"{self.label}: it is declared for ({listed}), to none of which "
            f"({', '.join(d.name for d in given)}) can be converted without loss; convert the "
            "arrays, or declare these types as well [KB2003]"
        )

    def _converts(self, given: np.dtype[Any], wanted: np.dtype[Any], is_number: bool) -> bool:
        if is_number and given.kind in "if":
            return wanted.kind in ("iufc" if given.kind == "i" else "fc")
        by_numba = hasattr(self.original, "py_func") and wanted.kind not in "iu"
        return by_numba or np.can_cast(given, wanted)

    def _given_outs(self, operands: Types) -> tuple[ArrayType, ...] | None:
        """The outputs that the user describes, of one call of the function."""
        if self.outs is None:
            return None
        given = self.outs
        if callable(given):
            given = call_with_shapes(self.label, "outs", given, operands, {})
        return Outputs.of(self.label, given).canonical(self.label).types

    def _of_layout(self, operands: Types, leading: tuple[Any, ...]) -> Results:
        assert self._layout
        ins, outs = self._layout
        extents: dict[str, tuple[Any, str]] = {}
        inner = [ArrayType(t.shape[len(leading) :], t.dtype) for t in operands]
        for name, t, core in zip(self._names(operands), inner, ins, strict=True):
            for axis, extent in zip(core, t.shape, strict=True):
                first, where = extents.setdefault(axis, (extent, name))
                if first != extent:
                    raise ValueError(
                        f"{self.label}: the axis {axis!r} of {self._layout_text} has {first} "
                        f"elements in {where!r} and {extent} in {name!r}; pass arrays of the same "
                        "extent [KB2007]"
                    )
        cores = [tuple(extents[axis][0] for axis in core) for core in outs]
        dtypes: Sequence[str] = self._declared_for([t.dtype for t in operands])[1]
        given = self._given_outs(inner)
        if given is not None:
            if [t.shape for t in given] != cores:
                raise ValueError(
                    f"{self.label}: `outs` has {', '.join(map(str, given))}, but by the layout "
                    f"{self._layout_text} one call fills {', '.join(map(str, cores))} [KB1002]"
                )
            dtypes = [t.dtype.name for t in given]
        items = zip(dtypes, [(*leading, *core) for core in cores], strict=True)
        return Results(tuple(items), len(cores) == 1)


Declared = tuple[tuple[str, ...], tuple[str, ...], tuple[bool, ...]]
"""The dtypes of inputs and outputs, and whether each input is an array."""


def _term(t: ArrayType, leading: Sequence[Any]) -> tuple[str, ...]:
    names = [
        f"axis{d}" if extent == full != 1 else WHOLE
        for d, (extent, full) in enumerate(zip(t.shape, leading, strict=False))
    ]
    return (*names, *[WHOLE] * (len(t.shape) - len(names)))


def _declared(function: Any) -> tuple[Declared, ...]:
    """What a function of Numba is declared for. Empty if each call decides the types."""
    from kernbridge._src.numba_common.private_numba import as_dtype

    def dtype_of(t: Any) -> str:
        return as_dtype(getattr(t, "dtype", t)).name

    builder = getattr(function, "gufunc_builder", None)
    if hasattr(function, "py_func"):
        listed = () if function._can_compile else function.signatures
        return tuple((tuple(map(dtype_of, s)), (), (False,) * len(s)) for s in listed)
    if builder is None and getattr(function, "_frozen", False) and hasattr(function, "types"):
        sides = [
            [[np.dtype(c).name for c in side] for side in t.split("->")] for t in function.types
        ]
        return tuple((tuple(i), tuple(o), (False,) * len(i)) for i, o in sides)
    if builder is None or function.is_dynamic:
        return ()
    n, found = len(builder.sin), []
    for signature in builder._sigs:
        names = tuple(map(dtype_of, signature.args))
        arrays = tuple(hasattr(t, "ndim") for t in signature.args[:n])
        found.append((names[:n], names[n:], arrays))
    return tuple(found)


def _layout(label: str, function: Any, outs: Any) -> tuple[Any, Any]:
    """The names of the axes of the inputs and outputs of `numba.guvectorize`."""
    builder = function.gufunc_builder
    if builder.writable_args:
        raise TypeError(
            f"{label}: it has writable_args, but arrays of JAX do not change; write the result "
            "into an output of the layout [KB1001]"
        )
    if outs is None and function.is_dynamic:
        raise TypeError(
            f"{label}: it declares no types, so the dtypes of its outputs are not known; declare "
            "them, or pass outs= with the shape and dtype of each output of one call, such as "
            "outs=lambda x: x [KB1002]"
        )
    return tuple(map(tuple, builder.sin)), tuple(map(tuple, builder.sout))


@hides_frames
def elementwise(
    function: Any = None,
    *,
    name: str | None = None,
    vmap_threads: bool | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    has_side_effect: bool = False,
    vector_math: bool | None = None,
    check: bool = False,
    jvp: Callable[..., Any] | Literal["enzyme"] | None = None,
    vjp: Callable[..., Any] | Literal["enzyme"] | None = None,
    derivatives: Literal["enzyme"] | None = None,
    linear: str | Sequence[str] = (),
    sharding_rule: str | ShardingRule | None = None,
    static: Mapping[str, Any] | None = None,
) -> Any:
    """Make a JAX operation on arrays from a function of numbers.

    The function is called once for each element of the arrays, which are broadcast as NumPy does,
    in a loop that Numba compiles with it. Broadcast arrays are not copied, and `jax.vmap` adds an
    axis to the loop. The operation is the function's decorator, or takes it as an argument.

    Parameters
    ----------
    function : numba.njit or numba.vectorize function, or a function of Python
        It takes numbers and returns a number or a tuple of numbers, whose dtypes are those that
        Numba infers, or that ``numba.vectorize`` declares. A Python function is compiled by Numba.
        As with ``numba.vectorize``, division by zero gives infinity or NaN, except in a
        ``numba.njit`` function, whose ``error_model`` decides.
    name, vmap_threads, input_output_aliases, has_side_effect, vector_math, check, static
        See `numba_kernel`.
    jvp, vjp, derivatives, linear
        See `numba_kernel`. A rule gets all inputs with the rank of the output. Where an input was
        broadcast, the cotangent that ``vjp`` returns for it may have the shape of the output, and
        is summed.
    sharding_rule : str or ShardingRule, optional
        By default, a call may be split along every axis.

    Returns
    -------
    Operation
        The operation, called as the function is. An argument may be an array or a number, also by
        name. A Python float has the precision of the arrays, as in JAX. Without `function`, a
        decorator is returned.

    Raises
    ------
    ImportError
        If Numba is not installed.
    TypeError
        If `function` is none; when called, if the arguments do not fit the function's parameters,
        or if the function returns anything but numbers.
    ValueError
        When called, if the shapes cannot be broadcast, or Numba has no type for a dtype.
    KernelCompilationError
        When called, if Numba cannot compile the function for the dtypes.

    Examples
    --------
    >>> import math, jax.numpy as jnp, kernbridge
    >>> @kernbridge.elementwise
    ... def logistic(x, k):
    ...     return 1 / (1 + math.exp(-k * x))
    >>> logistic(jnp.array([-1.0, 0.0]), k=2.0)
    Array([0.11920292, 0.5       ], dtype=float32)
    """
    options = {name: value for name, value in locals().items() if name != "function"}
    if function is None:
        return lambda function: elementwise(function, **options)
    needs_numba("elementwise")
    kind = kinds.kind_of(function)
    plain = getattr(getattr(function, "_dispatcher", function), "py_func", function)
    refused = kind in ("guvectorize", "operation", "ufunc") or kind.startswith("cuda")
    if refused or not inspect.isfunction(plain):
        raise kinds.refusal("elementwise", function, kind)
    return returning("elementwise", function, None, options)


OPTIONS = (*inspect.signature(elementwise).parameters, "vmap_method", "zero_outputs")[1:]
"""The options of `returning`, which are None or False by default."""


def returning(kind: str, function: Any, outs: Any, given: Mapping[str, Any]) -> Operation:
    """Make an operation of a function that returns values, or of `numba.guvectorize`.

    Its kind is "elementwise", "layout" (of `numba.guvectorize`) or "arrays".
    """
    of = given.get
    fast = None if of("vector_math") is None else bool(of("vector_math"))
    options = CompileOptions(bool(of("check")) or debug.checks(), bool(of("zero_outputs")), fast)
    rule, static, name = of("sharding_rule"), of("static"), of("name")
    if rule is True and isinstance(outs, ResultsOf):
        rule = outs.signature.with_arrays.sharding_rule
    dispatcher, owner = function, function
    if not hasattr(function, "py_func"):
        ufunc = getattr(function, "gufunc_builder", getattr(function, "_dispatcher", function))
        plain = getattr(ufunc, "py_func", function)
        dispatcher = _dispatcher_of(plain, getattr(ufunc, "targetoptions", {}))
        owner = dispatcher if plain is function else function
    make = functools.partial(Returning, kind, function, options, outs, static, name, dispatcher)
    key = ("returning", kind, options, name)
    is_kept = not (outs or static)
    frontend = attached_to(owner, key, make) if is_kept else make()
    method = of("vmap_method") or (None if kind == "arrays" else "expand_dims")
    given = {**given, "vmap_method": method, "sharding_rule": rule}
    spec = OperationSpec.of(given, frontend.label, frontend.described_outs)
    kept: LRUCache[Operation] = LRUCache(OPERATIONS_KEPT)
    if is_kept:  # JAX may keep another front end for long, which must not keep its operations
        kept = attached_to(owner, ("operations", *key), lambda: kept)
    signature = outs.signature.python if isinstance(outs, ResultsOf) else frontend.signature
    return wrap(frontend.operation(spec, kept), function, frontend.function, signature)
