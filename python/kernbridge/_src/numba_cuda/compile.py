"""From a Numba-CUDA kernel and the kinds of its parameters to machine code (cubins).

Needs no GPU. What was compiled before, by content, is found in the process or on disk.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernbridge import _core
from kernbridge._src.base import debug
from kernbridge._src.base.errors import KernelCompilationError, UnknownVersionError
from kernbridge._src.base.kept import kept_with
from kernbridge._src.gpu.cubin import check_words
from kernbridge._src.keys import generators
from kernbridge._src.numba_cuda.function import NumbaCudaFunction
from kernbridge._src.store import artefacts
from kernbridge._src.toolchain import cuda as toolchain_cuda

if TYPE_CHECKING:
    from kernbridge._src.cuda_on_cpu.checks import Checks
    from kernbridge._src.keys.fingerprint import Fingerprint
    from kernbridge._src.numba_cuda.entry import DeviceParameter

CACHE_KIND = "numba_cuda"
HOST = ((100, 0),)  # the architecture that stands for the CPU
CHECKED = ((100, 1),)  # and for its checked mode
LIKE_HOST = (9, 0)  # what Numba-CUDA compiles for there: its typed IR is the same for all


_Key = tuple[bytes, tuple[tuple[int, int], ...]]  # identity and architectures

# Machine code lives as long as a kernel that it was made for, or a plan that launches it. The core
# has copies of what it has loaded.
_functions: weakref.WeakValueDictionary[_Key, NumbaCudaFunction] = weakref.WeakValueDictionary()
_lock = threading.RLock()


def why_not_native(kernel: Any) -> str:
    """Empty, or the option of `cuda.jit` that only Numba's own launcher serves."""
    options = kernel.targetoptions
    if options.get("debug"):
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
    parameters: Sequence[DeviceParameter],
    batched: bool = False,
    host: bool = False,
    checked: bool = False,
) -> NumbaCudaFunction:
    """Machine code for these parameters, compiled at most once per content and architectures.

    With `host` for the CPU, see the package `cuda_on_cpu`; with `checked` for its checked mode.

    Raises
    ------
    KernelCompilationError
        If Numba refuses the kernel.
    TypeError
        If the kernel returns a value.
    """
    wanted = tuple(parameters)
    architectures = toolchain_cuda.architectures()
    if host:
        architectures = CHECKED if checked or debug.checks() else HOST
    with _lock:
        fingerprint = _fingerprint_of(kernel, (wanted, batched))
        identity = _identity(fingerprint, wanted, batched, architectures)
        key = (identity, architectures)
        function = _functions.get(key)
        if function is None:
            function = _find(label, kernel, wanted, batched, identity, fingerprint, architectures)
            _functions[key] = function
        elif function.kernel() is None:  # equal kernels share code; keep one that is alive
            function = _functions[key] = replace(function, kernel=weakref.ref(kernel))
        own: dict[_Key, NumbaCudaFunction] = kept_with(kernel, "functions", dict)
        own[key] = function
        return function


def _fingerprint_of(kernel: Any, signature: Any) -> Fingerprint:
    """Taken once per kernel and signature: Numba reads globals anew for each that it compiles."""
    from kernbridge._src.keys import fingerprint as keys_fingerprint

    taken: dict[Any, Fingerprint] = kept_with(kernel, "fingerprints", dict)
    if signature not in taken:
        taken[signature] = keys_fingerprint.take(kernel)
    return taken[signature]


def _identity(
    fingerprint: Fingerprint,
    parameters: Sequence[DeviceParameter],
    batched: bool,
    architectures: tuple[tuple[int, int], ...],
) -> bytes:
    from kernbridge._src.keys import fingerprint as keys_fingerprint

    kinds = tuple((p.kind, p.dtype, p.ndim, p.layout, p.read_only, p.keyword) for p in parameters)
    where = "numba.cuda"
    if architectures in (HOST, CHECKED):
        where += ".host" if architectures == HOST else ".checked"
        where += f".{_core.HOST_ABI}"  # a program of another one must not be taken for this
    return keys_fingerprint.combine(fingerprint, where, kinds, batched)


