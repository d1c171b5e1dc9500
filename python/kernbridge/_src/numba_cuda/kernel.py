"""Numba-CUDA kernels on GPUs: `numba_cuda_kernel` and its front end."""

from __future__ import annotations

import enum
import inspect
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from kernbridge._src.base.lru import LRUCache, attached_to
from kernbridge._src.base.reports import beginning_of, hides_frames, warn
from kernbridge._src.calls.call import ArrayType, Call, Fields, Operands, Types
from kernbridge._src.keys import function_state
from kernbridge._src.numba_common import kinds, parameters
from kernbridge._src.numba_common import static as static_values
from kernbridge._src.numba_common.parameters import Assignment, Bound, KernelParameters
from kernbridge._src.numba_cuda import dialect
from kernbridge._src.numba_cuda.callback import REMEDY, CallingFrontend
from kernbridge._src.operation.operation import OPERATIONS_KEPT, Operation, wrap
from kernbridge._src.operation.spec import FROM_SIGNATURE, Functions, OperationSpec
from kernbridge._src.plan.frontend import Lowered, plan, zeros
from kernbridge._src.plan.launch import LaunchRule
from kernbridge._src.plan.program import Argument, DeviceParameter, Launch, TupleParameter, Word
from kernbridge._src.plan.targets import Target, is_fast
from kernbridge._src.sharding.rule import ShardingRule
from kernbridge._src.toolchain import cuda

# Of kernels into which functions are compiled, and of the device functions that these call.
DEVICE_OPTIONS = frozenset(("debug", "fastmath", "forceinline", "lineinfo", "opt"))
OPTIONS = DEVICE_OPTIONS | {"extensions", "launch_bounds", "link", "max_registers"}
CALLS_KEPT = 256  # lowered calls remembered for one operation

_warned: weakref.WeakSet[Any] = weakref.WeakSet()  # kernels whose launches were reported as slow


