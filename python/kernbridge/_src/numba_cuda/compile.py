"""Compiles a Numba-CUDA kernel for the kinds of its parameters to machine code (cubins).

No GPU is needed. What was compiled before, by content, is found in the process or on disk.
"""

from __future__ import annotations

import dis
import hashlib
import threading
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kernbridge import _core
from kernbridge._src.base import debug, versions
from kernbridge._src.base.errors import KernelCompilationError, defect
from kernbridge._src.base.lru import attached_to
from kernbridge._src.base.reports import instead_of, warn
from kernbridge._src.forge import artefacts, interrupts, progress
from kernbridge._src.keys import package_digest
from kernbridge._src.mlir import compile as mlir
from kernbridge._src.numba_common import refusals
from kernbridge._src.numba_common.protect import ReturnsValue, compile_protected
from kernbridge._src.numba_cuda.counterpart import counterpart
from kernbridge._src.numba_cuda.dispatchers import check_declared
from kernbridge._src.numba_cuda.job import CHECKED, HOST, Architectures, Job
from kernbridge._src.numba_cuda.options import DEFAULT, CompileOptions, unless_default
from kernbridge._src.plan.cubin import check_words
from kernbridge._src.plan.parameters import Parameter, leaves
from kernbridge._src.plan.program import DeviceFunction
from kernbridge._src.toolchain import cuda as toolchain_cuda

if TYPE_CHECKING:
    from kernbridge._src.keys.fingerprint import Fingerprint

CACHE_KIND = "numba_cuda"
LIKE_HOST = (9, 0)  # what Numba-CUDA compiles for there: its typed IR is the same for all


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NumbaCudaFunction(DeviceFunction):
    """Machine code of one kernel for one list of parameters: one object for each identity.

    `opened` are the leaves of the parameters that the kernel may write to, although they should be
    read-only.
    """

    opened: tuple[int, ...]
    uses_z: bool
    cooperative: bool
    why_not_portable: str
    parameters: tuple[Parameter, ...]
    batched: bool
    kernel: Any  # a weak reference to the dispatcher

    @property
    def n_words(self) -> int:
        """The words of eight bytes that the parameters take."""
        return sum(p.n_words(self.batched) for p in self.parameters)

    def code(self) -> tuple[str, str]:
        """LLVM IR and PTX. Neither is kept, so the kernel is compiled again."""
        from kernbridge._src.numba_cuda.patches import compiler_cc

        kernel = self.kernel()
        if kernel is None:
            raise KernelCompilationError(defect(f"the kernel {self.name!r} is gone"))
        architecture = divmod(self.images[0][0], 10)
        job = Job(self.name, kernel, self.parameters, self.batched, (architecture,))
        job = replace(job, identity=self.identity)
        if mlir.is_mlir(kernel):
            return mlir.code(job, self.opened)
        library = _compile_entry(job.with_open(self.opened))._codelibrary
        return library.get_llvm_str(), library.get_asm_str(cc=compiler_cc(*architecture))


_Key = tuple[bytes, Architectures]  # with the identity

# Machine code lives as long as a kernel that it was made for, or a plan that launches it. The core
# has copies of what it has loaded.
_functions: weakref.WeakValueDictionary[_Key, NumbaCudaFunction] = weakref.WeakValueDictionary()
# Never released, as the machine code for the CPU is not: Numba numbers what it compiles, and of
# other LLVM IR for a kernel of the same content other machine code would be made.
_for_host: dict[_Key, artefacts.Artefact] = {}
_lock = threading.RLock()


def why_not_native(kernel: Any, host: bool = False) -> str:
    """Empty, or the option of `cuda.jit` that only Numba's own launcher serves."""
    if mlir.is_mlir(kernel) and not host:
        return mlir.why_not_native(kernel)[0]
    options = kernel.targetoptions
    if options.get("debug") and not host:
        return "debug=True"
    if options.get("extensions"):
        return "extensions="
    for item in options.get("link") or ():
        if getattr(item, "setup_callback", None) or getattr(item, "teardown_callback", None):
            return "a link= item with callbacks"
    return ""