def _find(
    label: str,
    kernel: Any,
    parameters: tuple[DeviceParameter, ...],
    batched: bool,
    identity: bytes,
    fingerprint: Fingerprint,
    architectures: tuple[tuple[int, int], ...],
) -> NumbaCudaFunction:
    import hashlib

    versions = (generators.digest(), toolchain_cuda.versions())
    made_of = (versions, identity.hex(), architectures)
    key = hashlib.sha256(repr(made_of).encode()).digest()
    opaque = fingerprint.opaque
    found = None if opaque else artefacts.load(CACHE_KIND, key)
    if found is None:
        found = _compile(
            label, kernel, parameters, batched, architectures, _symbol(kernel, identity)
        )
        if not opaque:
            artefacts.store(CACHE_KIND, key, found)
    meta = found.meta
    return NumbaCudaFunction(
        identity=identity,
        name=kernel.py_func.__name__,
        entry=meta["entry"],
        n_words=sum(p.n_words(batched) for p in parameters),
        images=tuple(zip(meta["architectures"], found.blobs, strict=True)),
        opened=tuple(meta["opened"]),
        uses_z=meta["uses_z"],
        cooperative=meta["cooperative"],
        why_not_portable=fingerprint.why_not_portable,
        parameters=parameters,
        batched=batched,
        kernel=weakref.ref(kernel),
        show=_show,
    )


def _show(function: NumbaCudaFunction) -> tuple[str, str]:
    """LLVM IR and PTX; compiles the kernel again, since neither is kept."""
    kernel = function.kernel()
    if kernel is None:
        raise KernelCompilationError(f"the kernel {function.name!r} is gone")
    architecture = divmod(function.images[0][0], 10)
    parameters = tuple(
        replace(p, read_only=p.read_only and i not in function.opened)
        for i, p in enumerate(function.parameters)
    )
    symbol = _symbol(kernel, function.identity)
    compiled = _compile_once(
        function.name, kernel, parameters, function.batched, architecture, symbol
    )
    from kernbridge._src.numba_cuda.patches import compiler_cc

    library = compiled._codelibrary
    return library.get_llvm_str(), library.get_asm_str(cc=compiler_cc(*architecture))


def _symbol(kernel: Any, identity: bytes) -> str:
    """A name for the entry that no other kernel has: Numba's own are numbered in each process."""
    return f"{kernel.py_func.__name__}_{identity[:6].hex()}"


def _compile(
    label: str,
    kernel: Any,
    parameters: tuple[DeviceParameter, ...],
    batched: bool,
    architectures: tuple[tuple[int, int], ...],
    symbol: str,
) -> artefacts.Artefact:
    from kernbridge._src.numba_cuda.patches import compiler_cc

    compiled, opened = _compile_protected(
        label, kernel, parameters, batched, architectures[0], symbol
    )
    library = compiled._codelibrary
    if architectures in (HOST, CHECKED):
        from kernbridge._src.cuda_on_cpu import compile as cuda_on_cpu_compile

        checks = None
        if architectures == CHECKED:
            checks = _checks_of(label, kernel, parameters, opened, batched)
        return cuda_on_cpu_compile.artefact(label, compiled, opened, checks)
    cubins = []
    for major, minor in architectures:
        try:
            cubin = library.get_cubin(cc=compiler_cc(major, minor))
        except Exception as e:
            raise _refusal(label, parameters, e) from e
        cubins.append(getattr(cubin, "code", cubin))
    check_words(label, cubins, compiled.entry_name, sum(p.n_words(batched) for p in parameters))
    assembly = library.get_asm_str(cc=compiler_cc(*architectures[0]))
    return artefacts.Artefact(
        meta={
            "entry": compiled.entry_name,
            "architectures": [10 * major + minor for major, minor in architectures],
            "opened": list(opened),
            "uses_z": any(f"%{r}.z" in assembly for r in ("tid", "ntid", "ctaid", "nctaid")),
            "cooperative": bool(compiled.cooperative),
        },
        blobs=tuple(bytes(cubin) for cubin in cubins),
    )


def _compile_protected(
    label: str,
    kernel: Any,
    parameters: tuple[DeviceParameter, ...],
    batched: bool,
    architecture: tuple[int, int],
    symbol: str,
) -> tuple[Any, tuple[int, ...]]:
    """Compile with inputs as protected as the kernel allows; which ones had to be opened."""

    def attempt(opened: frozenset[int]) -> Any:
        given = tuple(
            replace(p, read_only=p.read_only and i not in opened) for i, p in enumerate(parameters)
        )
        try:
            return _compile_once(label, kernel, given, batched, architecture, symbol)
        except (_ReturnsValue, UnknownVersionError):
            raise
        except Exception as e:
            return e

    protected = frozenset(i for i, p in enumerate(parameters) if p.read_only)
    found = attempt(frozenset())
    if not isinstance(found, Exception):
        return found, ()
    opened = protected
    found = attempt(opened) if protected else found
    if isinstance(found, Exception):
        raise _refusal(label, parameters, found) from found
    for i in sorted(protected) if len(protected) > 1 else ():
        closed = attempt(opened - {i})
        if not isinstance(closed, Exception):
            opened, found = opened - {i}, closed
    return found, tuple(sorted(opened))