@hides_frames
def numba_cuda_kernel(
    kernel: Any,
    outs: Any = FROM_SIGNATURE,
    *,
    name: str | None = None,
    signature: str | None = None,
    inplace: str | None = None,
    grid: Any = None,
    block: Any = None,
    launch_dims: Any = None,
    threads_per_block: int | tuple[int, ...] | str = 256,
    shared_mem: int = 0,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    cooperative: bool = False,
    cluster: int | tuple[int, ...] | None = None,
    pdl: bool = False,
    zero_outputs: bool = False,
    has_side_effect: bool = False,
    view: Mapping[str | int, Any] | None = None,
    static: Mapping[str, Any] | None = None,
    vector_math: bool | None = None,
    check: bool = False,
    jvp: Callable[..., Any] | Literal["enzyme"] | None = None,
    vjp: Callable[..., Any] | Literal["enzyme"] | None = None,
    derivatives: Literal["enzyme"] | None = None,
    linear: str | Sequence[str] = (),
    sharding_rule: str | ShardingRule | bool | None = None,
) -> Operation:
    """Make a JAX operation from a Numba-CUDA kernel.

    The kernel works on XLA's buffers in place, on XLA's stream. It takes one C-ordered array for
    each input, followed by one for each output, and writes its results into the latter. It is
    launched from C without executing Python code, and XLA may include the launch in a CUDA graph.
    It is compiled when the operation is first lowered, once for each combination of dtypes and
    ranks, whatever the shapes. Compiled code is cached by content, in memory and on disk.

    Parameters
    ----------
    kernel : numba.cuda.jit dispatcher
        A kernel of Numba-CUDA, or of `numba_cuda_mlir.cuda.jit`. It takes the inputs in order,
        followed by the outputs. It must write every element of its outputs, unless `zero_outputs`
        is set. Inputs are read-only unless they are aliased. A kernel that may nevertheless write
        to an input, for example by `cuda.atomic`, gets a copy of it, and a warning is issued once.
    outs : pytree of jax.ShapeDtypeStruct, or a function
        The shape and dtype of each output; see `numba_kernel`.
    name, signature, inplace : str, optional
        See `numba_kernel`. With a signature, `grid`, `block` and `launch_dims` may name its
        dimensions, as in ``launch_dims="n"`` or ``grid=("rows", 4)``.
    input_output_aliases, has_side_effect, zero_outputs, jvp, vjp, derivatives, linear, \
sharding_rule
        See `numba_kernel`.
    grid, block : int, tuple of 1 to 3 int, or a function, optional
        The number of blocks, and of threads in each block, along x, y and z. A function returns
        these numbers; it is called when the call is traced and when it is lowered, with the same
        arguments as `outs`. If one of the numbers is zero, nothing is launched and the outputs are
        zeros. In an exported program with symbolic shapes, `grid` may depend on them, and `block`
        may not.
    launch_dims : int, tuple of 1 to 3 int, or a function, optional
        The minimum number of threads along x, y and z, instead of `grid`, which is then this number
        divided by `block` and rounded up. Without `block`, blocks have
        ``min(threads_per_block, n)``, 16 x 16 or 8 x 8 x 4 threads. Axis 0 lies along x, so in a
        kernel that indexes ``a[i, j]`` with ``i, j = cuda.grid(2)``, neighbouring threads access
        different rows. A function is called as `grid` and `block` call theirs.
    threads_per_block : int, tuple of 1 to 3 int, or "auto", default 256
        The block size for one-dimensional `launch_dims`. A tuple is the same as `block`, for which
        there is no default. "auto" selects the size that the driver suggests for the best
        occupancy.
    shared_mem : int, default 0
        The dynamic shared memory of a block in bytes. It may exceed 48 KiB if the GPU supports
        that.
    vmap_method : str, optional
        How `jax.vmap` treats the call. By default, the kernel always gets arrays of its declared
        ranks, however deeply vmaps are nested. All slices are processed in one launch with the
        batch in the z axis of the grid. A kernel that is cooperative or uses z itself is launched
        once for each slice, in C. All other methods do the same, since a launch of fixed size
        covers one slice; but if `launch_dims` or `grid` is a function, "expand_dims",
        "broadcast_all" and "legacy_vectorized" add the batch to the kernel's arrays as a leading
        axis, and the function gets their shapes.
    cooperative : bool, default False
        Launch the kernel cooperatively, as `cuda.cg.this_grid().sync()` requires. Kernels that use
        this function are always launched cooperatively.
    cluster : int or tuple of 1 to 3 int, optional
        The number of blocks of a thread block cluster (compute capability 9.0 and later). It must
        divide the grid.
    pdl : bool, default False
        Programmatic dependent launch: the kernel may start before the previous one on the stream
        ends. Only for kernels that wait for it themselves (``griddepcontrol.wait``).
    view : dict of str or int to dtype, optional
        The NumPy record dtypes of parameters that take records, by name or by index among the
        inputs. The last axis of such an array holds the words of one record. For example, states of
        `numba.cuda.random` are passed with ``view={"states": xoroshiro128p_dtype}`` as an input
        ``uint64[n, xoroshiro128p_dtype.itemsize // 8]``.
    static : dict of str to number, enum member, tuple or function, optional
        Arguments, by parameter name, that are the same at every call and are not inputs: numbers,
        members of enumerations whose values are numbers, and tuples and named tuples of them.
        Another value of the same type does not need another compilation. A function is compiled
        into the kernel, and a JAX function of scalars is inlined (see `inline`).
    vector_math : bool, optional
        On the CPU, compute `exp`, `sin` and similar functions for several threads of a block at a
        time, within 4 ulp, as for `numba_kernel`. This is the default for kernels with
        ``fastmath=True``. It does not change the code for GPUs.
    check : bool, default False
        On the CPU, check every access. Accesses out of bounds, data races, reads of uninitialised
        shared memory, and barriers that not all threads reach are errors.
        ``KERNBRIDGE_DEBUG=check`` has the same effect.

    Returns
    -------
    Operation
        The operation, called as ``op(*inputs, **scalars)``; see `numba_kernel`.

    Raises
    ------
    ImportError, TypeError, ValueError
        As by `numba_kernel`; also if `kernel` is not a numba.cuda.jit kernel, or if an argument of
        the launch, `view` or `static` is invalid.
    KernelCompilationError
        When first lowered, if Numba-CUDA refuses the kernel; when lowered for a CPU, if the kernel
        uses a feature that CPUs do not have.
    KernelNotAvailableError
        When lowered for a CPU, if `kernbridge.config.set_cuda_on_cpu` forbids it; when lowered for
        a TPU.

    Notes
    -----
    A launch that fails is a JAX error that names the kernel, the grid and the block. Launches are
    asynchronous, so a later call reports a fault of a running kernel, such as an illegal address.
    ``KERNBRIDGE_DEBUG=sync`` waits for each launch, and ``KERNBRIDGE_DEBUG=poison`` finds output
    elements that no thread has written.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, kernbridge
    >>> from numba import cuda
    >>> @cuda.jit
    ... def add(x, y, out):
    ...     i = cuda.grid(1)
    ...     if i < out.size:
    ...         out[i] = x[i] + y[i]
    >>> op = kernbridge.numba_cuda_kernel(
    ...     add, jax.ShapeDtypeStruct((3,), jnp.float32), launch_dims=3
    ... )
    >>> op(jnp.arange(3.0), jnp.ones(3))
    Array([1., 2., 3.], dtype=float32)
    """
    if kinds.kind_of(kernel) == "launch":
        raise kinds.refusal("numba_cuda_kernel", kernel)
    name = parameters.name_of("numba_cuda_kernel", getattr(kernel, "py_func", kernel), name)
    label = f"numba_cuda_kernel {name!r}"
    others = (threads_per_block, shared_mem, cooperative, cluster, pdl)
    # A wrong launch is refused where Numba-CUDA is missing, too, as BrainEvent does.
    parts = [v if isinstance(v, (tuple, list)) else (v,) for v in (grid, block, launch_dims)]
    has_names = any(isinstance(part, str) for value in parts for part in value)
    rule = None if has_names else LaunchRule(label, grid, block, launch_dims, *others)
    cuda.require("numba_cuda_kernel")
    dialect.of(kernel).check_kernel(label, kernel)
    declared = parameters.read_signature(label, kernel.py_func, signature, inplace, static or ())
    if declared is not None:
        grid, block = declared.numbers("grid", grid), declared.numbers("block", block)
        launch_dims = declared.numbers("launch_dims", launch_dims)
    rule = rule or LaunchRule(label, grid, block, launch_dims, *others)
    vmap_method = rule.vmap_method(vmap_method)
    spec = OperationSpec.of(locals(), label, outs, signature=declared)
    views = _read_views(label, view or {})
    values = static_values.read(label, kernel.py_func, static, _refusal)
    values |= declared.fields if declared else {}
    if vector_math and check:
        raise ValueError(
            f"{label}: vector_math=True and check=True cannot be combined: the checked mode runs "
            "the threads of a block one by one; remove one of the two [KB1005]"
        )
    if vector_math is not None:
        vector_math = None if vector_math == is_fast(kernel) else bool(vector_math)
    frontend = NumbaCuda(
        *(kernel, name, label, rule, bool(zero_outputs), views, values),
        *(declared.bound if declared else None, bool(check), vector_math),
    )
    kept = attached_to(kernel, "numba_cuda_kernel", lambda: LRUCache[Operation](OPERATIONS_KEPT))
    return frontend.operation(spec, kept)


