"""`numba_cuda_callable` and its front end: Python functions that launch Numba-CUDA kernels."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from kernbridge._src.base import debug
from kernbridge._src.base.errors import KernelError
from kernbridge._src.base.lru import LRUCache, attached_to
from kernbridge._src.base.reports import beginning_of, hides_frames, warn
from kernbridge._src.calls.call import Call, Operands, Types
from kernbridge._src.keys.function_state import identity_of
from kernbridge._src.numba_common import parameters
from kernbridge._src.numba_common.static import calling
from kernbridge._src.numba_cuda.callback import REMEDY, CallingFrontend
from kernbridge._src.operation.operation import OPERATIONS_KEPT, Operation, Verified
from kernbridge._src.operation.spec import FROM_SIGNATURE, Functions, OperationSpec
from kernbridge._src.plan.frontend import Lowered, plan
from kernbridge._src.plan.program import Copy, Fill, Launch, renumbered
from kernbridge._src.plan.targets import Target
from kernbridge._src.record import record as recorder
from kernbridge._src.sharding.rule import ShardingRule
from kernbridge._src.toolchain import cuda

RECORD = ("auto", "always", "never")


@hides_frames
def numba_cuda_callable(
    func: Callable[..., Any],
    outs: Any = FROM_SIGNATURE,
    *,
    name: str | None = None,
    signature: str | None = None,
    inplace: str | None = None,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    record: str = "auto",
    vector_math: bool | None = None,
    has_side_effect: bool = False,
    jvp: Callable[..., Any] | Literal["enzyme"] | None = None,
    vjp: Callable[..., Any] | Literal["enzyme"] | None = None,
    derivatives: Literal["enzyme"] | None = None,
    linear: str | Sequence[str] = (),
    sharding_rule: str | ShardingRule | None = None,
) -> Operation:
    """Make a JAX operation from a Python function that launches Numba-CUDA kernels.

    The function is called with one device array for each input, one for each output, and a stream,
    on which it launches kernels that fill the outputs. It is recorded: when the operation is
    lowered, it runs once for each combination of shapes and dtypes, with stand-ins for the arrays.
    Its launches, temporaries, fills and copies become a plan, which C code replays. No Python code
    is executed at run time, and XLA may include the plan in a CUDA graph.

    Parameters
    ----------
    func : callable
        ``func(input_1, ..., output_1, ..., stream)``. It may launch any number of ``@cuda.jit``
        kernels (``kernel[grid, block, stream, shared](...)`` or ``kernel.forall``) with arrays,
        numbers, members of enumerations, elements of arrays of records, and tuples of these;
        allocate ``cuda.device_array`` temporaries; slice, reshape, ravel, transpose, view, fill and
        copy device arrays (``a[:] = 0``, ``a.copy_to_device(b)``); loop and branch on shapes; and
        call helper functions. It runs twice at each lowering, and must write every element of the
        outputs.
    outs, name, signature, inplace, input_output_aliases, has_side_effect
        As for `numba_cuda_kernel`. A signature does not mention the stream.
    vmap_method : str, optional
        By default, the function always gets arrays of the declared ranks, and each step of the plan
        is executed for all slices of `jax.vmap`: as one launch with the batch in the z axis of the
        grid, or, for kernels that use z, as one launch for each slice. The named methods have the
        same meanings as in JAX.
    record : {"auto", "always", "never"}, default "auto"
        What happens if the function cannot be recorded, because it reads elements on the host,
        passes an array to another library, or behaves differently each time that it runs (draws
        random numbers, counts, or reads a clock). "auto": it runs as Python code at each call, with
        the GIL, on real Numba arrays, and a warning names the line. "always": a KernelError names
        the line. "never": it always runs as Python code, on copies of the inputs that are not
        aliased. On the CPU, it runs inside `cuda_on_cpu`.
    vector_math : bool, optional
        As for `numba_cuda_kernel`, for every kernel that the function launches. If the function
        runs as Python code, only the ``fastmath`` option of each kernel counts.
    jvp, vjp, derivatives, linear, sharding_rule : optional
        The derivative, inputs in which the function is linear, and the dimensions along which
        devices split a call; see `numba_kernel`.

    Returns
    -------
    Operation
        The operation, called as ``op(*inputs, **scalars)``. Keyword arguments are scalars for the
        parameters of the same names. They may be passed to kernels, and their values may change
        from call to call. ``op.plan(*inputs)`` returns the steps.

    Raises
    ------
    ImportError
        If Numba-CUDA is missing.
    TypeError
        If `func` is not callable; when called, if the number of arrays does not fit the function.
    ValueError
        If an option is invalid; when called, if an input has rank 0, or Numba-CUDA has no type for
        a dtype.
    KernelError
        When first lowered, if the function cannot be recorded and ``record="always"``, or does not
        use an output.
    KernelCompilationError
        When first lowered, if Numba-CUDA refuses a kernel.

    Notes
    -----
    With the environment variable ``KERNBRIDGE_DEBUG=verify``, every recorded function is also run
    unrecorded. It is an error if the results differ.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, kernbridge
    >>> from numba import cuda
    >>> @cuda.jit
    ... def square(x, y):
    ...     i = cuda.grid(1)
    ...     if i < y.size:
    ...         y[i] = x[i] * x[i]
    >>> def fourth_power(x, out, stream):
    ...     squared = cuda.device_array(x.shape, x.dtype)
    ...     square[1, 32, stream](x, squared)
    ...     square[1, 32, stream](squared, out)
    >>> op = kernbridge.numba_cuda_callable(
    ...     fourth_power, jax.ShapeDtypeStruct((3,), jnp.float32)
    ... )
    >>> op(jnp.arange(3.0))
    Array([ 0.,  1., 16.], dtype=float32)
    """
    cuda.require("numba_cuda_callable")
    if "CUDADispatcher" in type(func).__name__:
        raise TypeError(
            f"numba_cuda_callable: `func` is {func!r}, a kernel, expected a function that "
            "launches kernels; pass a kernel to numba_cuda_kernel [KB1001]"
        )
    name = parameters.name_of("numba_cuda_callable", func, name)
    label = f"numba_cuda_callable {name!r}"
    if record not in RECORD:
        raise ValueError(f"{label}: record is {record!r}, expected one of {RECORD} [KB1005]")
    stream = list(inspect.signature(func).parameters)[-1:]
    declared = parameters.read_signature(label, func, signature, inplace, stream)
    spec = OperationSpec.of(locals(), label, outs, signature=declared)
    kept = _of_objects
    if type(func) is types.FunctionType:
        kept = attached_to(func, "numba_cuda_callable", lambda: LRUCache(OPERATIONS_KEPT))
    vectors = None if vector_math is None else bool(vector_math)
    order = declared.bound if declared else None
    if declared and declared.fields:
        func = calling(func, func, declared.fields)
    return NumbaCudaCallable(func, name, label, record, vectors, order).operation(spec, kept)


_of_objects: LRUCache[Operation] = LRUCache(OPERATIONS_KEPT)
"""Operations of methods, partials and callable objects. Nothing is attached to these objects, which
users pickle and copy, so this keeps the objects alive until others take their places."""


@dataclass(eq=False, repr=False)
class NumbaCudaCallable(CallingFrontend):
    function: Callable[..., Any]
    name: str
    label: str
    record: str
    vector_math: bool | None = None  # of the kernels
    order: parameters.Bound | None = None  # of the parameters, if there is a signature

    warns_of_unused = False  # a function that is recorded is refused

    def __post_init__(self) -> None:
        self.parameters = parameters.KernelParameters(
            self.label, self.function, has_stream=True, bound=self.order
        )
        self._warned = False
        self.place = beginning_of(self.function)

    def functions(self) -> Functions:
        return [(self.name, self.function)]

    def state(self) -> Hashable:
        return identity_of(self.function), self.record, self.vector_math, debug.verifies()

    def make_operation(self, spec: OperationSpec) -> Operation:
        if not debug.verifies() or self.record == "never":
            return Operation(spec, self)
        return Verified(spec, self, replace(self, record="never", vector_math=None))

    def check(self, operands: Types, call: Call) -> None:
        super().check(operands, call)
        names = self.assign(call).names
        for i, (place, array) in enumerate(self.described(operands, call)):
            if i < call.n_inputs and not array.shape:
                raise ValueError(
                    f"{self.label}: input {i} ({names[i]}) has rank 0, which a device array "
                    "cannot have; pass a 1-d array, jnp.array([value]), or pass it by keyword: "
                    f"{names[i]}=value [KB2003]"
                )
            self.check_dtype(place, array.dtype.name)

    def _lower(self, operands: Operands, call: Call, target: Target) -> Lowered:
        if self.record == "never":
            return self._as_python(operands, call, target)
        for t, name in zip((*operands, *call.outs), self.assign(call).names, strict=False):
            if not all(isinstance(n, (int, np.integer)) for n in t.shape):
                raise ValueError(
                    f"{self.label}: {name!r} has the symbolic shape {t.shape}; a function is "
                    "recorded for one shape: export it with constant shapes [KB2003]"
                )
        try:
            return self._recorded(operands, call, target)
        except recorder.NotRecordable as e:
            why = str(e)
        if self.record == "always":
            raise KernelError(
                f"{self.label} cannot be recorded: {why}. Move the code that needs elements on "
                'the host out of the function, or pass record="auto" to run it as Python at every '
                "call [KB4012]"
            )
        if not self._warned:
            self._warned = True
            warn(
                f"{self.label} cannot be recorded, and runs as Python at every call, with the "
                f'GIL: {why}. Pass record="never" to silence this warning. [KB4013]'
            )
        return self._as_python(operands, call, target)

    def _recorded(self, operands: Operands, call: Call, target: Target) -> Lowered:
        recording, names = recorder.record(self, operands, call, target), self.assign(call).names
        reached: set[int] = set()  # buffers that a step can have written
        for step in recording.steps:
            if isinstance(step, Launch):
                reached.update(w.buffer for w in step.words if w.kind == "address")
            elif isinstance(step, (Copy, Fill)):
                reached.add(step.to_buffer if isinstance(step, Copy) else step.buffer)
        for buffer in call.fresh:
            out, name = call.outs[buffer - call.n_operands], names[buffer]
            if buffer not in reached and 0 not in out.shape:
                raise KernelError(
                    f"{self.label}: the function passes the output {name!r} to no kernel, and "
                    f"neither fills it nor copies to it, so the output is never written. Write "
                    f"{name}[:] = ..., pass it to a kernel, or remove it from `outs` [KB1008]"
                )
        copied = sorted(recording.opened)
        parameters.warn_of_copies(self.label, copied, names, REMEDY)
        first_temporary = call.n_operands + len(call.outs)

        def number(buffer: int) -> int:
            """Temporaries are after the copies, whose number is known when the recording ends."""
            return buffer + len(copied) if buffer >= first_temporary else buffer

        steps = [renumbered(step, number) for step in recording.steps]
        return plan(
            *(self.label, self.place, operands, call, names, steps),
            copied=copied,
            temporaries=recording.temporaries,
            target=target,
        )

    def _as_python(self, operands: Operands, call: Call, target: Target) -> Lowered:
        names = self.assign(call).names
        self.parameters.warn_of_unwritten([names[b] for b in call.fresh], unused=True)
        return self.lower_as_python(None, self.function, operands, call, target)
