"""`Operation`: a kernel with its specification, which is called like a function.

A call goes directly to one jitted function. All checks take place while that function is traced.
JAX remembers what it has traced. `Watched` decides for all operations when a call is traced again:
if a derivative rule, `outs`, a launch function or a generator reads other values than before.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import is_dataclass, replace
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from kernbridge._src.base import private_jax, reports
from kernbridge._src.base.errors import KernelError
from kernbridge._src.base.exact import exact_items
from kernbridge._src.base.html import table
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.private_jax import EVAL_TRACE, current_trace
from kernbridge._src.calls.batch_axes import Arrays
from kernbridge._src.calls.call import ArrayType, Call, Fields, Types, has_type
from kernbridge._src.keys import function_state
from kernbridge._src.operation import derivatives
from kernbridge._src.operation.inspection import Inspection, Plan
from kernbridge._src.operation.primitive import Frontend, bind
from kernbridge._src.operation.spec import ENZYME, Functions, OperationSpec, Outputs

OPERATIONS_KEPT = 64  # of one kernel, or for the functions that the kernel of one calls
_INCOMPARABLE: Any = object()  # replaces a state whose traced values are not kept


class Watched:
    """Functions of the user, by name, and what they read when a call was last traced."""

    __slots__ = ("_differs", "_functions", "_state")

    def __init__(self, functions: Callable[[], Functions]) -> None:
        self._functions = functions
        self._state: function_state.FunctionState | None = None
        self._differs = False  # whether calls were traced in different states

    def tracing(self) -> function_state.FunctionState:
        """Note that a call is being traced; return what the functions read."""
        before, now = self._state, function_state.take(self._functions())
        self._differs |= before is not None and before != now
        self._state = _INCOMPARABLE if now.incomparable else now
        return now

    def retrace_if_changed(self, drop: Callable[[], None]) -> function_state.FunctionState:
        """Call `drop` if earlier traces are no longer valid; return what the functions read.

        An operation calls this if a transformation of JAX sees the call.
        """
        state = self.tracing()
        if self._differs:
            drop()
        self._differs = False
        return state


class Operation:
    """A kernel as a JAX operation.

    Calling it with the kernel's inputs returns the outputs, in a pytree with the structure of
    `outs`. It works under `jax.jit`, `jax.vmap`, `jax.lax.scan` and the other transformations of
    JAX.

    The operation of a Numba kernel has the kernel's name, module and docstring. Without a
    docstring, `help` says what it calls. Its attribute ``__wrapped__`` is the kernel.
    """

    __module__ = "kernbridge"
    __slots__ = ("__dict__", "__weakref__", "spec")

    def __init__(
        self, spec: OperationSpec, frontend: Frontend, attributes: Mapping[str, Any] | None = None
    ) -> None:
        """Derivative rules get `attributes` as keywords."""
        spec.check_names(frontend.parameter_names, list(attributes or ()))
        if ENZYME in (spec.jvp, spec.vjp):
            derivatives.check(spec.label, frontend)
        self.spec = spec
        self._frontend = frontend
        self._check_numbers = (spec.signature or frontend).check_numbers
        self._keywords = tuple(sorted((attributes or {}).items()))
        self._jitted: Any = None
        self._of_functions: LRUCache[Operation | None] = LRUCache(OPERATIONS_KEPT)
        functions = self._kernbridge_runs()
        self._watched = Watched(lambda: functions) if functions else None

    def __call__(self, /, *inputs: Any, **scalars: Any) -> Any:
        if scalars and any(map(callable, scalars.values())):
            operation, scalars = self._calling(scalars)
            if operation is not self:
                return operation(*inputs, **scalars)
        try:
            if self._check_numbers is not None:
                self._check_numbers(inputs, scalars)
            try:
                if (
                    self._watched is not None
                    and current_trace() is not EVAL_TRACE
                    and self._watched.retrace_if_changed(self._drop).traced
                ):
                    return self._traceable()(*inputs, **scalars)
                jitted = self._jitted  # another thread may drop it
                if jitted is None:
                    self._jitted = jitted = jax.jit(self._traceable(), inline=True)
                return jitted(*inputs, **scalars)
            except (TypeError, OverflowError):
                if not any(map(Fields.of, (*inputs, *scalars.values()))):
                    check_arrays(self.spec.label, inputs, scalars)
                raise
        except Exception as e:
            reports.hide_frames(e)
            raise

    def _calling(self, scalars: dict[str, Any]) -> tuple[Operation, dict[str, Any]]:
        """The operation whose kernel calls the functions among keywords, and the other keywords."""
        functions = {n: f for n, f in scalars.items() if callable(f) and not has_type(f)}
        if not functions:
            return self, scalars

        def make() -> Operation | None:
            spec = self.spec
            if (s := spec.signature) is not None:  # that of `inplace=` names all parameters
                kept = tuple(p for p in s.inputs if p.name not in functions)
                spec = replace(spec, aliases=dict(spec.aliases), signature=s._replace(inputs=kept))
            return self._frontend.calling(functions, spec)

        found = function_state.find_or_make(self._of_functions, functions, make)
        if found is None:
            return self, scalars
        return found, {n: x for n, x in scalars.items() if n not in functions}

    def _drop(self) -> None:
        self._jitted = None

    def _traceable(self) -> Callable[..., Any]:
        return _traceable_call(self.spec, self._frontend, self._keywords, self._watched)

    def _kernbridge_runs(self) -> Functions:  # see keys/function_state.py
        return functions_of(self.spec, self._frontend.functions())

    def __repr__(self) -> str:
        return shown(self.spec.label, self.spec.signature)

    def _repr_html_(self) -> str:
        return as_html(self.spec.label, self.spec.signature)

    @reports.hides_frames
    def plan(self, *inputs: Any, **scalars: Any) -> Plan:
        """Return the steps that C executes on a GPU for inputs of these shapes.

        Parameters
        ----------
        *inputs, **scalars : arrays, or objects with a shape and a dtype
            The arguments of a call.

        Returns
        -------
        Plan
            The launches, fills and copies, in the attribute `steps`. It prints as one line for each
            step. The buffers are the inputs, keyword scalars, outputs, copies of inputs, and
            temporaries.

        Raises
        ------
        TypeError
            If the operation has no kernel for GPUs.
        """
        frontend, described = self._described(inputs, scalars)
        return frontend.program(*described)

    @reports.hides_frames
    def inspect(self, *inputs: Any, **scalars: Any) -> tuple[Inspection, ...]:
        """Return the code and the resources of the kernels that run for arguments as of `plan`.

        Returns
        -------
        tuple of Inspection
            One for each kernel launch, or one for a CPU kernel: LLVM IR, PTX or assembly, SASS if
            nvdisasm is installed, registers, shared and local memory, and occupancy. A CUDA kernel
            is shown for the CPU if that is JAX's default platform, unless GPUs are chosen by
            `kernbridge.config.set_cuda_architectures` or KERNBRIDGE_CUDA_ARCHS.
        """
        frontend, described = self._described(inputs, scalars)
        return frontend.inspect(*described)

    def _described(
        self, inputs: Arrays, scalars: dict[str, Any]
    ) -> tuple[Frontend, tuple[Types, Call]]:
        operation, scalars = self._calling(scalars)
        if around := _with_fields(operation.spec, operation._frontend, inputs, scalars):
            operation, inputs = around, jax.tree.leaves(inputs)
        spec, frontend = operation.spec, operation._frontend
        inputs, named = (spec.signature or frontend).bind(inputs, scalars)
        names, canonical = tuple(sorted(named)), jax.dtypes.canonicalize_dtype
        given = (*inputs, *map(named.get, names))
        arrays = [x if has_type(x) else jnp.asarray(x) for x in given]
        types = [ArrayType(tuple(x.shape), np.dtype(canonical(x.dtype))) for x in arrays]
        operands = frontend.arranged(given, types)
        call, _ = _static_call(spec, frontend, operands, names)
        return frontend, (frontend.widened(operands), call)

    @property
    def __name__(self) -> str:
        return self._frontend.name

    def __getitem__(self, launch: Any) -> NoReturn:
        name = self.__name__
        message = f"{self.spec.label} is an operation, which is called with its inputs: {name}(...)"
        if "cuda" in self._frontend.platforms and "__wrapped__" in vars(self):
            message += (
                f". JAX launches it; Numba's own syntax launches its kernel: {name}.__wrapped__"
                "[grid, block](...)"
            )
        raise TypeError(f"{message} [KB2001]")

    @reports.hides_frames
    def __getattr__(self, name: str) -> NoReturn:
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name in ("defjvp", "defvjp"):  # of functions of JAX
            text += f"; pass the rule as {name[3:]}= where the operation is made [KB1007]"
        raise AttributeError(text, name=name, obj=self)

    __iter__ = None  # since `__getitem__` would make an operation iterable

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the operation of a Numba kernel by the kernel's name, as functions are."""
        return vars(self).get("__qualname__") or super().__reduce_ex__(protocol)