def compile_kernel(
    label: str,
    kernel: Any,
    parameters: Sequence[Parameter],
    batched: bool = False,
    host: bool = False,
    options: CompileOptions = DEFAULT,
) -> NumbaCudaFunction:
    """Machine code for these parameters, compiled at most once per content and architectures.

    With `host` it is for the CPU, see the package `cuda_on_cpu`. KernelCompilationError is raised
    if the kernel is refused, and TypeError if it returns a value.
    """
    architectures, vectors = toolchain_cuda.architectures(), None
    if host:
        architectures = CHECKED if options.checked or debug.checks() else HOST
    if architectures == HOST:
        vectors = unless_default(kernel, options.vector_math)
    job = Job(
        *(label, kernel, tuple(parameters), batched, architectures),
        vector_math=vectors,
    )
    with interrupts.deferred(), _lock:
        fingerprint = _fingerprint_of(job)
        job = replace(job, identity=_identity(fingerprint, job))
        key = (job.identity, architectures)
        function = _functions.get(key)
        if function is None:
            package = mlir.PACKAGE if mlir.is_mlir(kernel) and not host else "Numba-CUDA"
            with progress.compiling(label, package):
                function = _functions[key] = _find(job, fingerprint)
        elif function.kernel() is None:  # equal kernels share code; keep one that is alive
            function = _functions[key] = replace(function, kernel=weakref.ref(kernel))
        own: dict[_Key, NumbaCudaFunction] = attached_to(kernel, "functions", dict)
        own[key] = function
        return function


def compile_for_launch(
    label: str,
    kernel: Any,
    parameters: Sequence[Parameter],
    has_batch: bool,
    host: bool = False,
    options: CompileOptions = DEFAULT,
) -> tuple[NumbaCudaFunction, bool]:
    """Machine code for a launch, and whether one launch serves a batch in the grid's z axis.

    `has_batch` says that there is a batch, and that the launch leaves the z axis free.
    """
    check_declared(label, kernel, parameters)

    def compiled(batched: bool) -> NumbaCudaFunction:
        return compile_kernel(label, kernel, parameters, batched, host, options)

    function = compiled(False)
    wide = has_batch and not function.uses_z and not function.cooperative
    if wide:
        function = compiled(True)
    return function, wide


def _fingerprint_of(job: Job) -> Fingerprint:
    """Taken once per kernel and signature, since Numba reads globals when it compiles each."""
    from kernbridge._src.keys import fingerprint as keys_fingerprint

    taken: dict[Any, Fingerprint] = attached_to(job.kernel, "fingerprints", dict)
    signature = (_identities(job), job.batched, job.for_host)
    if signature not in taken:
        taken[signature] = keys_fingerprint.take(_of_numba_cuda(job).kernel)
    return taken[signature]


def _of_numba_cuda(job: Job) -> Job:
    """The job with the kernel that Numba-CUDA compiles for CPUs in place of numba-cuda-mlir's."""
    if not (job.for_host and mlir.is_mlir(job.kernel)):
        return job
    return replace(job, kernel=counterpart(job.label, job.kernel))


def _identities(job: Job) -> tuple[Any, ...]:
    """What the machine code depends on of each parameter, without the classes that users made."""
    return tuple(parameter.identity() for parameter in job.parameters)


def _identity(fingerprint: Fingerprint, job: Job) -> bytes:
    from kernbridge._src.keys import fingerprint as keys_fingerprint

    where = "numba.cuda"
    if job.for_host:
        where += ".host" if job.architectures == HOST else ".checked"
        where += f".{_core.HOST_ABI}"  # a program of another one must not be taken for this
    options = []
    if job.vector_math is not None:
        options.append(f"vector_math={job.vector_math}")
    return keys_fingerprint.combine(fingerprint, where, _identities(job), job.batched, *options)


