"""Replaces functions of Numba-CUDA when a thread launches on the CPU for the first time.

Functions of numba-cuda-mlir, which has the same host API, are replaced when a program imports that
package. Each replacement checks the mode of the thread, so threads that launch on a GPU are not
affected. Replacements stay in place until the process ends.

A dispatcher belongs to the mode in which it was created. In another mode, it is replaced by a twin:
a separate dispatcher of the same Python function. A kernel may therefore be decorated before
launches are switched to the CPU, and be launched on a GPU afterwards.

Numba types a kernel, generates its LLVM IR and caches the result, as it does for a GPU. Its code
library then contains kernbridge's image of the kernel instead of a cubin, under a separate key.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import inspect
import itertools
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FunctionType, SimpleNamespace
from typing import Any

from kernbridge import _core
from kernbridge._ext.emulator.compiler import checks
from kernbridge._ext.emulator.compiler import compile as cuda_on_cpu_compile
from kernbridge._ext.emulator.compiler.isolated_compile import compiling as asking
from kernbridge._ext.emulator.counterpart import counterpart
from kernbridge._ext.emulator.device import launch, mode
from kernbridge._src.base import versions
from kernbridge._src.base.errors import KernbridgeError, KernelCompilationError, typed
from kernbridge._src.base.patched import patched
from kernbridge._src.base.progress import shown
from kernbridge._src.forge.obtain import deferred
from kernbridge._src.keys import package_digest
from kernbridge._src.numba_common import numba_cuda_patches, refusals
from kernbridge._src.numba_common import private_numba_cuda as numba_cuda
from kernbridge._src.numba_common.private_llvmlite import ir
from kernbridge._src.numba_common.private_numba_cuda import cuda, dispatcher, driver, nrt, types

_Dispatcher = dispatcher.CUDADispatcher
_HOME, _TWINS = "_kernbridge_home", "_kernbridge_twins"
_home_of_others: str | None = None  # of dispatchers made before Numba was patched
_installed = False
_ANY_ARCHITECTURE = (8, 0)
_MLIR = "numba_cuda_mlir.cuda"
_MAX_THREADS = 1024
_IMAGE = "kernbridge"  # the key of images among cubins, and of loaded kernels among GPUs'
_MODULES = itertools.count(0x100000, 16)

# What depends on what was compiled. Twins have everything else in common.
_STATE = {"overloads", "specializations", "_can_compile", "_specialized", "_cache", "_numba_type_"}
_STATE |= {
    name
    for owner in _Dispatcher.__mro__
    if owner.__module__ == dispatcher.__name__
    for name, value in vars(owner).items()
    if isinstance(value, (FunctionType, property)) and not name.startswith("__")
} | {"configure"}
_STATE -= {"_reduce_states", "_uuid", "_set_uuid"}


def install() -> None:
    global _installed
    with numba_cuda.global_compiler_lock:
        if _installed:
            return
        launch.install_host_api(numba_cuda)
        # Numba keeps its statistics of device memory in CUDA C++; here nothing is counted.
        for name in (
            *("ensure_allocated", "ensure_initialized", "_single_thread_launch"),
            "set_memsys_to_module",
        ):
            mode.choose(nrt._Runtime, name, lambda self, *_, **__: None)
        mode.choose(nrt._Runtime, "get_allocation_stats", lambda self: nrt._nrt_mstats(0, 0, 0, 0))
        _install_code()
        _install_dispatchers()
        if _MLIR in sys.modules:
            _install_mlir()
        else:
            sys.meta_path.insert(0, _FinderOfMlir())
        _installed = True


def _install_mlir() -> None:
    from kernbridge._ext.emulator.device import mlir_hooks

    mlir_hooks.install()


def _install_code() -> None:
    library = numba_cuda.codegen.CUDACodeLibrary
    mode.choose(library, "get_cufunc", _function_of, _is_for_cpu)
    for what, names in (
        ("PTX", ("get_asm_str", "get_asm_strs", "get_lto_ptx")),
        ("LTO-IR", ("get_ltoir",)),
        ("cubin", ("get_cubin",)),
        ("linker output", ("get_linkerinfo",)),
        ("SASS", ("get_sass", "get_sass_cfg")),
    ):
        for name in names:
            mode.choose(library, name, functools.partial(launch.refuse, what), _is_for_cpu)
    mode.choose(
        numba_cuda.codegen.JITCUDACodegen,
        "magic_tuple",  # by which Numba's cache on disk keeps kernels for the CPU apart
        lambda self: ("kernbridge", _core.HOST_ABI, mode.current(), package_digest.digest_of()),
    )


def _install_dispatchers() -> None:
    kernels = dispatcher._Kernel
    make, bind, run = _Dispatcher.__init__, kernels.bind, kernels.launch
    compile_kernel, compile_device = _Dispatcher.compile, _Dispatcher.compile_device

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        vars(self)[_HOME] = mode.current()
        make(self, *args, **kwargs)

    def bound(self: Any) -> None:
        with versions.explained():
            _add_image(self)
            bind(self)

    def compiled(self: Any, sig: Any) -> Any:
        original = vars(self).get(launch.COUNTERPART_OF)
        if original is not None:  # which may read something else than when it was compiled before
            self.py_func = counterpart(*original).py_func
        is_checked = mode.current() == mode.CHECK
        own: Any = nullcontext()
        if is_checked and not self.targetoptions.get("debug"):
            own = patched((self, "targetoptions", {**self.targetoptions, "lineinfo": True}))
        said = shown(f"compiling {launch.label_of(self.py_func)} with Numba-CUDA")
        plain = numba_cuda_patches.without_nvvm()
        try:
            with deferred(), said, numba_cuda.global_compiler_lock, plain, asking(is_checked), own:
                return compile_kernel(self, sig)
        except AttributeError as e:
            if refusals.RECURSION not in str(e):
                raise
            raise KernelCompilationError(
                f"{launch.label_of(self.py_func)}: Numba-CUDA cannot compile the kernel [KB4001]\n"
                + refusals.report(e, self.py_func, of_cuda=True)
            ) from None

    def compiled_device(self: Any, *args: Any, **kwargs: Any) -> Any:
        with deferred(), numba_cuda.global_compiler_lock, numba_cuda_patches.without_nvvm():
            return compile_device(self, *args, **kwargs)

    @functools.wraps(run)
    def launched(
        self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0
    ) -> None:
        if _is_for_cpu(self._codelibrary):
            self.__class__ = launch.HostKernel
            self.launch(args, griddim, blockdim, stream, sharedmem)
            return
        if not isinstance(stream, driver.ExperimentalStream):  # configured on the CPU
            stream = driver._to_core_stream(stream)
        run(self, args, griddim, blockdim, stream, sharedmem)

    _Dispatcher.__init__ = made
    configure = _explained(_Dispatcher.configure.__wrapped__, "[{}]")
    _Dispatcher.configure = functools.lru_cache(maxsize=128)(configure)
    _Dispatcher.__call__ = _explained(_Dispatcher.__call__, "({})")
    _Dispatcher._compile_for_args = _explained(_Dispatcher._compile_for_args, "[...]({})")
    kernels.launch = launched
    mode.choose(kernels, "bind", bound)
    mode.choose(_Dispatcher, "compile", compiled)
    mode.choose(_Dispatcher, "compile_device", compiled_device)


def _is_for_cpu(library: Any) -> bool:
    return _IMAGE in library._cubin_cache


def _add_image(kernel: Any) -> None:
    library, label = kernel._codelibrary, launch.label_of(kernel.py_func)
    names = list(inspect.signature(kernel.py_func).parameters)
    names += [f"parameter {i}" for i in range(len(names), len(kernel.argtypes))]
    arguments = list(_arguments(names, kernel.argtypes))
    wanted, is_fast, entry = None, False, library._entry_name
    if mode.current() == mode.CHECK:
        wanted = checks.Checks(label, [a for _, _, a in arguments])
    else:
        is_fast = bool(library._nvvm_options.get("fastmath"))
        function = library.get_function(entry)
        for layout, word, a in arguments:
            if layout:
                _relate(function, word, layout, a.n_dims, a.item_size)
    with deferred(), numba_cuda.global_compiler_lock:
        image, _ = cuda_on_cpu_compile.image_of(label, library, entry, wanted, is_fast)
    library._cubin_cache[_IMAGE] = image
    cuda_on_cpu_compile.host_code(image, label, kernel.py_func)


def _arguments(
    names: Iterable[str], kinds: Iterable[Any], word: int = 0
) -> Iterator[tuple[str, int, checks.Argument]]:
    """The arrays and records among arguments, with the layout and the first word of each."""
    context = dispatcher.cuda_target.target_context
    for name, kind in zip(names, kinds, strict=False):
        if isinstance(kind, types.BaseTuple):
            yield from _arguments([f"{name}[{i}]" for i in range(len(kind))], kind, word)
        elif isinstance(kind, types.Record):
            cell = checks.written_together(kind.dtype)
            yield "", word, checks.Argument(repr(name), word, kind.size, cell, 0, 0)
        elif isinstance(kind, types.Array):
            described = f"{name!r} ({typed(kind.dtype, [f'{kind.ndim}d'])})"
            size = int(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
            at = word + 4  # after meminfo, parent, the number of elements, and their size
            is_record = isinstance(kind.dtype, types.Record)
            cell = checks.written_together(kind.dtype.dtype) if is_record else size
            flags = checks.STRIDED + checks.CONSTANT * (not kind.mutable)
            yield kind.layout, word, checks.Argument(described, at, size, cell, kind.ndim, flags)
        word += len(context.get_arg_packer([kind]).argument_types)


def _relate(function: Any, word: int, layout: str, n_dims: int, item_size: int) -> None:
    """Compute the size and strides of an array, whose first word is parameter `word` of an entry.

    Numba passes the number of elements, their size and the strides as separate words. LLVM cannot
    know that these agree with the extents, and would therefore keep checks of writes that
    a kernel's own comparison with the number of elements makes unnecessary.
    """
    count_word, size_word = function.args[word + 2 : word + 4]
    extents = function.args[word + 5 : word + 5 + n_dims]
    strides = function.args[word + 5 + n_dims : word + 5 + 2 * n_dims]
    builder, i64 = ir.IRBuilder(), ir.IntType(64)
    builder.position_at_start(function.entry_basic_block)
    size, count = ir.Constant(i64, item_size), ir.Constant(i64, 1)
    known = {id(size_word): size}
    for axis in range(n_dims) if layout == "F" else reversed(range(n_dims)):
        if layout in "CF":
            known[id(strides[axis])] = builder.mul(count, size, flags=["nsw"])
        count = builder.mul(count, extents[axis], flags=["nsw"])
    known[id(count_word)] = count
    for block in function.blocks:
        for instruction in block.instructions:
            if isinstance(instruction, ir.instructions.InsertValue):  # builds the array's struct
                instruction.value = known.get(id(instruction.value), instruction.value)
                instruction._clear_string_cache()


def _function_of(library: Any) -> _HostFunction:
    if _IMAGE not in library._cufunc_cache:
        library._cufunc_cache[_IMAGE] = _HostFunction(library)
    return library._cufunc_cache[_IMAGE]


class _HostFunction:
    """A kernel's machine code, with what Numba reads of a CUfunction, its attributes and module."""

    maxthreads = _MAX_THREADS
    initialized = True  # nothing prepares it

    def __init__(self, library: Any) -> None:
        image = library._cubin_cache[_IMAGE]
        self.digest = image[: cuda_on_cpu_compile.DIGITS]
        self.kernel_name = library.name.rpartition(".")[2]  # of the Python function
        self.handle = next(_MODULES)
        self.name = library._entry_name
        self.attrs = self.kernel = self.module = self
        self._symbols = cuda_on_cpu_compile.compile_image(image).symbols
        size = ctypes.CFUNCTYPE(ctypes.c_int64)
        self.shared = size(self._symbols["kb_shared_size"])()
        self.local = size(self._symbols["kb_stack_size"])()
        self.attributes = SimpleNamespace(max_threads_per_block=_MAX_THREADS)

    def set_shared_memory_carveout(self, carveout: int) -> None:
        """Blocks do not share a cache with others."""

    regs = property(functools.partial(launch.refuse, "number of registers"))
    const = property(functools.partial(launch.refuse, "constant memory"))

    def get_global_symbol(self, name: str) -> tuple[Any, int]:
        """The address of a global of four bytes, and its size."""
        address = self._symbols.get(name)
        if address is None:
            raise KeyError(f"the image has no global {name!r}")
        pointer = driver.binding.CUdeviceptr(address)
        return driver.MemoryPointer(numba_cuda.devices.get_context(), pointer, 4), 4