class _Doc:
    """The docstring of `Operation`, or of an operation that has none of its kernel's."""

    of_class = Operation.__doc__

    def __get__(self, op: Operation | None, owner: type) -> str | None:
        if op is None:
            return self.of_class
        frontend = op._frontend
        return about(f"{frontend.name}{frontend.parameters or ''}", frontend.place, op.spec)


Operation.__doc__ = _Doc()  # type: ignore[assignment]  # the text takes longer than an operation


def about(kernel: str, place: str, described: object) -> str:
    """What `help` says of an operation whose kernel has no docstring."""
    text = f"A JAX operation that calls {kernel}{place and f' at {place}'}.\n\n{described}"
    return "\n".join([text, *reports.cells_in(text)])


def shown(label: str, signature: Any) -> str:
    """What an operation with this signature, if it has one, looks like."""
    return f"<{label}{f': {signature}' if signature else ''}>"


def as_html(label: str, signature: Any) -> str:
    rows = [
        (kind, p.name, p.annotation)
        for kind, side in (("input", "inputs"), ("output", "outputs"))
        for p in getattr(signature, side, ())
    ]
    return table(label, ("", "name", "type"), rows)


_SIGNATURE = inspect.signature(lambda *inputs, **scalars: None)


def wrap(
    operation: Operation, kernel: Any, function: Any = None, signature: Any = None
) -> Operation:
    """Give an operation the module, name and docstring of a kernel's function, and return it.

    As with `functools.wraps`, ``__wrapped__`` is the kernel. The signature remains the operation's,
    without outputs.
    """
    function = function or kernel.py_func
    names = ("__module__", "__qualname__", "__doc__")[: 3 if function.__doc__ else 2]
    functools.update_wrapper(operation, function, names, ())
    declared = operation.spec.signature
    signature = signature or (declared.python if declared else _SIGNATURE)
    vars(operation).update(__wrapped__=kernel, __signature__=signature)
    return operation


