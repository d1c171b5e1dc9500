"""A GPU for tests on CPUs: the fake libcuda, and a twin that runs kernels thread by thread.

`install` is called before kernbridge is imported: GPU operations then have the CPU platform too,
and go the whole way (lowering, program, frame, plan, driver) to a fake driver. The twin takes the
words of a launch apart as the compiled entry does, and calls the kernel's Python function once per
thread.
Kernels with barriers or shared memory are beyond it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sysconfig
import tempfile
import types
from itertools import product
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
WORDS, NAME = 256, 256


class Launch(ctypes.Structure):
    """fake_cuda_launch of tests/fake_cuda/fake_cuda.h."""

    _fields_ = [
        ("entry", ctypes.c_char * NAME),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint32),
        ("cooperative", ctypes.c_uint32),
        ("cluster", ctypes.c_uint32 * 3),
        ("overlaps", ctypes.c_uint32),
        ("n_words", ctypes.c_uint32),
        ("words", ctypes.c_uint64 * WORDS),
        ("stream", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("captured", ctypes.c_uint32),
    ]


_TWIN = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_uint32),
    ctypes.POINTER(ctypes.c_uint32),
    ctypes.c_uint32,
    ctypes.c_uint32,
    ctypes.POINTER(ctypes.c_uint64),
)


def compiler() -> str | None:
    """A C compiler, or None."""
    configured = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which("cc") or shutil.which("gcc") or shutil.which(configured)


def build() -> str | None:
    """The fake driver, built anew where its sources are newer; None without a C compiler."""
    sources = sorted((ROOT / "tests" / "fake_cuda").glob("*.[ch]"))
    sources += sorted((ROOT / "src").rglob("*.h"))
    newest = max(int(s.stat().st_mtime_ns) for s in sources)
    folder = Path(tempfile.gettempdir()) / f"kernbridge-fake-{os.getuid()}"
    library = folder / f"libfake_cuda-{newest:x}.so"
    if library.exists():
        return str(library)
    cc = compiler()
    if cc is None:
        return None
    folder.mkdir(mode=0o700, exist_ok=True)
    made = folder / f"{library.name}.{os.getpid()}"
    source = ROOT / "tests" / "fake_cuda" / "fake_cuda.c"
    include = [f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}"]
    flags = ["-shared", "-fPIC", "-O1", "-pthread", *include, "-o", str(made)]
    subprocess.run([cc, *flags, str(source), "-ldl"], check=True)
    made.replace(library)
    return str(library)


def install() -> None:
    """Point kernbridge at the fake driver; does nothing without a C compiler."""
    library = build()
    if library is not None:
        os.environ["KERNBRIDGE_LIBCUDA"] = library
        os.environ["KERNBRIDGE_TEST_CUDA"] = "1"


class FakeDriver:
    """The control functions of the fake driver, for one test."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ["KERNBRIDGE_LIBCUDA"])
        self.library.fake_cuda_get_launch.restype = ctypes.POINTER(Launch)
        self.library.fake_cuda_calls.restype = ctypes.c_long
        self.library.fake_cuda_reset()
        self.failures: list[BaseException] = []
        self._twin = _TWIN(self._run_twin)
        self.library.fake_cuda_set_twin(b"", self._twin, None)

    def _run_twin(self, *launch) -> None:
        try:
            run_twin(*launch)
        except BaseException as e:  # ctypes would print it, and go on
            self.failures.append(e)
            raise

    def calls(self, function: str) -> int:
        """Calls of a driver function so far."""
        return self.library.fake_cuda_calls(function.encode())

    def fail(self, function: str, nth: int, code: int) -> None:
        """The nth call from now fails."""
        self.library.fake_cuda_fail(function.encode(), nth, code)

    def fault(self, code: int) -> None:
        """The next launch succeeds, and faults while it runs."""
        self.library.fake_cuda_fault(b"", code)

    @property
    def launches(self) -> list[Launch]:
        """Launches so far."""
        n = self.library.fake_cuda_n_launches()
        return [self.library.fake_cuda_get_launch(i).contents for i in range(n)]

    def close(self) -> None:
        """Forget everything; raises what kernels raised."""
        self.library.fake_cuda_reset()
        if self.failures:
            raise self.failures[0]


