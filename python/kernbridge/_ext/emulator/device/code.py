"""Compiles kernels of Numba-CUDA's dispatchers for the CPU.

Numba types a kernel, generates its LLVM IR and caches the result, as it does for a GPU. Its code
library then contains kernbridge's image of the kernel instead of a cubin, under a separate key.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, NoReturn

from kernbridge._ext.emulator.compiler import compile as cuda_on_cpu_compile
from kernbridge._ext.emulator.compiler.checks import (
    CONSTANT,
    STRIDED,
    Argument,
    Checks,
    written_together,
)
from kernbridge._ext.emulator.compiler.isolated_compile import compiling as asking
from kernbridge._ext.emulator.device import mode
from kernbridge._src.base.errors import KernelNotAvailableError, typed
from kernbridge._src.base.patched import patched
from kernbridge._src.base.progress import shown
from kernbridge._src.forge.obtain import deferred
from kernbridge._src.numba_common import numba_cuda_patches as patches
from kernbridge._src.numba_common.private_llvmlite import ir
from kernbridge._src.numba_common.private_numba_cuda import (
    devices,
    dispatcher,
    driver,
    global_compiler_lock,
    types,
)

MAX_THREADS = 1024
COUNTERPART_OF = "_kernbridge_original"  # in a dispatcher: label, kernel of numba-cuda-mlir
_IMAGE = "kernbridge"  # the key of images among cubins, and of loaded kernels among GPUs'
_MODULES = itertools.count(0x100000, 16)


def is_for_cpu(library: Any) -> bool:
    return _IMAGE in library._cubin_cache


def refuse(what: str, *_: Any, **__: Any) -> NoReturn:
    raise KernelNotAvailableError(
        f"the program asks for the {what} of a kernel, which does not exist where kernels run on "
        "the CPU; run this part on a GPU [KB7005]"
    )


def label_of(function: Any) -> str:
    return f"kernel {function.__name__!r}"


@contextmanager
def compiling(compiled: Any) -> Iterator[None]:
    """Let a dispatcher compile a kernel for the CPU, in the mode of this thread."""
    is_checked = mode.current() == mode.CHECK
    own: Any = nullcontext()
    if is_checked and not compiled.targetoptions.get("debug"):
        own = patched((compiled, "targetoptions", {**compiled.targetoptions, "lineinfo": True}))
    said = shown(f"compiling {label_of(compiled.py_func)} with Numba-CUDA")
    with deferred(), said, global_compiler_lock, patches.without_nvvm(), asking(is_checked), own:
        yield


def add_image(kernel: Any) -> None:
    library, label = kernel._codelibrary, label_of(kernel.py_func)
    names = list(inspect.signature(kernel.py_func).parameters)
    names += [f"parameter {i}" for i in range(len(names), len(kernel.argtypes))]
    arguments = list(_arguments(names, kernel.argtypes))
    checks, is_fast, entry = None, False, library._entry_name
    if mode.current() == mode.CHECK:
        checks = Checks(label, [a for _, _, a in arguments])
    else:
        is_fast = bool(library._nvvm_options.get("fastmath"))
        function = library.get_function(entry)
        for layout, word, a in arguments:
            if layout:
                _relate(function, word, layout, a.n_dims, a.item_size)
    with deferred(), global_compiler_lock:
        image, _ = cuda_on_cpu_compile.image_of(label, library, entry, checks, is_fast)
    library._cubin_cache[_IMAGE] = image
    cuda_on_cpu_compile.host_code(image, label, kernel.py_func)


def _arguments(
    names: Iterable[str], kinds: Iterable[Any], word: int = 0
) -> Iterator[tuple[str, int, Argument]]:
    """The arrays and records among arguments, with the layout and the first word of each."""
    context = dispatcher.cuda_target.target_context
    for name, kind in zip(names, kinds, strict=False):
        if isinstance(kind, types.BaseTuple):
            yield from _arguments([f"{name}[{i}]" for i in range(len(kind))], kind, word)
        elif isinstance(kind, types.Record):
            yield "", word, Argument(repr(name), word, kind.size, _cell(kind), 0, 0)
        elif isinstance(kind, types.Array):
            described = f"{name!r} ({typed(kind.dtype, [f'{kind.ndim}d'])})"
            size = int(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
            at = word + 4  # after meminfo, parent, the number of elements, and their size
            cell = _cell(kind.dtype) or size
            flags = STRIDED + CONSTANT * (not kind.mutable)
            yield kind.layout, word, Argument(described, at, size, cell, kind.ndim, flags)
        word += len(context.get_arg_packer([kind]).argument_types)


def _cell(kind: Any) -> int:
    """Return how many bytes of an element are written together; 0 if all are."""
    return written_together(kind.dtype) if isinstance(kind, types.Record) else 0


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


def function_of(library: Any) -> HostFunction:
    if _IMAGE not in library._cufunc_cache:
        library._cufunc_cache[_IMAGE] = HostFunction(library)
    return library._cufunc_cache[_IMAGE]


class HostFunction:
    """A kernel's machine code, with what Numba reads of a CUfunction, its attributes and module."""

    maxthreads = MAX_THREADS
    initialized = False

    def __init__(self, library: Any) -> None:
        image = library._cubin_cache[_IMAGE]
        self.digest = image[: cuda_on_cpu_compile.DIGITS]
        self.kernel_name = library.name.rpartition(".")[2]  # of the Python function
        self.handle = next(_MODULES)
        self.name = library._entry_name
        self.attrs = self.kernel = self.module = self
        self._symbols = cuda_on_cpu_compile.compile_image(image).symbols
        self.shared, self.local = map(self._number, ("kb_shared_size", "kb_stack_size"))
        self.attributes = SimpleNamespace(max_threads_per_block=MAX_THREADS)

    def set_shared_memory_carveout(self, carveout: int) -> None:
        """Blocks do not share a cache with others."""

    regs = property(functools.partial(refuse, "number of registers"))
    const = property(functools.partial(refuse, "constant memory"))

    def _number(self, function: str) -> int:
        return int(ctypes.CFUNCTYPE(ctypes.c_int64)(self._symbols[function])())

    def setup(self) -> None:
        self.initialized = True

    def get_global_symbol(self, name: str) -> tuple[Any, int]:
        """The address of a global of four bytes, and its size."""
        address = self._symbols.get(name)
        if address is None:
            raise KeyError(f"the image has no global {name!r}")
        pointer = driver.binding.CUdeviceptr(address)
        return driver.MemoryPointer(devices.get_context(), pointer, 4), 4