def _find(job: Job, fingerprint: Fingerprint) -> NumbaCudaFunction:
    made_of = (
        (package_digest.digest(), toolchain_cuda.versions()),
        job.identity.hex(),
        job.architectures,
    )
    key = hashlib.sha256(repr(made_of).encode()).digest()
    opaque, name = fingerprint.opaque, job.kernel.py_func.__name__
    found = None if opaque else artefacts.load(CACHE_KIND, key)
    known = _for_host.get((job.identity, job.architectures))
    if found is None or known is not None:
        made = _compile(job) if known is None else known
        if found is None and not opaque:
            artefacts.store(CACHE_KIND, key, made, name)
        found = made
    if job.for_host and known is None and not opaque:
        _for_host[job.identity, job.architectures] = found
    meta = found.meta
    for sentence in () if job.batched else meta.get("lost", ()):  # it is compiled for both
        warn(f"{job.label}: {sentence}")
    images = list(zip(meta["architectures"], found.blobs, strict=True))
    if job.for_host:
        from kernbridge._src.cuda_on_cpu import compile as cuda_on_cpu_compile

        (image,) = found.blobs
        images.append((cuda_on_cpu_compile.CODE_CC, cuda_on_cpu_compile.machine_code(image, name)))
    return NumbaCudaFunction(
        identity=job.identity,
        name=name,
        entry=meta["entry"],
        images=tuple(images),
        opened=tuple(meta["opened"]),
        uses_z=meta["uses_z"],
        cooperative=meta["cooperative"],
        why_not_portable=fingerprint.why_not_portable,
        parameters=job.parameters,
        batched=job.batched,
        kernel=weakref.ref(job.kernel),
    )


def _compile(job: Job) -> artefacts.Artefact:
    from kernbridge._src.numba_cuda.patches import compiler_cc, cubin_of

    job = _of_numba_cuda(job)
    if mlir.is_mlir(job.kernel):
        return mlir.artefact(job)
    compiled, opened = _compile_protected(job)
    library = compiled._codelibrary
    if job.for_host:
        from kernbridge._src.cuda_on_cpu import compile as cuda_on_cpu_compile

        checks = None
        if job.architectures == CHECKED:
            from kernbridge._src.numba_cuda.checked_arguments import checks_of

            parameters = job.with_open(opened).parameters
            checks = checks_of(job.label, job.kernel, parameters, job.batched)
        vectors = checks is None and job.has_vector_math
        made = cuda_on_cpu_compile.artefact(job.label, compiled, opened, checks, vectors)
        meta = {**made.meta, "lost": list(compiled.lost_fractions)}
        return artefacts.Artefact(meta, made.blobs)
    cubins = []
    for architecture in job.architectures:
        try:
            cubins.append(cubin_of(library, architecture))
        except Exception as e:
            raise instead_of(e, _refusal(job, e))  # noqa: B904
    n_words = sum(p.n_words(job.batched) for p in job.parameters)
    check_words(job.label, cubins, compiled.entry_name, n_words)
    assembly = library.get_asm_str(cc=compiler_cc(*job.architectures[0]))
    return artefacts.Artefact(
        meta={
            "entry": compiled.entry_name,
            "architectures": [10 * major + minor for major, minor in job.architectures],
            "opened": list(opened),
            "lost": list(compiled.lost_fractions),
            "uses_z": any(f"%{r}.z" in assembly for r in ("tid", "ntid", "ctaid", "nctaid")),
            "cooperative": bool(compiled.cooperative),
        },
        blobs=tuple(cubins),
    )


def _compile_protected(job: Job) -> tuple[Any, tuple[int, ...]]:
    """Compile with inputs as protected as the kernel allows; which ones had to be opened."""
    return compile_protected(
        (i for i, p in enumerate(leaves(job.parameters)) if p.read_only),
        lambda opened: _compile_entry(job.with_open(opened)),
        lambda error: _refusal(job, error),
    )