def functions_of(spec: OperationSpec, others: Functions) -> Functions:
    """The functions of the user that run while a call is traced, by the names of arguments."""
    named = (("outs", spec.outs), ("jvp", spec.jvp), ("vjp", spec.vjp), *others)
    return [(n, f) for n, f in named if callable(f) and not isinstance(f, Outputs)]


def spec_key(spec: OperationSpec, others: Functions) -> Hashable | None:
    """A key under which an operation can be remembered; None if there can be none.

    Functions that compare equal are distinguished by the values that they read.
    """
    if not isinstance(spec.outs, Hashable):  # an object that is called and compared by value
        return None
    functions = functions_of(spec, others)
    state = function_state.take(functions) if functions else None
    return None if state is not None and state.incomparable else (spec, state)


def _traceable_call(
    spec: OperationSpec, frontend: Frontend, keywords: tuple[Any, ...], watched: Watched | None
) -> Callable[..., Any]:
    def call(*inputs_: Any, **scalars: Any) -> Any:  # JAX refuses a scalar of the same name
        if around := _with_fields(spec, frontend, inputs_, scalars):
            return around(*jax.tree.leaves(inputs_), **scalars)
        state = watched.tracing() if watched else None
        inputs, keywords_given = (spec.signature or frontend).bind(inputs_, scalars)
        named = dict(sorted(keywords_given.items()))
        names = tuple(named)
        operands, found = as_operands(spec.label, inputs, named)
        arranged = frontend.arranged(operands, found)
        static, outputs = _static_call(spec, frontend, arranged, names)
        types = frontend.widened(arranged)
        if types is not found:
            operands = list(map(_arranged, operands, types))
        if not spec.is_differentiable:
            return _unflattened(outputs, bind(frontend, static, operands))
        from kernbridge._src.operation import tangents

        computed = replace(outputs, types=static.outs)
        exact = (exact_items(dict(keywords)), state)
        order = spec.signature.places(names) if spec.signature else ()
        by_name = functools.partial(tangents.in_order, frontend, static, computed, order)
        jvp, vjp = (
            derivatives.extension(spec.label).ByEnzyme(frontend, static)
            if isinstance(rule, str)
            else by_name(mode, rule)
            for mode, rule in (("jvp", spec.jvp), ("vjp", spec.vjp))
        )
        vjp = frontend.vjp_of_call(vjp)
        parameters = frontend.buffer_names(static.n_inputs, names, len(static.outs))
        linear = spec.linear_operands(static, types, parameters) if spec.linear else ()
        rules = tangents.Rules(
            *(spec.label, computed, jvp, vjp, keywords), exact=exact, order=order, linear=linear
        )
        if state is not None and state.traced:
            rules, values = tangents.close(rules, types, static.outs)
            operands = [*operands, *values]
        return _unflattened(outputs, tangents.bind(frontend, static, rules, operands))

    call.__name__ = call.__qualname__ = frontend.name
    return call