class _Index:
    def __init__(self, x: int, y: int, z: int) -> None:
        self.x, self.y, self.z = x, y, z


class _Atomic:
    @staticmethod
    def add(array, index, value):
        before = array[index]
        array[index] += value
        return before


class _Cuda:
    """`numba.cuda` as one thread sees it."""

    def __init__(self, grid, block) -> None:
        self.gridDim, self.blockDim = _Index(*grid), _Index(*block)
        self.atomic = _Atomic()

    def place(self, block, thread) -> None:
        self.blockIdx, self.threadIdx = _Index(*block), _Index(*thread)

    def grid(self, ndim):
        at = [
            b * n + t
            for b, n, t in zip(
                vars(self.blockIdx).values(),
                vars(self.blockDim).values(),
                vars(self.threadIdx).values(),
                strict=True,
            )
        ]
        return at[0] if ndim == 1 else tuple(at[:ndim])

    def gridsize(self, ndim):
        sizes = [self.gridDim.x * self.blockDim.x, self.gridDim.y * self.blockDim.y]
        return sizes[0] if ndim == 1 else tuple(sizes[:ndim])


def _function_of(entry: str):
    from kernbridge import _cuda_compile

    for function in _cuda_compile._functions.values():
        if function.entry == entry:
            return function
    raise LookupError(entry)


def _array(address: int, dtype, shape, strides):
    if 0 in shape:
        return np.zeros(shape, dtype)
    reach = dtype.itemsize + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    memory = (ctypes.c_char * reach).from_address(address)
    return np.ndarray(shape, dtype, memory, 0, strides)


def _compact(shape, item_size):
    strides, step = [], item_size
    for n in reversed(shape):
        strides.insert(0, step)
        step *= n
    return tuple(strides)


def _take(parameter, words, batched: bool, z: int):
    """One argument of the kernel, taken off the list of words."""
    own = [words.pop(0) for _ in range(parameter.n_words(batched))]
    if parameter.kind == "scalar":
        return (
            np.array(own, np.uint64)
            .view(np.uint8)[: parameter.dtype.itemsize]
            .view(parameter.dtype)[0]
        )
    address = own.pop(0)
    if batched:
        address += z * own.pop(0)
    if parameter.kind == "loaded":
        return _array(address, parameter.dtype, (1,), (0,))[0]
    shape = tuple(own[: parameter.ndim])
    strides = tuple(own[parameter.ndim :]) or _compact(shape, parameter.dtype.itemsize)
    array = _array(address, parameter.dtype, shape, strides)
    if parameter.read_only:
        array.flags.writeable = False
    return array


def run_twin(_data, entry, grid, block, _shared, n_words, words) -> None:
    """What a launch does."""
    function = _function_of(entry.decode())
    given, grid, block = words[:n_words], grid[:3], block[:3]
    cuda = _Cuda(grid, block)
    code = function.kernel().py_func
    cells = [
        types.CellType(cuda) if getattr(c.cell_contents, "__name__", "") == "numba.cuda" else c
        for c in code.__closure__ or ()
    ]
    space = {**code.__globals__, "cuda": cuda}
    run = types.FunctionType(code.__code__, space, None, code.__defaults__, tuple(cells))
    opened = set(function.opened)
    for z in range(grid[2] if function.batched else 1):
        left = list(given)
        arguments = [_take(p, left, function.batched, z) for p in function.parameters]
        for i in opened:
            arguments[i].flags.writeable = True
        slices = [0] if function.batched else range(grid[2])
        for bz, by, bx in product(slices, range(grid[1]), range(grid[0])):
            for tz, ty, tx in product(range(block[2]), range(block[1]), range(block[0])):
                cuda.place((bx, by, bz), (tx, ty, tz))
                run(*arguments)
