"""Numba kernels on the CPU: `numba_kernel` and its front end."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from kernbridge._src.base import debug, settings
from kernbridge._src.base.errors import KernelError
from kernbridge._src.base.lru import LRUCache, attached_to
from kernbridge._src.base.reports import beginning_of, hides_frames
from kernbridge._src.base.struct import Struct
from kernbridge._src.calls.call import Call, Types, wide_types
from kernbridge._src.forge.obtain import deferred, obtain
from kernbridge._src.numba_common import kinds, parameters
from kernbridge._src.numba_common import static as static_values
from kernbridge._src.numba_common import vector_math as libmvec
from kernbridge._src.numba_common.parameters import KernelParameters
from kernbridge._src.numba_cpu.signature import CompileOptions, Signature
from kernbridge._src.operation import origin as operation_origin
from kernbridge._src.operation.inspection import Inspection
from kernbridge._src.operation.operation import OPERATIONS_KEPT, Operation, wrap
from kernbridge._src.operation.primitive import NativeCall
from kernbridge._src.operation.spec import FROM_SIGNATURE, OperationSpec
from kernbridge._src.sharding.rule import ShardingRule

if TYPE_CHECKING:
    from kernbridge._src.numba_cpu.compile import CpuJob, Native

RANK_MAX = 64  # KB_RANK_MAX of src/core/kb_kernel.h
WRAPPERS_MAX = 8  # of one kernel
_OPTIONS = ("debug", "error_model", "fastmath")  # of kernels with static arguments

_wrapped: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by identity


@hides_frames
def numba_kernel(
    kernel: Any,
    outs: Any = FROM_SIGNATURE,
    *,
    name: str | None = None,
    signature: str | None = None,
    inplace: str | None = None,
    vmap_method: str | None = None,
    vmap_threads: bool | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    has_side_effect: bool = False,
    half_as_bits: bool = False,
    zero_outputs: bool = False,
    static: Mapping[str, Any] | None = None,
    vector_math: bool | None = None,
    check: bool = False,
    jvp: Callable[..., Any] | Literal["enzyme"] | None = None,
    vjp: Callable[..., Any] | Literal["enzyme"] | None = None,
    derivatives: Literal["enzyme"] | None = None,
    linear: str | Sequence[str] = (),
    sharding_rule: str | ShardingRule | bool | None = None,
) -> Operation:
    """Make a JAX operation from a Numba kernel for the CPU.

    The kernel works on XLA's buffers in place. It is called with one C-ordered array for each
    input, followed by one for each output, and writes its results into the latter. It runs without
    Python and without the GIL. It is compiled when the operation is first lowered, once for each
    combination of dtypes and ranks and independently of the shapes.

    Parameters
    ----------
    kernel : numba.njit dispatcher
        The kernel. It takes the inputs in order, followed by the outputs, and returns nothing. It
        must write every element of its outputs, unless `zero_outputs` is set. Inputs are read-only
        unless they are aliased. A kernel that nevertheless writes to an input gets a copy of it,
        and a warning is issued once.
    outs : pytree of jax.ShapeDtypeStruct, or a function
        The shape and dtype of each output. The operation returns a pytree of arrays with the same
        structure. A function is called at trace time with one ShapeDtypeStruct for each input and,
        by name, one for each keyword scalar, and returns this pytree, so that one operation serves
        every shape. A dict whose keys are the names of the kernel's output parameters is matched by
        name. Everything else is matched by order, and a dict that JAX would reorder is refused.
    name : str, optional
        The name in messages, jaxprs and profiles, instead of the function's.
    signature : str, optional
        What the kernel takes and returns, such as
        ``"v: f32[n], spiked: bool[n], leak: f32 -> f32[n]"``. It replaces `outs`, and every call is
        checked against it when it is traced. A type is a dtype (``f32``, ``i64``, ``bool``,
        ``any``, or a name such as ``T``, which means the same dtype everywhere) and, in brackets,
        the extents: names, numbers, sums and products of them, and ``...`` for further dimensions,
        the same everywhere. A type without brackets is a number, which the kernel gets as a scalar.
        The name in front of a type is the kernel's parameter, and may be any of them; an item
        without a name is the next parameter. An output with the name of an input is that array,
        changed in place. Arguments of a call may be given by name; ``m.data`` is a field of `m`.
    inplace : str, optional
        Names of inputs that the kernel changes, such as ``"v, w"``. The operation returns them as
        they are afterwards, after the outputs of `signature`. Without a signature, every parameter
        is an input.
    vmap_method : str, optional
        How `jax.vmap` treats the call. By default, the kernel is called once for each slice, in a
        loop in C, and always gets arrays of its declared ranks, however deeply vmaps are nested.
        "sequential" and "sequential_unrolled" do the same. "expand_dims", "broadcast_all" and
        "legacy_vectorized" add the batch to the kernel's arrays as a leading axis, as
        `jax.ffi.ffi_call` does.
    vmap_threads : bool, optional
        Whether the slices of a batch may run at the same time. By default, they are distributed
        over XLA's threads if this saves time and if the kernel provably depends only on its
        arguments. For a kernel that draws random numbers, prints, enters Python, calls code that
        kernbridge does not know, or has `has_side_effect`, they run in order on one thread. False
        keeps this order for every kernel; True allows threads for every kernel except those with
        ``parallel=True``.
    input_output_aliases : dict of int to int, optional
        A dict from the index of an input to the index of an output of the same shape and dtype,
        counted in the order of the kernel's parameters. Both then share the same memory, and the
        kernel may write to the input. Donate the input (`jax.jit(..., donate_argnums=...)`) to
        avoid a copy of it.
    has_side_effect : bool, optional
        Run the kernel even if nothing reads its outputs. Otherwise, JAX treats the operation as a
        pure function, and may run it twice or not at all. Implied by `outs` without any output.
    half_as_bits : bool, optional
        Pass bfloat16 and float16 arrays to the kernel as uint16 arrays of their bits. By default,
        it gets float32 arrays in their place, since Numba has neither type on CPUs: its inputs are
        converted before the call, and its outputs rounded after it. Derivative rules get float32,
        too.
    zero_outputs : bool, default False
        Fill the outputs (not the aliased ones) with zeros before the kernel runs.
    static : dict of str to a constant, optional
        Arguments, by parameter name, that are compiled into the kernel and are not inputs: None,
        numbers, texts, members of enumerations, functions, and tuples of them. A JAX function of
        scalars is inlined, see `inline`. Another value is another kernel, which is compiled.
    vector_math : bool, optional
        Compute `exp`, `sin`, `pow` and similar functions in loops for several elements at a time
        with glibc's libmvec, within 4 ulp of the exact value; see docs/numba-kernels.md. This is
        the default for kernels with ``fastmath=True``. Without libmvec, and on processors other
        than x86-64, the option has no effect.
    check : bool, default False
        Compile the kernel and the functions that it calls so that an index out of bounds is an
        error that names the array, its shape and the line. ``KERNBRIDGE_DEBUG=check`` has the same
        effect.
    jvp, vjp : function or "enzyme", optional
        The derivative for forward and for reverse mode. ``jvp(inputs, outputs, tangents)`` returns
        the tangents of the outputs, with the structure of `outs`.
        ``vjp(inputs, outputs, cotangents)`` returns a tuple with the cotangent of each input.
        `inputs` and `tangents` are tuples that end with the keyword scalars, sorted by name. A rule
        may also take inputs by name, as ``vjp=lambda ct, *, x, w: {"x": ct * w, "w": ct * x}``. Use
        None for zero, and for integer arrays, which have no tangents. Either rule serves both modes
        if JAX can transpose it. With "enzyme", the Enzyme compiler plugin derives the rule from the
        kernel, when a derivative is first lowered; see docs/derivatives.md.
    derivatives : "enzyme", optional
        Stands for "enzyme" as `jvp` and as `vjp`, where these are not given.
    linear : str or sequence of str, optional
        Names of inputs, such as ``"x"`` or ``"x, y"``, in which the kernel is linear, all of them
        together. Its tangent is then the kernel itself, called with tangents in their place, and
        `vjp` is also its transpose, for `jax.linear_transpose` and for JAX's linear solvers. A
        `vjp` rule must not read these inputs and the outputs: the transpose has zeros for them.
    sharding_rule : str, ShardingRule or True, optional
        The dimensions along which a call may be split among the devices of a mesh, such as
        ``"i j, j -> i"`` for the product of a matrix and a vector; see `ShardingRule`. True stands
        for the names in `signature` that are extents by themselves. Batch axes
        of `jax.vmap` are always split. Along all other dimensions, an input is gathered on every
        device before the call, and a warning is issued once.

    Returns
    -------
    Operation
        The operation, called as ``op(*inputs, **scalars)``. Inputs are arrays; scalars among them
        are passed as 0-d arrays. Keyword arguments are scalars for the kernel's parameters of the
        same names, which are then left out of the order of inputs and outputs. Their values may
        change from call to call without another compilation.

    Raises
    ------
    ImportError
        If Numba is not installed.
    TypeError
        If `kernel` is not a numba.njit dispatcher, or if `vmap_threads` or `vector_math` is not a
        bool; when called, if the number of inputs and outputs does not match the kernel, or an
        argument is neither an array nor a scalar; when first lowered, if the kernel returns a
        value.
    ValueError
        If `vmap_method` is unknown or an alias is invalid; when called, if Numba has no type for a
        dtype.
    NoDerivativeError, KernelToolchainError
        When a derivative is first lowered, if Enzyme cannot differentiate the kernel, or is not
        installed.
    KernelCompilationError
        When first lowered, if Numba cannot compile the kernel for the given dtypes and ranks.

    Notes
    -----
    An exception that the kernel raises becomes a JAX error with its type, message, file and line.
    ``KERNBRIDGE_DEBUG=poison`` finds output elements that the kernel does not write.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numba, kernbridge
    >>> @numba.njit
    ... def add(x, y, out):
    ...     for i in range(out.size):
    ...         out[i] = x[i] + y[i]
    >>> op = kernbridge.numba_kernel(add, jax.ShapeDtypeStruct((3,), jnp.float32))
    >>> op(jnp.arange(3.0), jnp.ones(3))
    Array([1., 2., 3.], dtype=float32)
    """
    _check_dispatcher(kernel)
    if vector_math is not None:  # None stands for the default, also where it is given
        vector_math = None if vector_math == libmvec.is_default(kernel) else bool(vector_math)
    options = CompileOptions(bool(check) or debug.checks(), bool(zero_outputs), vector_math)
    shown = parameters.name_of("numba_kernel", kernel.py_func, name)
    label = f"numba_kernel {shown!r}"
    values = static_values.read(label, kernel.py_func, static, static_values.refusal_on_cpus)
    declared = parameters.read_signature(label, kernel.py_func, signature, inplace, values)
    order = declared.bound if declared else None
    values |= declared.fields if declared else {}
    variant = Variant(options, bool(half_as_bits), order, (shown, label) if name else None)
    frontend = NumbaCpu.of(kernel, variant, values)
    spec = OperationSpec.of(locals(), frontend.label, outs, signature=declared)
    return frontend.operation(spec, frontend._operations)


class Variant(Struct):
    """What the front ends of one kernel differ in."""

    options: CompileOptions
    half_as_bits: bool = False
    order: parameters.Bound | None = None  # of its parameters, if there is a signature
    named: tuple[str, str] | None = None  # the name and the label, if they are not the kernel's


class NumbaCpu(parameters.PythonFrontend):
    """A Numba kernel as a front end. One per dispatcher and variant, kept by the dispatcher."""

    platforms: tuple[str, ...] = ("cpu",)

    def __init__(
        self, kernel: Any, variant: Variant, original: Any, static: dict[str, Any]
    ) -> None:
        """`kernel` is the original one, with the values of static parameters compiled into it."""
        self.kernel, self._variant = kernel, variant
        self.original, self.static = original, static
        name: str = kernel.py_func.__name__
        self.name, self.label = variant.named or (name, f"numba_kernel {name!r}")
        self.options = variant.options
        self.parameters = KernelParameters(
            self.label, original.py_func, static, bound=variant.order, around=kernel.py_func
        )
        self._home, self.place = _name_of(kernel), beginning_of(original.py_func)
        _wrapped[id(kernel)] = kernel
        self._operations: LRUCache[Operation] = LRUCache(OPERATIONS_KEPT)
        self._jobs: dict[Signature, CpuJob] = {}

    @classmethod
    def of(
        cls, kernel: Any, variant: Variant, static: Mapping[str, Any] = MappingProxyType({})
    ) -> NumbaCpu:
        import numba

        given = {n: kernel.targetoptions[n] for n in _OPTIONS if n in kernel.targetoptions}
        bound = static_values.bound(kernel, static, numba.njit(**given), kernel)
        key = ("numba_kernel", variant)
        return attached_to(bound, key, lambda: cls(bound, variant, kernel, dict(static)))

    def calling(self, functions: Mapping[str, Any], spec: OperationSpec) -> Operation:
        self.parameters.check_keywords(functions.keys() - self.static.keys())
        frontend = self.of(self.original, self._variant, {**self.static, **functions})
        return frontend.make_operation(spec)

    def new_job(self, signature: Signature, checked: bool = True) -> CpuJob:
        """Describe the compilation for a signature, of the kernel as it reads now."""
        from kernbridge._src.numba_cpu.compile import CpuJob

        options = dataclasses.replace(self.options, checked=self.options.checked and checked)
        return CpuJob(self.kernel, self.parameters, signature, options)

    def widened(self, types: Types) -> Types:
        return types if self._variant.half_as_bits else wide_types(types)

    def check(self, operands: Types, call: Call) -> None:
        """Refuse what the kernel cannot take. Whether it returns a value is known when lowered."""
        super().check(operands, call)
        for place, array in self.described(operands, call):
            self.check_dtype(place, array.dtype.name)

    def make_operation(self, spec: OperationSpec) -> Operation:
        return wrap(super().make_operation(spec), self.original)

    def lower(self, platform: str, operands: Types, call: Call) -> NativeCall:
        signature = Signature.of(operands, call)
        job, native = self._obtain(signature)
        module, qualname = self._home
        if not job.origin:  # kernels are lowered for one shape after the other
            options = {k: v for k, v in dataclasses.asdict(self.options).items() if v is not None}
            bound, why_by_name = self.parameters.bound, native.why_not
            job.origin = operation_origin.write(
                "numba",
                module=module,
                qualname=qualname,
                half_as_bits=self._variant.half_as_bits,
                options=options,
                **dataclasses.asdict(signature),
                **({"bound": bound} if bound else {}),
                **({"why_by_name": why_by_name} if why_by_name else {}),
            )
        return NativeCall(
            target=debug.host_target(),
            digest=job.identity,
            key=job.key,
            origin=job.origin,
            copied=native.copied,
            why_not_portable=job.why_not_portable,
            program=native.program,
            named=f"{module or '<no module>'}:{qualname}",
        )

    def _obtain(self, signature: Signature) -> tuple[CpuJob, Native]:
        """The compilation for a signature: the same one in each program that is lowered."""
        job = self._jobs.get(signature)
        if job is None:
            job = self._jobs.setdefault(signature, self.new_job(signature))
        return job, obtain(job)

    def inspect(self, operands: Types, call: Call) -> tuple[Inspection, ...]:
        from kernbridge._src.numba_common.private_llvmlite import binding

        job, native = self._obtain(Signature.of(operands, call))
        with deferred():  # the library is built for that, unless the machine code is in it
            entry = native.entry or job.build()[0]
        code = entry.library.get_llvm_str(), entry.library.get_asm_str()
        cpu = binding.get_host_cpu_name()
        return (Inspection(self.name, "cpu", *code, architecture=cpu, export=native.export()),)


def needs_numba(name: str) -> None:
    try:
        import numba  # noqa: F401
    except ImportError as e:
        raise ImportError(
            f"{name} needs Numba, which cannot be imported: pip install numba [KB4016]"
        ) from e


def _check_dispatcher(kernel: Any) -> None:
    needs_numba("numba_kernel")
    from kernbridge._src.numba_common import private_numba

    if not isinstance(kernel, private_numba.CPUDispatcher):
        raise kinds.refusal("numba_kernel", kernel)


def _name_of(kernel: Any) -> tuple[str, str]:
    return kernel.py_func.__module__, kernel.py_func.__qualname__


def resolve(digest: bytes, origin: dict[str, Any]) -> None:
    """Register the kernel that a program from elsewhere names; see `operation/origin.py`."""
    module, qualname = name = str(origin["module"]), str(origin["qualname"])
    options = {str(k): bool(v) for k, v in origin.get("options", {}).items()}
    signature = Signature(
        inputs=_arrays(origin["inputs"]),
        scalars=tuple((str(n), str(d)) for n, d in origin["scalars"]),
        outputs=_arrays(origin["outputs"]),
        aliased=tuple(int(i) for i in origin["aliased"]),
    )
    sides = origin.get("bound")
    order = sides and (tuple(map(str, sides[0])), tuple(map(str, sides[1])))
    variant = Variant(CompileOptions(**options), bool(origin["half_as_bits"]), order)
    found, failure = _candidates(name)
    for kernel in found:
        _check_dispatcher(kernel)
        job = NumbaCpu.of(kernel, variant).new_job(signature)
        if job.identity == digest:
            obtain(job)
            return
    place = f"{module}:{qualname}"
    why = origin.get("why_by_name")
    by_name = f" It does not contain the machine code of the kernel, because {why}." if why else ""
    if found:
        raise KernelError(
            f"the kernel {place} in this process differs from the one that the program was "
            "exported with: in its code, a value that it captures, or an option of numba.njit. "
            f"Export the program again.{by_name} [KB5107]"
        )
    if module not in sys.modules and not settings.may_import(module):
        raise KernelError(
            f"the program needs the kernel {place}, and the module {module!r} is not imported "
            "here. Importing a module runs its code, so a program may not name one by itself: "
            f"import {module} before the program is run; or, if you trust who made the program, "
            f"let programs import it with kernbridge.config.allow_imports({module!r}) or "
            f"{settings.ALLOW_IMPORTS}={module}.{by_name}"
            " [KB5107]"
        )
    raise KernelError(
        f"the program needs the kernel {place}, which was not found in this process: {failure}. "
        "The program refers to the kernel by name: define it at the top level of a module that "
        "this process can import, or wrap it with numba_kernel before the program is "
        f"loaded.{by_name} [KB5107]"
    )


def _arrays(described: Any) -> tuple[tuple[str, int], ...]:
    """Return the dtypes and ranks of arrays; a rank that no array has takes Numba without end."""
    arrays = tuple((str(dtype), int(rank)) for dtype, rank in described)
    for _, rank in arrays:
        if not 0 <= rank <= RANK_MAX:
            raise ValueError(f"an array of rank {rank}")
    return arrays


def _candidates(name: tuple[str, str]) -> tuple[list[Any], str]:
    """Dispatchers of that name: those wrapped here, and the one in its module.

    A module that is not imported yet is imported only if the user allows it, as that runs its code.
    What a module makes on demand, by its function ``__getattr__``, is not looked for: the program
    would choose what the module runs, or imports, by the name.
    """
    wrapped = (reference() for reference in _wrapped.valuerefs())
    found = [kernel for kernel in wrapped if kernel is not None and _name_of(kernel) == name]
    module, qualname = name
    if module not in sys.modules and not settings.may_import(module):
        return found, f"{module} is not imported"
    try:
        value: Any = importlib.import_module(module)
    except (ImportError, AttributeError) as e:
        return found, f"{type(e).__name__}: {e}"
    try:
        for part in qualname.split("."):
            value = _attribute(value, part)
    except AttributeError:
        return found, f"module {module!r} has no attribute {qualname!r}"
    # The name of a decorated kernel refers to its operation, or to what jax.jit made of it.
    with suppress(AttributeError):
        for _ in range(WRAPPERS_MAX):
            if _has_function(value):
                break
            value = _attribute(value, "__wrapped__")
    if _has_function(value) and all(value is not kernel for kernel in found):
        found.append(value)
    return found, f"{module}.{qualname} is a {type(value).__name__}, expected a numba.njit function"


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute that is there, without running code that would make it."""
    found = inspect.getattr_static(value, name)
    return found.__func__ if isinstance(found, staticmethod) else found


def _has_function(value: Any) -> bool:
    return inspect.getattr_static(value, "py_func", None) is not None