Leaf = tuple[DeviceParameter, list[Word]]


class NotAnArgument(Exception):
    """A kernel does not take such a value."""


def typed_scalar(value: Any) -> Any:
    """Return a NumPy scalar of the type that an argument has for Numba; None if it is none."""
    if not isinstance(value, (np.generic, int, float, complex)):
        return None
    array = np.asarray(value)
    return array[()] if array.dtype.kind in "biufc" else None


def read_argument(value: Any, read_leaf: Callable[[Any], Leaf | None], place: str = "") -> Argument:
    """The argument that a value is.

    `read_leaf` is called first, and returns None for other values. NotAnArgument is raised for
    values that no kernel takes; `place` says where in the argument the value is.
    """
    leaf = read_leaf(value)
    if leaf is not None:
        return leaf[0], [leaf[1]]
    enumeration = type(value) if isinstance(value, enum.Enum) else None
    if isinstance(value, tuple) and enumeration is None:
        found = [read_argument(v, read_leaf, ", in a tuple") for v in value]
        made_by = type(value) if hasattr(value, "_fields") else None
        members = tuple(parameter for parameter, _ in found)
        return TupleParameter(members, made_by), [words for _, all_ in found for words in all_]
    number = value if enumeration is None else value.value
    scalar = None if isinstance(number, enum.Enum) else typed_scalar(number)
    if scalar is None and enumeration is not None:
        raise NotAnArgument(
            f"the member {value.name} of the enumeration {enumeration.__name__}, whose value is a "
            f"{type(number).__name__} and not a number, as a kernel argument{place}"
        )
    if scalar is None:
        remedy = "; pass a tuple" if isinstance(value, list) else ""
        raise NotAnArgument(f"a kernel argument of type {type(value).__name__}{place}{remedy}")
    data = scalar.tobytes().ljust(16 if scalar.itemsize > 8 else 8, b"\0")
    words = [Word("constant", int(n)) for n in np.frombuffer(data, np.int64)]
    return DeviceParameter("scalar", scalar.dtype, enumeration=enumeration), [words]


