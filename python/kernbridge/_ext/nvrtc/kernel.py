"""`cuda_kernel`: operations from CUDA kernels in source code, without nvcc, and their front end."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import struct
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from kernbridge import _core
from kernbridge._ext.emulator.cuda_source import CPP_ON_CPU
from kernbridge._ext.nvrtc import nvrtc
from kernbridge._src.base import errors, settings
from kernbridge._src.base.exact import exact_items
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.packing import sealed
from kernbridge._src.base.private_jax import Tracer
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.calls.call import ArrayType, Call, Types
from kernbridge._src.keys import function_state
from kernbridge._src.operation import spec as specs
from kernbridge._src.operation.operation import Operation, about, as_html, shown
from kernbridge._src.operation.primitive import watching
from kernbridge._src.plan.frontend import Lowered, PlannedFrontend, plan, zeros
from kernbridge._src.plan.launch import LaunchRule, find_dim
from kernbridge._src.plan.program import Program, Value, Word
from kernbridge._src.plan.targets import Target, gpu_platforms
from kernbridge._src.scan import functions as scanned
from kernbridge._src.scan import scanner
from kernbridge._src.scan.annotation import Source
from kernbridge._src.scan.functions import ScannedFunction, ScannedParameter, join_tokens
from kernbridge._src.sharding.rule import ShardingRule
from kernbridge._src.signatures.array_types import is_variable
from kernbridge._src.signatures.call_signature import CallSignature
from kernbridge._src.source.load import A_FILE
from kernbridge._src.toolchain import build
from kernbridge._src.toolchain.library import CUDA_ON_CPU, Request

_KEPT = 256  # operations of one kernel, by the values of attributes
_TRACED_KEPT = 64  # front ends whose calls were traced, and may be lowered next
THREADS_MAX = 16
_Tokens = str | Sequence[str] | None

_thread = threading.local()


def scan(
    label: str, file: str, text: str, name: str, params: _Tokens, machine_code: bool = False
) -> ScannedFunction:
    """Read a kernel's parameters in its source, or in `params`.

    The parameters of machine code have no types, so `params` must declare its arrays.
    """
    try:
        return scanner.scan_kernel(Source([(file, text)]), name, join_tokens(params), machine_code)
    except ValueError as e:
        raise errors.KernelError(errors.coded(f"{label}: {e}", "KB4007")) from None


def names_for_rules(function: ScannedFunction, defaults: Mapping[str, Any]) -> list[str]:
    """Return the names of the attributes that derivative rules get, which are not functions."""
    return [p.name for p in function.attributes if not callable(defaults.get(p.name))]


@dataclass(eq=False, repr=False)
class CudaKernelFrontend(PlannedFrontend):
    """A kernel with values of its attributes: its launch, and its code or what NVRTC compiles."""

    label: str
    file: str
    scanned: ScannedFunction  # with the parameters of the kernel
    rule: LaunchRule
    zero_outputs: bool
    code: nvrtc.NvrtcFunction | nvrtc.Compilation
    signature: CallSignature | None
    values: Mapping[str, Any]
    checked: bool

    def __post_init__(self) -> None:
        self.order: tuple[tuple[str, ...], ...] = self.signature.bound if self.signature else ()
        self.name, self.place, self.of_gpus = self.scanned.name, self.file, gpu_platforms()
        self.function = self._of_call(self.scanned)
        on_cpu = ("cpu",) if isinstance(self.code, nvrtc.Compilation) else ()
        self.platforms = tuple(dict.fromkeys((*self.of_gpus, *on_cpu)))
        self._is_compiled = False

    def _of_call(self, function: ScannedFunction) -> ScannedFunction:
        """The function with parameters in the order of a call; of an array that it changes, two."""
        by_name = {p.name: p for p in function.parameters}
        arrays = [
            by_name[name]._replace(role=role)
            for role, names in zip(("arg", "ret"), self.order, strict=False)
            for name in names
        ]
        return function._replace(parameters=(*arrays, *function.attributes)) if arrays else function

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return self.function.parameter_names

    def buffer_names(self, n_inputs: int, scalars: Sequence[str], n_outputs: int) -> Sequence[str]:
        return self.function.buffer_names(n_inputs + len(scalars))

    def compilation(self, platform: str) -> tuple[Callable[[Any], object], Hashable] | None:
        """Return a function and its argument that compile the kernel, if that is still to do."""
        code = self.code
        if not isinstance(code, nvrtc.Compilation) or self._is_compiled:
            return None
        if platform in self.of_gpus or not platform:
            return nvrtc.compile_kernel, code
        return _compile_for_cpu, (code, self.rule.cooperative, self._target(platform).checked)

    def program(self, operands: Types, call: Call) -> Program:
        return self._lower(tuple(operands), call, self._target_here())[1]

    def functions(self) -> specs.Functions:
        attributes = [(name, value) for name, value in self.values.items() if callable(value)]
        return [*self.rule.functions, *attributes]

    def check(self, operands: Types, call: Call) -> None:
        self._check_arrays(self.function, operands, call.outs)
        self.function.check_arrays(self.label, operands, call)
        self.rule.resolve(operands, call)
        self._numbers(self.function, operands, call.outs)

    def _check_arrays(self, function: ScannedFunction, inputs: Types, outs: Types) -> None:
        for what, role, arrays in (("input", "arg", inputs), ("output", "ret", outs)):
            pointers = function.having(role)
            if len(pointers) != len(arrays):
                listed = ", ".join(f"{p.ctype} {p.name}".strip() for p in self.scanned.parameters)
                raise TypeError(
                    f"{self.label} takes {errors.counted(len(pointers), what)}, and the call has "
                    f"{len(arrays)}; its parameters are ({listed}): pointers to const are inputs, "
                    "unless params= says otherwise [KB2001]"
                )
            for i, (pointer, array) in enumerate(zip(pointers, arrays, strict=True)):
                if pointer.type and pointer.type != array.dtype.name:
                    raise TypeError(
                        f"{self.label}: {what} {i} is {array}, and the kernel's parameter "
                        f"{pointer.name!r} is {pointer.ctype}, expected {pointer.type}; convert "
                        "the array, or make the kernel a template [KB2007]"
                    )

    def _numbers(self, function: ScannedFunction, inputs: Types, outs: Types) -> dict[str, Any]:
        """Return each attribute: bytes, a value of unknown type, or where C reads a symbol."""
        numbers = {}
        for p in function.attributes:
            value = self.values[p.name]
            if callable(value):
                value = specs.call_with_shapes(self.label, f"attrs[{p.name!r}]", value, inputs, {})
            if jax.export.is_symbolic_dim(value):
                found = find_dim(value, (*inputs, *outs))
                types = "", "int32", "int64", "uint64"
                if found is None or found.divisor != 1 or p.type not in types:
                    raise ValueError(
                        f"{self.label}: attribute {p.name!r} ({p.ctype}) is the symbolic number "
                        f"{value}, and must be an extent or the size of an input or output, for an "
                        "int or int64_t [KB2006]"
                    )
                value = found
            elif p.type and not isinstance(value, bytes):
                value = scanned.encode_attribute(self.label, p, value)
            numbers[p.name] = value
        return numbers

    def _lower(self, operands: tuple[ArrayType, ...], call: Call, target: Target) -> Lowered:
        rule, code = self.rule, self.code
        if not isinstance(code, nvrtc.Compilation):
            compiled = code
        elif target.language == "cuda":
            compiled = nvrtc.compile_kernel(code)
        elif target.language != CUDA_ON_CPU:
            raise errors.KernelNotAvailableError(
                f"{self.label} was lowered for a machine whose target does not compile CUDA C++; "
                "write the kernel with Numba-CUDA, or commit the inputs to a GPU, "
                "jax.device_put(x, jax.devices('cuda')[0]) [KB7001]"
            )
        elif rule.cluster is not None:
            raise errors.KernelCompilationError(
                f"{self.label}: the launch has a cluster, which kernbridge does not run on CPUs; "
                "run it on a GPU [KB4005]"
            )
        else:
            compiled = _compile_for_cpu((code, rule.cooperative, target.checked))
        self._is_compiled = True
        # Functions of shapes are called at every lowering: what they read may have changed.
        launch = rule.resolve(operands, call)
        function = self.typed(compiled.types, operands, call.outs)
        sizes = (*compiled.sizes, *compiled.offsets)
        words = self.words(function, sizes, operands, call.outs)
        fills = zeros((*operands, *call.outs), call.fresh if self.zero_outputs else ())
        if compiled.by_words:
            compiled = replace(compiled, sizes=(8,) * len(words))
        step = replace(launch, function=compiled, words=words, zeroed=call.fresh)
        what = self.label, self.file, operands, call, self.parameter_names, (*fills, step)
        return plan(*what, target=target)

    def typed(self, types: Any, inputs: Types, outs: Types) -> ScannedFunction:
        """The kernel with the types that its compiler knows, which these arrays must have."""
        function = nvrtc.check_types(self.label, self.scanned, types)
        self._check_arrays(self._of_call(function), inputs, outs)
        return function

    def words(
        self, function: ScannedFunction, sizes: Sequence[int], inputs: Types, outs: Types
    ) -> tuple[Word, ...]:
        """What a launch gives, by the sizes of the parameters and then the offsets of members."""
        numbers = self._numbers(function, inputs, outs)
        next_buffer = {"arg": 0, "ret": len(inputs)}
        # An output has the parameter of the input that it replaces.
        named = {n: b for b, n in enumerate(n for side in self.order for n in side)}
        pairs = list(zip(function.parameters, sizes, strict=True))
        offsets = {p.name: offset for p, offset in pairs}
        words: list[Word] = []
        for p, size in pairs[: len(pairs) - len(getattr(self.code, "members", ()))]:
            if p.role == "attr":
                words += self._number(p, size, numbers[p.name])
            elif p.role == "structure":
                assert self.signature is not None
                own = {offsets[q.name]: q.name for q in self.signature.arguments[p.name]}
                if sorted(own) != [*range(0, size, 8)]:
                    raise errors.KernelError(
                        f"{self.label}: the kernel's parameter '{p.ctype} {p.name}' has other "
                        f"members than those that the signature '{self.signature}' names; name "
                        "each, and pass numbers as parameters of the kernel [KB4007]"
                    )
                words += [Word("address", buffer=named[own[offset]]) for offset in sorted(own)]
            else:
                words.append(Word("address", buffer=named.get(p.name, next_buffer[p.role])))
                next_buffer[p.role] += 1
        return tuple(words)

    def _number(self, p: ScannedParameter, size: int, value: Any) -> list[Word]:
        if isinstance(value, Value):
            return [Word(value.kind, buffer=value.buffer, dim=value.dim)]
        if isinstance(value, jax.Array) and not isinstance(value, Tracer):
            value = np.asarray(value)[()]
        if isinstance(value, bytes):
            data = value
        elif isinstance(value, (np.generic, np.ndarray)):
            data = value.tobytes()
        else:
            raise TypeError(
                f"{self.label}: attribute {p.name!r} is {value!r}, and the type of the kernel's "
                f"parameter ({p.ctype or 'unknown'}, {size} bytes) is not known; pass a NumPy "
                "scalar of that type, such as numpy.float32(...), or write "
                f"attr.{p.name}:float32 in params= [KB2006]"
            )
        if len(data) != size:
            raise TypeError(
                f"{self.label}: attribute {p.name!r} is {p.type or value!r} of {len(data)} bytes, "
                f"and the kernel's parameter takes {size} [KB2006]"
            )
        words = np.frombuffer(data + bytes(-len(data) % 8), np.int64)
        return [Word("constant", value=int(n)) for n in words]


def _compile_for_cpu(given: tuple[nvrtc.Compilation, bool, bool]) -> nvrtc.NvrtcFunction:
    """Return the kernel for the CPU, which the host's C++ compiler compiles as it does modules.

    The library describes the kernel's parameters itself, and the core finds it by the digest of an
    image, as it finds the code of Numba-CUDA's kernels. Exported programs contain the library, or
    its loops if it has some.
    CompilationError is raised if the compiler refuses the source, KernelCompilationError if only
    GPUs have what it uses.
    """
    request, cooperative, checked = given
    built = build.build(
        Request(
            name=request.name.split("<")[0].replace("::", "."),
            language=CUDA_ON_CPU,
            source=request.unit(),
            spec="",
            cflags=request.options,
            include_paths=request.include_paths,
            checked=checked,
        )
    )
    n, name = len(request.members), request.name
    return _loaded_for_cpu(request.label, name, built.digest, cooperative, built.path, n)


@functools.cache  # never released, since programs call them
def _loaded_for_cpu(
    label: str, name: str, built: str, cooperative: bool, path: Path, n_members: int
) -> nvrtc.NvrtcFunction:
    text = f"{_core.HOST_ABI_LINE}{_core.HOST_ABI}\n{CPP_ON_CPU}{built} {cooperative}\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    body = struct.pack("<I", cooperative) + path.read_bytes()
    code = sealed(_core.CUDA_LIBRARY_MAGIC, _core.HOST_ABI, digest.encode(), body)
    *numbers, loops = _core.add_host_library(digest.encode(), code, label)
    codes, sizes = (tuple(memoryview(data).cast("i")) for data in numbers)
    end = len(sizes) - n_members
    image = f"{digest}\n{text}\0".encode()
    if has_loops := loops != b"" and not cooperative:
        from kernbridge._ext.emulator.compiler.compile import host_code

        image, code = loops, host_code(loops, label).data
    return nvrtc.NvrtcFunction(
        identity=bytes.fromhex(image[:64].decode()),
        name=name,
        entry=name,
        sizes=sizes[:end],
        images=((_core.HOST_CC, image), (_core.HOST_CODE_CC, code)),
        types=nvrtc.Compilation.types_of(codes),
        offsets=sizes[end:],
        by_words=has_loops,
    )


def _compile_together(frontend: Any, platform: str) -> None:
    """Note what is traced, and compile all of it before the next lowering, in several threads.

    JAX lowers the calls of a program one after the other, after it has traced them all. When the
    first of them is lowered, threads compile the kernels of all, and the lowering waits for them.
    Errors are raised by the call, which compiles again when it is lowered.
    """
    traced: deque[weakref.ref[CudaKernelFrontend]]
    traced = vars(_thread).setdefault("traced", deque(maxlen=_TRACED_KEPT))
    if not platform:
        if isinstance(frontend, CudaKernelFrontend) and frontend.compilation("") is not None:
            traced.append(weakref.ref(frontend))
        return
    found = [reference() for reference in traced]
    traced.clear()
    works = [f.compilation(platform) for f in found if f is not None and platform in f.platforms]
    distinct = [work for work in dict.fromkeys(works) if work is not None]
    if len(distinct) > 1:
        n_threads = min(len(distinct), len(os.sched_getaffinity(0)), THREADS_MAX)
        pool = ThreadPoolExecutor(n_threads, thread_name_prefix="kernbridge-compile")
        running = [pool.submit(function, given) for function, given in distinct]
        pool.shutdown(wait=False)
        wait(running)


watching.append(_compile_together)


@hides_frames
def cuda_kernel(
    source: str,
    name: str,
    outs: Any = specs.FROM_SIGNATURE,
    *,
    signature: str | None = None,
    inplace: str | None = None,
    grid: Any = None,
    block: Any = None,
    launch_dims: Any = None,
    threads_per_block: int | tuple[int, ...] | str = 256,
    shared_mem: int = 0,
    params: str | Sequence[str] | None = None,
    attrs: Mapping[str, Any] | None = None,
    options: Sequence[str] = (),
    include_paths: Sequence[str] = (),
    use_fast_math: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    cooperative: bool = False,
    cluster: int | tuple[int, ...] | None = None,
    pdl: bool = False,
    zero_outputs: bool = False,
    check: bool = False,
    has_side_effect: bool = False,
    jvp: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    derivatives: Literal["enzyme"] | None = None,
    linear: str | Sequence[str] = (),
    sharding_rule: str | ShardingRule | bool | None = None,
) -> CudaKernel:
    """Make a JAX operation from the source of a CUDA kernel, which NVRTC compiles.

    The source contains only device code. The kernel is launched from C on XLA's stream, and XLA may
    include the launch in a CUDA graph. Neither nvcc nor a host compiler is needed. The kernel is
    compiled when the operation is first lowered. Compiled code is cached by content. If JAX lowers
    a call for the CPU, the host's C++ compiler compiles the kernel, which then runs there.

    Parameters
    ----------
    source : str
        CUDA C++ source with a ``__global__`` function. Fixed-width integer types are predefined,
        and headers of the toolkit may be included.
    name : str
        The name of the kernel in C++ notation, such as ``"scale"``, or ``"scale<float, 4>"`` for a
        template.
    outs : pytree of jax.ShapeDtypeStruct, or a function
        See `numba_kernel`.
    signature, inplace : str, optional
        See `numba_cuda_kernel`. Parameters are inputs and outputs as the signature says, whatever
        is const. An attribute with the name of a dimension has its value, and texts in `attrs` are
        sums and products of dimensions, as in ``attrs={"n": "rows * cols"}``. A number of the
        signature, such as ``k: f32``, is an attribute, which calls may pass by position.
    grid, block, launch_dims, threads_per_block, shared_mem, cooperative, cluster, pdl, \
