"""A GPU for tests on CPUs: the fake libcuda, which executes kernels of Numba-CUDA.

`install` is called before kernbridge is imported: GPU operations then have the CPU platform too,
and go the whole way (lowering, program, frame, plan, driver) to a fake driver. With each kernel
that is compiled from then on, or found in the cache, the driver gets its code for the CPU, which a
launch executes. One that CPUs do not run is in `REFUSED`; its launches do nothing. CUDA C++ has no
code for the CPU: a test may give the driver a twin, a function of its own.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sysconfig
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WORDS, NAME, DIGEST = 256, 256, 64
NOTHING, TWIN, CODE = range(3)  # what a launch does
REFUSED: dict[str, str] = {}  # entries that CPUs do not run, and why


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
        ("does", ctypes.c_uint32),
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
        execute_kernels()


def execute_kernels() -> None:
    """From now on, give the driver the code of kernels that kernbridge compiles or finds."""
    from kernbridge._src.numba_cuda import compile as numba_cuda_compile

    if numba_cuda_compile._find is not _find:
        _real["find"], _real["compile"] = (
            numba_cuda_compile._find,
            numba_cuda_compile._compile_protected,
        )
        numba_cuda_compile._find, numba_cuda_compile._compile_protected = _find, _compile_protected


_real: dict[str, Any] = {}
_compiled: list[Any] = []  # of Numba-CUDA: the kernel that `_find` is to compile


def _compile_protected(job):
    compiled, opened = _real["compile"](job)
    _compiled.append(compiled)
    return compiled, opened


def _find(job, fingerprint):
    from kernbridge import KernelCompilationError
    from kernbridge._src.cuda_on_cpu import compile as cuda_on_cpu_compile
    from kernbridge._src.numba_cuda import compile as numba_cuda_compile
    from kernbridge._src.numba_cuda import patches as numba_cuda_patches

    _compiled.clear()
    function = _real["find"](job, fingerprint)
    if function.images[0][0] == cuda_on_cpu_compile.CC:
        return function
    if numba_cuda_compile.mlir.is_mlir(job.kernel):
        on_cpu = replace(job.with_open(function.opened), architectures=numba_cuda_compile.HOST)
        (image,) = numba_cuda_compile._compile(on_cpu).blobs
        _give_code(function, image)
        return function
    if not _compiled:  # its cubin was in the cache, which keeps nothing else of a compilation
        with numba_cuda_patches.without_nvvm():
            _compiled.append(numba_cuda_compile._compile_entry(job.with_open(function.opened)))
    compiled = _compiled.pop()
    try:
        (image,) = cuda_on_cpu_compile.artefact(job.label, compiled, ()).blobs
    except KernelCompilationError as e:
        REFUSED[function.entry] = str(e)
    else:
        _give_code(function, image)
    return function


def _give_code(function, image: bytes) -> None:
    import kernbridge._core as _core
    from kernbridge._src.cuda_on_cpu import compile as cuda_on_cpu_compile

    cuda_on_cpu_compile.compile_image(image)
    execute = ctypes.c_void_p(_core.host_symbols()["kb_hostcuda_launch"])
    digest, entry = image[:DIGEST], function.entry.encode()
    library = ctypes.CDLL(os.environ["KERNBRIDGE_LIBCUDA"])
    for _, cubin in function.images:
        library.fake_cuda_set_code(cubin, ctypes.c_size_t(len(cubin)), entry, digest, execute)


class FakeDriver:
    """The control functions of the fake driver, for one test."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ["KERNBRIDGE_LIBCUDA"])
        self.library.fake_cuda_get_launch.restype = ctypes.POINTER(Launch)
        self.library.fake_cuda_calls.restype = ctypes.c_long
        self.library.fake_cuda_fault_text.restype = ctypes.c_char_p
        self.library.fake_cuda_reset()
        execute_kernels()

    def calls(self, function: str) -> int:
        """Calls of a driver function so far."""
        return self.library.fake_cuda_calls(function.encode())

    def fail(self, function: str, nth: int, code: int) -> None:
        """The nth call from now fails."""
        self.library.fake_cuda_fail(function.encode(), nth, code)

    def fault(self, code: int) -> None:
        """The next launch succeeds, and faults while it runs."""
        self.library.fake_cuda_fault(b"", code)

    @contextmanager
    def capture(self):
        """Record what is enqueued on XLA's stream; gives a function that replays it."""
        self.library.fake_cuda_stream_create.restype = ctypes.c_void_p
        stream = ctypes.c_void_p(self.library.fake_cuda_stream_create(0))

        def replay() -> None:
            code = self.library.fake_cuda_capture_replay(stream)
            assert code == 0, code

        self.library.fake_cuda_stand_in(stream)
        assert self.library.fake_cuda_capture_begin(stream) == 0
        yield replay
        assert self.library.fake_cuda_capture_end(stream) == 0
        self.library.fake_cuda_stand_in(None)

    def use_device(self, device: int) -> None:
        """Calls from now on are for this GPU."""
        self.library.fake_cuda_stream_create.restype = ctypes.c_void_p
        stream = self.library.fake_cuda_stream_create(device)
        self.library.fake_cuda_stand_in(ctypes.c_void_p(stream))

    @property
    def fault_text(self) -> str:
        """What the last fault of a kernel was."""
        return self.library.fake_cuda_fault_text().decode()

    @property
    def launches(self) -> list[Launch]:
        """Launches so far."""
        n = self.library.fake_cuda_n_launches()
        return [self.library.fake_cuda_get_launch(i).contents for i in range(n)]

    def close(self) -> None:
        """Forget everything; sees to it that Numba's kernels were executed."""
        from kernbridge._src.numba_cuda import compile as numba_cuda_compile

        kernels = {f.entry for f in numba_cuda_compile._functions.values()} - REFUSED.keys()
        idle = {launch.entry.decode() for launch in self.launches if launch.does == NOTHING}
        self.library.fake_cuda_reset()
        assert not idle & kernels, "launches of these did nothing"