def _explained(method: Any, got: str) -> Any:
    """Let errors of a dispatcher's method also say what a launch on the CPU needs and got."""

    @functools.wraps(method)
    def call(self: Any, *args: Any) -> Any:
        try:
            return method(self, *args)
        except Exception as e:
            if mode.current() is not None and not isinstance(e, KernbridgeError):
                name, parameters = self.py_func.__name__, inspect.signature(self.py_func).parameters
                given = ", ".join(
                    typed(a.dtype, a.shape) if hasattr(a, "dtype") else f"{a!r:.40}" for a in args
                )
                e.add_note(
                    f"kernel {name!r}: expected {name}[blocks, threads]({', '.join(parameters)}), "
                    "where both are integers or tuples of up to three, and each argument an array, "
                    f"a number or a tuple of these; got {name}{got.format(given)}"
                )
            raise

    return call


def adopt_dispatchers(wanted: str) -> None:
    """Let all dispatchers that exist belong to a mode, unless one has compiled for a GPU."""
    global _home_of_others
    existing = [found for found in gc.get_objects() if type(found) is _Dispatcher]
    if any(vars(found).get("overloads") or _HOME in vars(found) for found in existing):
        use_twins()
    else:
        _home_of_others = wanted


def use_twins() -> None:
    if "__getattribute__" not in vars(_Dispatcher):
        _Dispatcher.__getattribute__ = _attribute