input_output_aliases, zero_outputs, check, has_side_effect
        See `numba_cuda_kernel`.
    params : str or list of str, optional
        The role of each parameter of the kernel, in order: "arg" for an input, "ret" for an output,
        "attr.n" or "attr.n:int32" for a number. "arg:f32[n]" and "ret:f32[n]" also declare the
        dtype and the shape of an array, with which calls are compared. By default, the roles are
        taken from a ``// @BE name ...`` comment in the source or, without one, from the signature:
        pointers to const are inputs, other pointers are outputs, and parameters that are passed by
        value are attributes with the parameters' names.
    attrs : dict, optional
        Values of attributes: numbers, or functions that are called with the same arguments as
        `outs`, as in ``{"n": lambda x: x.size}``.
    options : list of str, optional
        Options for NVRTC, such as "-lineinfo" or "-DTILE=16".
    include_paths : list of str, optional
        Folders that are searched for headers.
    use_fast_math : bool, default False
        Compile with ``--use_fast_math``, which is faster and less accurate.
    vmap_method : str, optional
        See `numba_cuda_kernel`. If neither `launch_dims` nor `grid` is a function, each slice is
        one launch, in a loop in C.
    jvp, vjp, derivatives, linear, sharding_rule
        See `numba_kernel`. Rules get the attributes as additional keyword arguments.

    Returns
    -------
    CudaKernel
        The operation, called as ``op(*inputs, **attributes)``. Attributes are numbers that are
        known at trace time. They complement or override `attrs`.

    Raises
    ------
    KernelError
        If the source has no such kernel, or `params` disagrees with it.
    TypeError, ValueError
        When traced, if inputs, outputs or attributes do not match the kernel: if their number is
        wrong, if the dtype of an array differs from the pointer's type, or if a number is out of
        range.
    KernelToolchainError
        When lowered, if NVRTC is not found.
    CompilationError
        When lowered, if NVRTC refuses the source; the message contains NVRTC's output.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, kernbridge
    >>> scale = kernbridge.cuda_kernel(
    ...     '''
    ...     template <typename T>
    ...     __global__ void scale(const T *x, T *out, int n, T factor) {
    ...         int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...         if (i < n) out[i] = factor * x[i];
    ...     }''',
    ...     "scale<float>",
    ...     lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype),
    ...     launch_dims=lambda x: x.size,
    ...     attrs={"n": lambda x: x.size},
    ... )  # doctest: +SKIP
    >>> scale(jnp.arange(3.0), factor=jnp.float32(2))  # doctest: +SKIP
    Array([0., 2., 4.], dtype=float32)
    """
    given = locals()
    if not isinstance(name, str) or "\n" in name or "__global__" in name:
        is_text = isinstance(name, str)
        wrong = "is a source" if is_text else f"is missing: the second argument is {name!r}"
        raise TypeError(
            f"cuda_kernel: name {wrong}, expected the name of a kernel; write "
            "cuda_kernel(source, name, outs, launch_dims=...) [KB1005]"
        )
    label = f"cuda_kernel {name!r}"
    for what, value in (("source", source), ("name", name)):
        if not isinstance(value, str) or not value or A_FILE.fullmatch(value):
            remedy = "pass its text, as of pathlib.Path.read_text"
            raise TypeError(f"{label}: {what} is {value!r}, expected a text; {remedy} [KB1005]")
    file = f"{name.split('<')[0]}.cu"
    flags = (*map(str, options), *(["--use_fast_math"] if use_fast_math else []))
    folders = (*map(str, include_paths), *settings.include_paths)
    code = nvrtc.Compilation(label, source, file, name, flags, folders)
    function = scan(label, file, source, name, params)
    return operation_of(label, file, function, lambda *_: code, given)


def operation_of(
    label: str,
    file: str,
    function: ScannedFunction,
    code: Callable[[str, ScannedFunction], nvrtc.NvrtcFunction | nvrtc.Compilation],
    given: Mapping[str, Any],
) -> CudaKernel:
    """Make the operation of a kernel; `given` are the options of `cuda_kernel`."""
    values, declared, arrays = dict(given["attrs"] or {}), None, None
    launch = {name: given[name] for name in ("grid", "block", "launch_dims")}
    signature, inplace = given["signature"], given["inplace"]
    if signature is not None or inplace is not None:
        function, declared, values = _read_signature(label, function, signature, inplace, values)
        arrays = declared.of_arrays
        launch = {name: arrays.numbers(name, value) for name, value in launch.items()}
    others = ("threads_per_block", "shared_mem", "cooperative", "cluster", "pdl")
    made, fields = code(label, function), declared.fields if declared else {}
    structures = [(i, p.name) for i, p in enumerate(function.parameters) if p.role == "structure"]
    if isinstance(made, nvrtc.Compilation):
        members = tuple((i, field) for i, name in structures for field in fields[name].names)
        made = replace(made, members=members)
    elif structures:
        raise errors.KernelError(
            f"{label}: the signature '{declared}' names members of {structures[0][1]!r}, whose "
            "places only the source tells; use cuda_kernel, or pass the arrays one by one [KB4007]"
        )
    rule = LaunchRule(label, *launch.values(), *(given[name] for name in others))
    given = {**given, "vmap_method": rule.vmap_method(given["vmap_method"])}
    names = names_for_rules(function, values)
    spec = specs.OperationSpec.of(given, label, given["outs"], names, arrays)
    frontend = CudaKernelFrontend(
        *(label, file, function, rule, bool(given["zero_outputs"]), made),
        *(declared, values, bool(given.get("check"))),
    )
    return CudaKernel(spec, frontend)


def _read_signature(
    label: str, function: ScannedFunction, text: Any, inplace: Any, values: dict[str, Any]
) -> tuple[ScannedFunction, CallSignature, dict[str, Any]]:
    """The function with the roles that a signature gives its parameters, and their values."""
    arrays = [p.name for p in function.parameters if p.role != "attr"]
    attributes = [p.name for p in function.attributes]
    given = arrays if text is None else [*arrays, *attributes]
    declared = CallSignature.read(label, text, inplace, given, attributes)
    assert declared is not None
    outputs = {p.name: p for p in declared.outputs}
    described = {**outputs, **{p.name: p for p in declared.inputs}}
    parameters, members = [], []
    for p in function.parameters:
        item, is_number = described.get(p.name), p.role == "attr"
        own = declared.arguments[p.name] if p.name in declared.fields else []
        if own and (not is_number or any(q.is_number for q in own)):
            raise ValueError(
                f"{label}: the signature '{declared}' names members of '{p.ctype} {p.name}', "
                "expected a structure by value, whose members are pointers; take it by value, and "
                "numbers as parameters of the kernel [KB1010]"
            )
        for q in own:
            role = "ret" if q.name in outputs else "arg"
            members.append(ScannedParameter(role, q.name, ctype=f"{p.ctype}::{q.field[1]}"))
        if item is not None:
            dtype = item.type.dtype if item.type else ""
            of_any = not dtype or is_variable(dtype)
            if item.is_number != is_number or (is_number if of_any else p.type not in ("", dtype)):
                raise ValueError(
                    f"{label}: the signature '{declared}' has {str(item)!r}, but the kernel's "
                    f"parameter is '{p.ctype} {p.name}'; write its type, such as {p.name}: "
                    f"{'f32, or leave it out' if is_number else 'f32[n]'} [KB1010]"
                )
            p = p._replace(type=dtype) if is_number else p
        if not is_number:
            p = p._replace(role="ret" if p.name in outputs else "arg")
        parameters.append(p._replace(role="structure") if own else p)
    function = function._replace(parameters=(*parameters, *members))
    attributes = [p.name for p in function.attributes]
    dimensions = {a: a for a in attributes if a in declared.dimensions and a not in described}
    values = {
        name: declared.of_arrays.numbers(f"attrs[{name!r}]", value)
        for name, value in {**dimensions, **values}.items()
    }
    inputs = tuple(p for p in declared.inputs if p.name not in values)
    return function, declared._replace(inputs=inputs), values


class CudaKernel:
    """A CUDA kernel as an operation with attributes; made by `cuda_kernel` and `load_binary`."""

    __module__ = "kernbridge"
    __getattr__ = Operation.__getattr__

    def __init__(self, spec: specs.OperationSpec, frontend: CudaKernelFrontend) -> None:
        function, attrs = frontend.scanned, frontend.values
        spec.check_names(function.parameter_names, names_for_rules(function, attrs))
        self.spec = spec
        self._frontend = frontend
        self._operations: LRUCache[Operation] = LRUCache(_KEPT)
        self.__name__ = frontend.name
        self._signature = frontend.signature
        if self._signature is not None:
            python, kind = self._signature.python, inspect.Parameter.KEYWORD_ONLY
            given = {*python.parameters, *attrs}
            names = (p.name for p in function.attributes if p.name not in given)
            more = [inspect.Parameter(name, kind) for name in names]
            self.__signature__ = python.replace(parameters=[*python.parameters.values(), *more])
        self.__doc__ = about(frontend.name, frontend.file, self._signature or spec)

    @hides_frames
    def __call__(self, /, *inputs: Any, **attributes: Any) -> Any:
        return self._run("__call__", inputs, attributes)

    def _run(self, method: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
        if self._signature is not None:
            given, attributes = self._signature.split(inputs, attributes)
            attributes.update(self._signature.by_input(given))
            inputs = [attributes.pop(name) for name in self._frontend.order[0]]
        return getattr(self.operation(**attributes), method)(*inputs)

    def __repr__(self) -> str:
        return shown(self.spec.label, self._signature)

    def _repr_html_(self) -> str:
        return as_html(self.spec.label, self._signature)

    def operation(self, **attributes: Any) -> Operation:
        """Return the operation with these attributes; the same one for the same values."""
        label, values = self.spec.label, {**self._frontend.values, **attributes}
        known = self._frontend.scanned.attributes
        scanned.check_attributes(label, known, values)
        for p in known:
            if isinstance(values[p.name], Tracer) or (p.type and not callable(values[p.name])):
                scanned.encode_attribute(label, p, values[p.name])
        functions = [(name, value) for name, value in values.items() if callable(value)]
        state = function_state.take(functions) if functions else None
        try:
            key = exact_items(values), state
        except TypeError:  # a value that cannot be hashed
            return self._make(values)
        if state is not None and state.incomparable:
            return self._make(values)
        return self._operations.find_or_make(key, lambda: self._make(values))

    def _make(self, values: Mapping[str, Any]) -> Operation:
        numbers, frontend = scanned.plain_attributes(values), self._frontend
        known = {n: numbers[n] for n in names_for_rules(frontend.scanned, frontend.values)}
        return Operation(self.spec, replace(frontend, values=values), known)

    def plan(self, *inputs: Any, **attributes: Any) -> Any:
        """What C runs for inputs of these shapes; see `Operation.plan`."""
        return self._run("plan", inputs, attributes)

    def inspect(self, *inputs: Any, **attributes: Any) -> Any:
        """Code and resources of the launch; see `Operation.inspect`."""
        return self._run("inspect", inputs, attributes)