def _refusal(value: Any) -> str | None:
    """What is wrong with a value that no kernel takes as an argument."""
    try:
        read_argument(value, lambda _: None)
    except NotAnArgument as e:
        return f"{e}; expected numbers, members of enumerations, functions, or tuples of numbers"
    return None


def _with_functions(label: str, kernel: Any, functions: Mapping[str, Any]) -> Any:
    """A kernel into which functions are compiled that it has parameters for."""
    if not functions:
        return kernel
    package = dialect.of(kernel)
    if not package.TAKES_FUNCTIONS:
        raise TypeError(
            f"{label}: static contains functions, which kernels of {package.PACKAGE} cannot take; "
            "decorate the kernel with numba.cuda.jit of Numba-CUDA [KB1103]"
        )
    from kernbridge._src.numba_common.private_numba_cuda import cuda as numba_cuda

    options = {n: o for n, o in kernel.targetoptions.items() if o is not None and n in OPTIONS}
    of_device = {n: o for n, o in options.items() if n in DEVICE_OPTIONS}
    called = numba_cuda.jit(device=True, **of_device)(kernel.py_func)
    return static_values.bound(kernel, functions, numba_cuda.jit(**options), called)


def _read_views(label: str, view: Mapping[str | int, Any]) -> tuple[tuple[str | int, Any], ...]:
    """The argument `view` of an operation, as pairs of place and NumPy dtype."""
    views = []
    for place, dtype in view.items():
        try:
            views.append((place, np.dtype(dtype)))
        except TypeError:
            raise TypeError(
                f"{label}: view contains {dtype!r} for {place!r}, expected a NumPy dtype [KB1103]"
            ) from None
    return tuple(views)


