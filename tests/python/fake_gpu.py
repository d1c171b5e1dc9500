"""A GPU for tests on CPUs: the fake libcuda, which executes kernels of Numba-CUDA.

`install` is called before kernbridge is imported: GPU operations then have the CPU platform too,
and go the whole way (lowering, program, frame, plan, driver) to a fake driver. Its target makes a
cubin of each kernel, and code for the CPU, which the driver executes in a launch. A kernel that
CPUs do not run is in `REFUSED`; its launches do nothing. CUDA C++ has no code for the CPU: a test
may give the driver a twin, a function of its own.
"""

from __future__ import annotations

import copy
import ctypes
import os
import shutil
import subprocess
import sysconfig
import tempfile
from contextlib import contextmanager
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
    """Let operations for GPUs run on the fake driver.

    Does nothing without a C compiler, or without the extension that executes kernels on the CPU.
    A program of another process does so if its environment has KERNBRIDGE_TEST_CUDA.
    """
    library = None if "KERNBRIDGE_TEST_ALONE" in os.environ else build()
    if library is None:
        return
    os.environ["KERNBRIDGE_LIBCUDA"] = library
    os.environ["KERNBRIDGE_TEST_CUDA"] = "1"
    connect()


def connect() -> None:
    """Import kernbridge, whose handlers for GPUs XLA then has for CPUs, too."""
    import jax

    real = jax.ffi.register_ffi_target
    on_cpu: set[str] = set()

    def register(name: str, handler: Any, platform: str = "cpu", **more: Any) -> None:
        real(name, handler, platform=platform, **more)
        if platform == "CUDA" and name not in on_cpu:
            real(name, handler, platform="cpu", **more)
        if platform in ("cpu", "CUDA"):
            on_cpu.add(name)

    if hasattr(real, "of_fake_gpu"):
        return
    register.of_fake_gpu = True
    jax.ffi.register_ffi_target = register
    from kernbridge._src.base import debug
    from kernbridge._src.plan import targets

    debug.switch_on("fake driver")
    of_gpus, fake = targets._makers["cuda"], fake_target(targets.of_platform("cpu"))
    for platform in ("cuda", "cpu"):
        make = lambda *how: fake(of_gpus(*how).architectures)  # noqa: E731
        targets.register(platform, make)
    targets._of_gpus.append("cpu")


SEEN: set[str] = set()  # entries of Numba's kernels that the driver was given


def fake_target(emulated):
    """The target of the fake driver: a kernel has a cubin, and code for the CPU."""
    import kernbridge._core as _core
    from kernbridge import KernelCompilationError
    from kernbridge._ext.emulator.compiler import compile as cuda_on_cpu_compile
    from kernbridge._src.plan.targets import Gpu

    class FakeGpu(Gpu):
        def finish(self, job, compiled, opened):
            images, uses_z = super().finish(job, compiled, opened)
            library = compiled._codelibrary
            if library is compiled:  # of numba-cuda-mlir; `images` compiles its kernel for the CPU
                return images, uses_z
            try:
                image, _ = cuda_on_cpu_compile.image_of(job.label, library, library._entry_name)
            except KernelCompilationError as e:
                image = b"refused: " + str(e).encode()
            return {**images, _core.HOST_CC: image}, uses_z

        def images(self, job, made):
            images = super().images(job, made)
            entry = made.meta["entry"]
            SEEN.add(entry)
            image = images.pop(_core.HOST_CC, None)
            if image is None:
                opened = made.meta.get("opened")  # a derivative has none
                on_cpu = copy.copy(job) if opened is None else job.with_open(opened)
                on_cpu.target = emulated
                (image,) = on_cpu.make().blobs
            if image.startswith(b"refused: "):
                REFUSED[entry] = image.decode()
            else:
                digest = cuda_on_cpu_compile.compile_image(image) and image[:DIGEST]
                execute = ctypes.c_void_p(_core.cuda_code_provides("kb_hostcuda_launch"))
                library = ctypes.CDLL(os.environ["KERNBRIDGE_LIBCUDA"])
                for cubin in images.values():
                    size = ctypes.c_size_t(len(cubin))
                    library.fake_cuda_set_code(cubin, size, entry.encode(), digest, execute)
            return images

    return FakeGpu


class FakeDriver:
    """The control functions of the fake driver, for one test."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ["KERNBRIDGE_LIBCUDA"])
        self.library.fake_cuda_get_launch.restype = ctypes.POINTER(Launch)
        self.library.fake_cuda_calls.restype = ctypes.c_long
        self.library.fake_cuda_fault_text.restype = ctypes.c_char_p
        self.library.fake_cuda_reset()

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
        idle = {launch.entry.decode() for launch in self.launches if launch.does == NOTHING}
        self.library.fake_cuda_reset()
        assert not idle & SEEN - REFUSED.keys(), "launches of these did nothing"