def _attribute(self: Any, name: str) -> Any:
    if name in _STATE:
        own = object.__getattribute__(self, "__dict__")
        wanted = mode.current()
        if own.get(_HOME, _home_of_others) != wanted:
            self = _twin(self, own, wanted)
    return object.__getattribute__(self, name)


def _twin(original: Any, own: dict[str, Any], wanted: str | None) -> Any:
    twins = own.get(_TWINS)
    if twins is not None and wanted in twins:
        return twins[wanted]
    with numba_cuda.global_compiler_lock:
        twins = own.setdefault(_TWINS, {own.get(_HOME, _home_of_others): original})
        if wanted not in twins:
            made = _Dispatcher(
                original.py_func,
                targetoptions=original.targetoptions,
                pipeline_class=original._compiler.pipeline_class,
            )
            vars(made)[_TWINS] = twins
            twins[wanted] = made
            try:
                _compile_declared(original, own, made)
            except BaseException:
                del twins[wanted]
                raise
        return twins[wanted]


def _compile_declared(original: Any, own: dict[str, Any], made: Any) -> None:
    if isinstance(own["_cache"], dispatcher.CUDACache):
        made.enable_caching()
    if object.__getattribute__(original, "_can_compile"):
        return
    for argument_types, compiled in own["overloads"].items():
        if made.targetoptions.get("device"):
            without_gpu: Any = nullcontext()
            if mode.current() is None and not cuda.is_available():  # LLVM IR, for an operation
                without_gpu = numba_cuda_patches.compiling_for(_ANY_ARCHITECTURE)
            with numba_cuda.typeinfer.register_dispatcher(made), without_gpu:
                made.compile_device(argument_types, compiled.signature.return_type)
        else:
            made.compile(argument_types)
    made._specialized = own["_specialized"]
    made.disable_compile()


class _FinderOfMlir(MetaPathFinder):
    """Finds numba-cuda-mlir, as Python does, and replaces its functions when it is executed."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == _MLIR else None
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_replace(module: Any) -> None:
                execute(module)
                _install_mlir()

            spec.loader.exec_module = execute_and_replace  # type: ignore[method-assign]
        return spec