@dataclass(eq=False, repr=False)
class NumbaCuda(CallingFrontend):
    kernel: Any
    name: str
    label: str
    rule: LaunchRule
    zero_outputs: bool
    views: tuple[tuple[str | int, Any], ...]
    static: dict[str, Any]
    order: Bound | None
    checked: bool
    vector_math: bool | None

    def __post_init__(self) -> None:
        self.original, given = self.kernel, self.static
        compiled_in = static_values.is_function  # and is no argument of a launch
        functions = {n: v for n, v in given.items() if compiled_in(v) or isinstance(v, Fields)}
        self.kernel = _with_functions(self.label, self.kernel, functions)
        self.parameters = KernelParameters(
            *(self.label, self.original.py_func, given),
            zeroed=self.zero_outputs,
            bound=self.order,
            around=self.kernel.py_func,
        )
        self._passed = {n: v for n, v in given.items() if n not in functions}
        self._lowered: LRUCache[Lowered] = LRUCache(CALLS_KEPT)
        self.place = beginning_of(self.kernel.py_func)

    def state(self) -> Hashable | None:
        """Return the options; None if a function of the launch cannot be hashed."""
        if not all(isinstance(function, Hashable) for _, function in self.rule.functions):
            return None
        options = self.zero_outputs, self.checked, self.vector_math, self.order
        return self.rule, self.views, function_state.key_of(self.static), options

    def functions(self) -> Functions:
        return self.rule.functions

    def make_operation(self, spec: OperationSpec) -> Operation:
        return wrap(super().make_operation(spec), self.original)

    def calling(self, functions: Mapping[str, Any], spec: OperationSpec) -> Operation:
        self.parameters.check_keywords(functions.keys() - self.static.keys())
        values = {**self.static, **functions}
        return replace(self, kernel=self.original, static=values).make_operation(spec)

    def check(self, operands: Types, call: Call) -> None:
        super().check(operands, call)
        views = self._views(self.assign(call).names, (*operands, *call.outs))
        for i, (place, array) in enumerate(self.described(operands, call)):
            if i not in views:
                self.check_dtype(place, array.dtype.name)
        self.rule.resolve(operands, call)

    def _views(self, names: Sequence[str], arrays: Types) -> dict[int, np.dtype[Any]]:
        """The record dtypes of a call's buffers; `names` are the parameters' names."""
        found = {}
        for place, dtype in self.views:
            if isinstance(place, str) and place not in names:
                raise ValueError(
                    f"{self.label}: view contains {place!r}, but the kernel {self.parameters} has "
                    "no array parameter of that name [KB1103]"
                )
            b = names.index(place) if isinstance(place, str) else int(place)
            if not 0 <= b < len(arrays):
                raise ValueError(
                    f"{self.label}: view names parameter {b}, of {len(arrays)} [KB1103]"
                )
            t = arrays[b]
            if not t.shape or t.shape[-1] * t.dtype.itemsize != dtype.itemsize:
                raise ValueError(
                    f"{self.label}: view describes {names[b]!r} as records of {dtype.itemsize} "
                    f"bytes, but it is {t}; its last axis must contain the "
                    f"{dtype.itemsize // t.dtype.itemsize} words of one record [KB1103]"
                )
            found[b] = dtype
            if names[b]:  # an array in place is an input and an output of one name
                found |= {i: dtype for i, name in enumerate(names) if name == names[b]}
        return found

    def _lower(self, operands: Operands, call: Call, target: Target) -> Lowered:
        # Functions of the launch are called at every lowering: what they read may have changed.
        launch = self.rule.resolve(operands, call)
        key = (operands, call, launch, target)
        return self._lowered.find_or_make(key, lambda: self._plan(operands, call, launch, target))

    def _plan(self, operands: Operands, call: Call, launch: Launch, target: Target) -> Lowered:
        from kernbridge._src.numba_cuda import compile as numba_cuda_compile

        label = self.label
        why = dialect.of(self.kernel, target).why_not_native(self.kernel, target.raises)
        if why and (error := target.why_not_by_numba(label, why)):
            raise error
        if why:
            return self._lower_through_numba(why, operands, call, launch, target)

        assignment, arrays = self.assign(call), (*operands, *call.outs)
        arguments, has_batch = self.arguments(assignment, arrays, call), bool(call.levels)
        made, opened = numba_cuda_compile.compiled_launch(
            label, self.kernel, arguments, launch, has_batch, target
        )
        copied = sorted(opened)
        parameters.warn_of_copies(label, copied, assignment.names, REMEDY)
        fills = zeros(arrays, call.fresh if self.zero_outputs else ())
        steps = [*fills, replace(made, zeroed=call.fresh)]
        what = label, self.place, operands, call, assignment.names, steps
        return plan(*what, copied=copied, target=target)

    def _lower_through_numba(
        self, why: str, operands: Operands, call: Call, how: Launch, target: Target
    ) -> Lowered:
        label, kernel, assignment = self.label, self.kernel, self.assign(call)
        if kernel not in _warned:
            _warned.add(kernel)
            warn(
                f"{label}: a kernel with {why} is launched by Numba, through Python, at every "
                "call; without it, the kernel is launched from C, and XLA can include it in a CUDA "
                "graph [KB4014]"
            )
        if any((
            *(how.auto_block, how.cluster, how.pdl, how.cooperative, assignment.named),
            *(self.views, self.static, self.zero_outputs),
        )):  # fmt: skip
            raise ValueError(
                f"{label}: a kernel with {why} is launched by Numba, which does not support "
                'threads_per_block="auto", cluster=, pdl=, cooperative=, view=, static=, '
                "zero_outputs=, or parameters with default values [KB4014]"
            )
        if any(v.kind != "constant" for v in how.grid):
            raise ValueError(
                f"{label}: a kernel with {why} is launched by Numba, and needs constant shapes "
                "[KB4014]"
            )
        grid, block = tuple(v.constant for v in how.grid), how.block
        if 0 in grid:
            fills = zeros((*operands, *call.outs), call.fresh)
            return plan(label, self.place, operands, call, assignment.names, fills, target=target)

        def launch(*arrays: Any) -> None:
            kernel[grid, block, 0, how.shared](*arrays)  # on XLA's stream, see callback.py

        return self.lower_as_python((grid, block), launch, operands, call, target)

    def arguments(self, assignment: Assignment, arrays: Types, call: Call) -> list[Argument]:
        """Each parameter that is not left to its default, and the words of its leaves."""
        views = self._views(assignment.names, arrays)
        given, by_name = iter(assignment.given), False
        names = inspect.signature(self.kernel.py_func).parameters
        arguments: list[Argument] = []
        for name in (n for n in names if n != self.parameters.variadic):
            keyword = name if by_name else ""
            if name in self._passed:
                parameter, words = read_argument(self._passed[name], lambda _: None)
                arguments.append((replace(parameter, keyword=keyword), words))
            elif (b := next(given)) is None:
                by_name = True
            else:
                arguments.append(_passed(b, arrays[b], views.get(b), call, keyword))
        arguments += [_passed(b, arrays[b], views.get(b), call, "") for b in given if b is not None]
        return arguments


def _passed(
    buffer: int, array: ArrayType, view: np.dtype[Any] | None, call: Call, keyword: str
) -> tuple[DeviceParameter, list[list[Word]]]:
    """The parameter that a buffer of a call is passed to, and its words."""
    address = Word("address", buffer=buffer)
    if call.n_inputs <= buffer < call.n_operands:
        return DeviceParameter("loaded", array.dtype, keyword=keyword), [[address]]
    rank = len(array.shape) - (view is not None)
    extents = (Word("extent", buffer=buffer, dim=d) for d in range(rank))
    dtype = array.dtype if view is None else view
    parameter = DeviceParameter("array", dtype, rank, "C", buffer in call.read_only, keyword)
    return parameter, [[address, *extents]]