def _with_fields(
    spec: OperationSpec, frontend: Frontend, inputs: Arrays, scalars: Collection[str]
) -> Any:
    """The operation of a kernel around this one, which takes the arrays of arguments one by one.

    None if no argument has several, or the front end has no such kernels.
    """
    held = [] if spec.signature else [Fields.of(x) for x in inputs]
    if not any(held):
        return None
    tree, given = jax.tree.structure(inputs), spec.outs
    if not isinstance(given, Outputs):  # a function of the inputs
        outs = lambda *arrays, **named: given(*tree.unflatten(arrays), **named)  # noqa: E731
        spec = replace(spec, outs=outs, aliases=dict(spec.aliases))
    names = (name for name in frontend.parameter_names if name not in scalars)
    groups = {name: f for name, f in zip(names, held, strict=False) if f}
    return frontend.calling(groups, spec)


def _arranged(operand: Any, wanted: ArrayType) -> Any:
    """The operand with more leading axes, of one element each, and with another dtype."""
    operand = operand if operand.dtype == wanted.dtype else operand.astype(wanted.dtype)
    return jax.lax.broadcast_to_rank(operand, len(wanted.shape))


def _unflattened(outputs: Outputs, results: Arrays) -> Any:
    pairs = zip(results, outputs.types, strict=True)
    return outputs.unflatten([x if x.dtype == t.dtype else x.astype(t.dtype) for x, t in pairs])


def _static_call(
    spec: OperationSpec, frontend: Frontend, operands: Types, names: tuple[str, ...]
) -> tuple[Call, Outputs]:
    n_inputs = len(operands) - len(names)
    inputs, scalars = operands[:n_inputs], dict(zip(names, operands[n_inputs:], strict=True))
    for name, t in scalars.items():
        if t.shape and spec.signature is None:
            raise ValueError(
                f"{spec.label}: keyword {name!r} is an array, {t}, expected a scalar; "
                "pass arrays as positional inputs [KB2005]"
            )
    outputs = spec.outputs_for(inputs, scalars, frontend.parameters)
    parameters = frontend.buffer_names(n_inputs, names, len(outputs.types))
    outputs = outputs.in_order(spec.label, parameters[len(operands) :])
    if spec.sharding_rule:
        terms = spec.sharding_rule.terms(spec.label, inputs, len(names), outputs.types)
    else:
        terms = frontend.terms(inputs, len(names), outputs.types)
        if spec.signature and spec.signature.dimensions:
            terms = replace(terms, suggested="True")
    in_place = spec.signature.aliases(names) if spec.signature else ()
    call = Call(
        n_inputs=n_inputs,
        scalars=names,
        outs=tuple(frontend.widened(outputs.types)),
        aliases=tuple(sorted({*spec.aliases, *in_place})),
        vmap_method=spec.vmap_method,
        has_side_effect=spec.has_side_effect or not outputs.types,
        terms=terms,
        vmap_threads=spec.vmap_threads,
    )
    frontend.check(frontend.widened(operands), call)
    spec.check_aliases(inputs, outputs.types)
    if not outputs.types:
        private_jax.require_insides(f"{spec.label} has no outputs, hence a side effect")
    return call, outputs


def as_operands(
    label: str, inputs: Arrays, scalars: Mapping[str, Any] | None = None
) -> tuple[list[Any], list[ArrayType]]:
    """Return the inputs and then the scalars as arrays of JAX, and their types; or TypeError."""
    operands = [*inputs, *(scalars or {}).values()]
    if not all(isinstance(x, jax.Array) for x in operands):
        check_arrays(label, inputs, scalars or {})
        operands = [x if isinstance(x, jax.Array) else jnp.asarray(x) for x in operands]
    avals = list(map(jax.typeof, operands))
    for i, aval in enumerate(avals):
        if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended):
            raise TypeError(
                f"{label}: input {i} has JAX's own dtype {aval.dtype}, which kernels do not "
                "support; pass its bits, which for a random key are jax.random.key_data(key) "
                "[KB2003]"
            )
    return operands, [ArrayType(aval.shape, np.dtype(aval.dtype)) for aval in avals]