def _compile_entry(job: Job) -> Any:
    """Compile the kernel for the first architecture."""
    from kernbridge._src.numba_common import readonly
    from kernbridge._src.numba_common.private_numba import types
    from kernbridge._src.numba_common.private_numba_cuda import cuda, dispatcher
    from kernbridge._src.numba_cuda import entry as numba_cuda_entry
    from kernbridge._src.numba_cuda import patches

    options = dict(job.kernel.targetoptions)
    function = job.kernel.py_func
    for step in dis.get_instructions(function):
        if step.opname == "IMPORT_NAME":
            line = step.positions.lineno if step.positions else function.__code__.co_firstlineno
            raise KernelCompilationError(
                f"{job.label}: {function.__code__.co_filename}:{line}: a kernel cannot import "
                f"modules: move the import of {step.argval!r} to the top of the module [KB4004]"
            )
    device_options = {k: v for k, v in options.items() if k in ("fastmath", "lineinfo", "opt")}
    if "forceinline" in options:
        device_options["forceinline"] = True
    raises = options.pop("debug", False) and job.for_host  # the entry itself raises nothing
    if raises:
        device_options["debug"] = True
    device = cuda.jit(device=True, **device_options)(function)
    entry, words = numba_cuda_entry.build_entry(device, job.parameters, job.batched)
    entry.__name__ = entry.__qualname__ = job.symbol
    entry.__module__ = "kernbridge"
    architecture = job.architectures[0]
    without_nvvm: Any = nullcontext()
    asking: Any = nullcontext()
    if job.for_host:
        architecture, without_nvvm = LIKE_HOST, patches.without_nvvm()
        if job.architectures == CHECKED:
            from kernbridge._src.cuda_on_cpu.isolated_compile import compiling_checked

            asking = compiling_checked()
            options["lineinfo"] = True
        else:
            from kernbridge._src.cuda_on_cpu import bounds

            asking = bounds.compiling_bounded()
    raising: Any = nullcontext()
    if raises:
        from kernbridge._src.cuda_on_cpu.isolated_compile import compiling_raising

        raising = compiling_raising()
    with patches.compiling_for(architecture), without_nvvm, asking, raising:
        compiled = dispatcher._Kernel(entry, words, **options)
        (overload,) = device.overloads.values()
        search = readonly.WriteSearch(compile_again=None)
        may_write = search.may_write(device, overload.signature.args, overload)
        compiled.lost_fractions = _lost_fractions(job, device, overload)
    if overload.signature.return_type != types.none:
        raise ReturnsValue(job.label, overload.signature.return_type)
    if may_write:
        raise TypeError("the kernel may write to a read-only input")
    return compiled


def _lost_fractions(job: Job, device: Any, overload: Any) -> tuple[str, ...]:
    """Sentences about floats that the kernel stores into arrays of integers."""
    from kernbridge._src.numba_common import rounding

    code = device.py_func.__code__
    names = code.co_varnames[: code.co_argcount]
    given = ((p.keyword or name, p) for name, p in zip(names, job.parameters, strict=False))
    written = {name for name, p in given if not getattr(p, "read_only", True)}
    outputs = {i: name for i, name in enumerate(names) if name in written}
    return rounding.lost_fractions(device, overload.signature.args, overload, outputs, None)


def _refusal(job: Job, error: Exception) -> Exception:
    missing = versions.missing_name(error)
    if missing is not None or isinstance(error, KernelCompilationError):
        return missing or error
    from kernbridge._src.numba_common.private_numba_cuda import explain, refused_architecture

    remedy = explain(error)
    refused = None if job.for_host else refused_architecture(job.label, job.architectures, error)
    if refused:
        return refused
    what = ", ".join(p.describe() for p in job.parameters)
    return KernelCompilationError(
        f"{job.label}: Numba-CUDA cannot compile the kernel for ({what}) [KB4001]\n"
        + (remedy or refusals.report(error, job.kernel.py_func, of_cuda=True))
    )