class _MayWrite(Exception):
    """The kernel may write to a read-only parameter in a way that Numba lets through."""


class _ReturnsValue(TypeError):
    """Kernels return nothing."""


def _compile_once(
    label: str,
    kernel: Any,
    parameters: tuple[DeviceParameter, ...],
    batched: bool,
    architecture: tuple[int, int],
    symbol: str,
) -> Any:
    from kernbridge._src.numba_common import readonly
    from kernbridge._src.numba_common.numba_cuda_inside import check_kernel, cuda, dispatcher
    from kernbridge._src.numba_common.numba_inside import types
    from kernbridge._src.numba_cuda import entry as numba_cuda_entry
    from kernbridge._src.numba_cuda import lift_imports, patches

    options = dict(kernel.targetoptions)
    function = lift_imports.lift(kernel.py_func, label)
    device_options = {k: v for k, v in options.items() if k in ("fastmath", "lineinfo", "opt")}
    if "forceinline" in options:
        device_options["forceinline"] = True
    device = cuda.jit(device=True, **device_options)(function)
    entry, words = numba_cuda_entry.build_entry(device, parameters, batched)
    entry.__name__ = entry.__qualname__ = symbol
    entry.__module__ = "kernbridge"
    checked = architecture == CHECKED[0]
    for_host = checked or architecture == HOST[0]
    without_nvvm = patches.without_nvvm() if for_host else nullcontext()
    asking: Any = nullcontext()
    if checked:
        from kernbridge._src.cuda_on_cpu import checked as cuda_on_cpu_checked

        asking = cuda_on_cpu_checked.compiling_checked()
        options["lineinfo"] = True
    elif for_host:
        from kernbridge._src.cuda_on_cpu import bounds

        asking = bounds.compiling_bounded()
    like = LIKE_HOST if for_host else architecture
    with patches.compiling_for(like), without_nvvm, asking:
        compiled = dispatcher._Kernel(entry, words, **options)
        check_kernel(compiled)
        (overload,) = device.overloads.values()
        search = readonly.WriteSearch(compile_anew=None)
        may_write = search.may_write(device, overload.signature.args, overload)
    if overload.signature.return_type != types.none:
        raise _ReturnsValue(
            f"{label}: the kernel returns {overload.signature.return_type}, expected nothing; "
            "write results into the output arrays, which come after the inputs"
        )
    if may_write:
        raise _MayWrite("the kernel may write to a read-only input")
    return compiled


def _checks_of(
    label: str,
    kernel: Any,
    parameters: Sequence[DeviceParameter],
    opened: Sequence[int],
    batched: bool,
) -> Checks:
    """What the checked mode asks about the arguments of a kernel."""
    from kernbridge._src.cuda_on_cpu.checks import Argument, Checks

    names = list(inspect.signature(kernel.py_func).parameters)
    arguments = []
    word = 0
    for i, parameter in enumerate(parameters):
        if parameter.kind != "scalar":
            name = parameter.keyword or (names[i] if i < len(names) else f"parameter {i}")
            arguments.append(
                Argument(
                    name=f"{name!r} ({parameter.describe()})",
                    word=word,
                    item_size=parameter.dtype.itemsize,
                    n_dims=parameter.ndim,
                    batched=batched,
                    strided=parameter.layout != "C",
                    constant=parameter.read_only and i not in opened,
                )
            )
        word += parameter.n_words(batched)
    return Checks(label, arguments)


def _refusal(label: str, parameters: Sequence[DeviceParameter], error: Exception) -> Exception:
    if isinstance(error, (KernelCompilationError, UnknownVersionError)):
        return error
    from kernbridge._src.numba_common.numba_cuda_inside import explain

    remedy = explain(error)
    what = ", ".join(p.describe() for p in parameters)
    return KernelCompilationError(
        f"{label}: Numba-CUDA cannot compile the kernel for ({what})\n{error}"
        + (f"\n{remedy}" if remedy else "")
    )