def check_arrays(label: str, inputs: Arrays, scalars: Mapping[str, Any]) -> None:
    """Refuse the first argument that is neither an array nor a scalar, if any."""
    named = [(f"input {i}", x) for i, x in enumerate(inputs)]
    named += [(f"keyword {name!r}", x) for name, x in scalars.items()]
    for place, value in named:
        kind = value.dtype.kind if isinstance(value, np.ndarray) else ""
        if kind and (kind in "OSUmM" or value.dtype.type is np.void):  # JAX's own types are V, too
            remedy = "an array of numbers"
            if value.dtype.names:
                remedy = "their words, x.view(np.uint32).reshape(*x.shape, -1), and pass the "
                remedy += "record dtype as view= to numba_cuda_kernel"
            raise TypeError(
                f"{label}: {place} is an array of {value.dtype}, for which JAX has no dtype; pass "
                f"{remedy} [KB2002]"
            ) from None
        of_ints = np.iinfo(jax.dtypes.canonicalize_dtype(int))
        if isinstance(value, int) and not of_ints.min <= value <= of_ints.max:
            remedy = "a float, or enable 64-bit types with JAX_ENABLE_X64=1"
            if of_ints.bits == 64:
                remedy = f"np.uint64({value})" if 0 < value < 2**64 else "a float"
            raise TypeError(
                f"{label}: {place} is {value}, which is out of range for {of_ints.dtype}; pass "
                f"{remedy} [KB2002]"
            ) from None
        known = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)
        if not isinstance(value, known) and not hasattr(value, "__jax_array__"):
            fields, kind = Fields.of(value), type(value).__name__
            what = f"{value!r} of type {kind}"
            if fields and not fields.is_plain:
                what = f"a {kind} of {', '.join(fields.names)}"
            raise TypeError(
                f"{label}: {place} is {what}, expected an array or a scalar; {_remedy_for(value)} "
                "[KB2002]"
            ) from None


def _remedy_for(value: object) -> str:
    if value is None:
        return "pass an array, or leave the parameter out of the kernel"
    if isinstance(value, (dict, set)):
        return "pass each of its arrays as an input"
    if (fields := Fields.of(value)) and not fields.is_plain:
        return f"name its fields in a signature, as x.{fields.names[0]}: f32[n], or pass its arrays"
    if is_dataclass(value):
        return "register its class by jax.tree_util.register_dataclass, or pass its arrays"
    if isinstance(value, (str, bytes)):
        return "a kernel takes numbers: choose the kernel to call by the string, or pass a number"
    if isinstance(value, (list, tuple)):
        return "convert it with jnp.asarray"
    if callable(value):
        return "call it, and pass the array that it returns"
    return "pass its arrays and numbers as inputs"


# XLA's threads do not exist in a forked process, so an operation that waits for them, such as the
# compilation of a program or a large computation, would wait forever.


def _refuse(operation: Operation, *inputs: Any, **scalars: Any) -> NoReturn:
    raise KernelError(
        f"{operation.spec.label}: this process was forked after JAX had started, and does not "
        'have JAX\'s threads; start it with the method "spawn" or "forkserver" of '
        "multiprocessing, or fork before the first use of JAX [KB7008]"
    )


def after_fork() -> None:
    """Let this process, which was just forked, refuse calls if JAX had started before."""
    if private_jax.has_started():  # a check in each call would cost time
        Operation.__call__ = _refuse  # type: ignore[method-assign]


class Verified(Operation):
    """An operation of a recorded function, which also runs unrecorded and compares the results."""

    __slots__ = ("_unrecorded",)

    def __init__(
        self, spec: OperationSpec, recorded: Frontend, unrecorded: Frontend, attributes: Any = None
    ) -> None:
        super().__init__(spec, recorded, attributes)
        self._unrecorded = Operation(spec, unrecorded, attributes)

    def __call__(self, /, *inputs: Any, **scalars: Any) -> Any:
        found = super().__call__(*inputs, **scalars)
        return jax.tree.map(self._compared, found, self._unrecorded(*inputs, **scalars))

    def _compared(self, found: Any, expected: Any) -> Any:
        def compare(found: Any, expected: Any) -> Any:
            a, b = np.ascontiguousarray(found), np.ascontiguousarray(expected)
            differs = a.reshape(-1).view(np.uint8) != b.reshape(-1).view(np.uint8)
            if differs.any():
                first = int(np.flatnonzero(differs)[0]) // a.itemsize
                raise KernelError(
                    f"{self.spec.label}: recorded and unrecorded results differ, first at element "
                    f"{first}: {a.reshape(-1)[first]} and {b.reshape(-1)[first]} [KB4012]"
                )
            return np.asarray(found)

        shape = jax.ShapeDtypeStruct(jnp.shape(found), found.dtype)
        return jax.pure_callback(compare, shape, found, expected, vmap_method="broadcast_all")
