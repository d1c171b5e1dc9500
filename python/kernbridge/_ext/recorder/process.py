"""The process in which a function of a CUDA module runs to be recorded, without a GPU.

`launcher` starts it as a program of its own, which imports only what reads and writes memory. The
first bytes of each function of the CUDA runtime in the module's library become a jump to code that
leaves the function: it keeps the registers of the arguments, and `swapcontext` goes on in Python,
which writes down what was asked for. `swapcontext` then returns to the caller, with 0 (cudaSuccess)
as the result. Functions whose results may differ are refused where the libraries find them.

No Python runs on the stack of the function. It is one of zeros at a fixed address, so that the
padding of structures is the same in each process. All runs in a second thread, whose memory does
not lie behind the program as the first one's does: addresses of the host are then greater than
most numbers (`_LEAST_ADDRESS`).
"""

from __future__ import annotations

import _thread
import ctypes
import gc
import marshal
import os
import struct
import sys

TYPE_CHECKING = False  # the module `typing` takes as long to import as all others together
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_LEAST_ADDRESS, _MOST_ADDRESS, _HALF = 1 << 32, 1 << 48, (1 << 32) - 1
# Half an address of the stack beside a number of four bytes looks like no address of it.
_STACK, _STACK_SIZE = (1 << 40) + (1 << 31), 8 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ANY_ACCESS, _PRIVATE = 7, 0x4022  # memory of no file, not reserved
_CONTEXT_SIZE, _MEMORY_SIZE, _TEXT_SIZE = 8192, 1 << 26, 8192
_CUDA, _ABI = 2, 1  # of a kb_tensor, and of kb_call

# Tags of the dynamic section of an ELF file.
_PLTRELSZ, _RELA, _RELASZ, _JMPREL = 2, 7, 8, 23

# Of cudaLaunchAttributeID, cudaFuncAttribute and cudaMemcpyKind.
_COOPERATIVE, _CLUSTER, _OVERLAP = 2, 4, 6
_DYNAMIC_SHARED, _CARVEOUT = 8, 9
_BETWEEN_ARRAYS = (3, 4)  # on the device, and as the addresses say
_THREADS_MAX, _ROWS_MAX, _SHARED_MAX = 1024, 65535, 227 << 10  # of any GPU

_NOTHING = (  # what means nothing in a plan, some of it for these arguments
    *("__cudaRegisterFatBinary", "__cudaRegisterFatBinaryEnd", "__cudaUnregisterFatBinary"),
    *("__cudaInitModule", "cudaDeviceSynchronize", "cudaEventDestroy", "cudaEventQuery"),
    *("cudaEventRecord", "cudaEventRecordWithFlags", "cudaEventSynchronize"),
    *("cudaFuncSetCacheConfig", "cudaGetLastError", "cudaPeekAtLastError"),
    *("cudaStreamSynchronize", "cudaStreamWaitEvent", "cudaMemcpyAsync", "cudaMemsetAsync"),
    *("cudaSetDevice", "kb_services.scratch"),
)
_ASKED = (  # beginnings of what the device answers, in a context of this process
    *("cudaDeviceGetAttribute", "cudaDeviceGetLimit", "cudaDriverGetVersion", "cudaOccupancy"),
    *("cudaFuncGetAttributes", "cudaGetDeviceCount", "cudaGetDeviceProperties"),
    "cudaRuntimeGetVersion",
)
_STREAMS = {  # which argument is a stream
    **dict.fromkeys(("cudaStreamIsCapturing", "cudaStreamSynchronize", "cudaStreamWaitEvent"), 0),
    **dict.fromkeys(("cudaEventRecord", "cudaEventRecordWithFlags", "cudaFreeAsync"), 1),
    **dict(zip(("cudaMallocAsync", "cudaMemsetAsync", "cudaMemcpyAsync"), (2, 3, 4), strict=True)),
}

_OWN_LIBRARIES = (
    *("libstdc++.so", "libgcc_s.so", "libc.so", "libm.so", "libdl.so", "librt.so", "libpthread"),
    *("libgomp.so", "ld-linux", "linux-vdso", "libcudart"),
)
_WATCHED = (  # whose results may differ at each call, or which hide what a function does
    *("clock", "clock_gettime", "getpid", "gettimeofday", "time", "timespec_get", "arc4random"),
    *("arc4random_buf", "arc4random_uniform", "drand48", "getentropy", "getrandom", "lrand48"),
    *("mrand48", "rand", "random", "_ZNSt13random_device9_M_getvalEv", "secure_getenv", "dlopen"),
    *("fopen", "getenv", "open", "fork", "openat", "popen", "pthread_create", "syscall", "system"),
)

# Machine code. `jump` goes to an address. `leave` keeps eight registers, the address of the stack
# and a number, and calls swapcontext(there, here). `enter` clears the registers that a function
# saves, calls it, and has its result as an argument. `each` is kb_services.parallel_for.
_CODE = {
    "x86_64": {
        "jump": "49bb{to}41ffe3",
        "number": "48b8{number}",
        "leave": "49bb{kept} 49893b 49897308 49895310 49894b18 4d894320 4d894b28 49896340 49894348"
        "48bf{there} 48be{here} 49bb{to}41ffe3",
        "enter": "31db 31ed 4531e4 4531ed 4531f6 4531ff 50 48b8{function} ffd0 4889c7",
        "each": "4889d0 4889f2 4889cf 31f6 4885d2 7e02 ffe0 c3",
    },
    "aarch64": {
        "jump": "50000058 00021fd6 {to}",
        "number": "51000058 03000014 {number}",
        "leave": "50000058 03000014 {kept} 000600a9 020e01a9 041602a9 061e03a9 e9030091 094604a9"
        "40000058 03000014 {there} 41000058 03000014 {here} 50000058 00021fd6 {to}",
        "enter": "f3031faa f4031faa f5031faa f6031faa f7031faa f8031faa f9031faa fa031faa"
        "fb031faa fc031faa fd031faa 50000058 03000014 {function} 00023fd6",
        "each": "f00302aa e20301aa e00303aa 010080d2 5f0000f1 4d000054 00021fd6 c0035fd6",
    },
}
_MACHINE = os.uname().machine
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_uint64] * 8)
_LIBC = ctypes.CDLL(None)


def _address(library: ctypes.CDLL, name: str) -> int:
    """The address of a function or a variable; 0 if there is none."""
    found = getattr(library, name, None)
    return 0 if found is None else ctypes.cast(found, ctypes.c_void_p).value or 0


def _call(function: int | str, *arguments: int) -> int:
    """Call a function by its address, or one of the C library by its name."""
    at = (function, _LIBC) if isinstance(function, str) else function
    return int(_FUNCTION(at)(*arguments, *[0] * (8 - len(arguments))))


def _change(function: str, *arguments: int) -> int:
    """Call a function of the C library that makes or changes memory for code."""
    if (result := _call(function, *arguments)) == -1:
        raise ValueError("this system does not let code be changed in memory")
    return result


def _load(form: str, at: int) -> tuple[Any, ...]:
    return struct.unpack(form, ctypes.string_at(at, struct.calcsize(form)))


def _text(at: int) -> str:
    return ctypes.string_at(at).decode(errors="replace")


def _code(*names: str, **quads: int) -> bytes:
    values = {key: struct.pack("<Q", value).hex() for key, value in quads.items()}
    return bytes.fromhex("".join(_CODE[_MACHINE][name] for name in names).format(**values))


def _slots(base: int, at: int) -> Iterator[int]:
    """The places in a library that the linker filled with addresses of functions, and others."""
    tags: dict[int, int] = {}
    while (entry := _load("<2Q", at))[0]:
        tags[entry[0]], at = entry[1], at + 16
    for table, size in ((_JMPREL, _PLTRELSZ), (_RELA, _RELASZ)):
        data = ctypes.string_at(tags.get(table, 0), tags.get(size, 0))
        yield from (base + to for to, symbol in struct.iter_unpack("<Q4xI8x", data) if symbol)


class _Recorder:
    """A function of a module, whose calls of the CUDA runtime come here."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        self._kernels: dict[int, str] = {}  # names, by the functions that stand for them
        self._left = [("", 0)]  # functions, by number: the name and the address
        self._patches: list[tuple[int, bytes, bytes]] = []
        self._library = ctypes.CDLL(request["path"], mode=os.RTLD_NOW)
        self._here = _change("mmap", 0, _MEMORY_SIZE, _ANY_ACCESS, _PRIVATE)
        self._there, kept = self._here + _CONTEXT_SIZE, self._here + 2 * _CONTEXT_SIZE
        self._kept = (ctypes.c_uint64 * 10).from_address(kept)
        self._next = kept + _CONTEXT_SIZE
        to = _address(_LIBC, "swapcontext")
        leave = _code("leave", kept=kept, there=self._there, here=self._here, to=to)
        self._leave = self._put(leave)
        module = _address(self._library, "kb_module_description")
        self._patch(module - request["module"])
        for constructor in request["constructors"]:  # which registers kernels once more
            self._run(module - request["module"] + constructor)
        if variable := request["variable"]:
            why = "which may change between calls"
            raise ValueError(f"the module has the host variable {variable}, {why}")
        n_exports, exports = _load("<8xi4xQ", module)
        exported = (_load("<Q8xQ", exports + 40 * i) for i in range(n_exports))
        self._function = {_text(name): run for name, run in exported}[request["function"]]

    def _write(self, at: int, data: bytes) -> None:
        ctypes.memmove(at, data, len(data))
        if _MACHINE == "aarch64":
            _call(_address(self._library, "__clear_cache"), at, at + len(data))

    def _put(self, data: bytes) -> int:
        """The address of code or of data that did not exist before."""
        at, self._next = self._next, self._next + len(data) + -len(data) % 16
        self._write(at, data)
        return at

    def _leaving(self, name: str, at: int = 0) -> int:
        """The address of code that leaves what runs, as the function that is there."""
        self._left.append((name, at))
        return self._put(_code("number", "jump", number=len(self._left) - 1, to=self._leave))

    def _patch(self, base: int) -> None:
        """Let functions be left: of the module, of libraries, and in slots of the linker."""
        places = self._request["functions"].items()  # 0: of another library
        found = {base + at if at else _address(self._library, name): name for name, at in places}
        codes = {at: _code("jump", to=self._leaving(name, at)) for at, name in found.items() if at}
        addresses = {_address(self._library, name): name for name in _WATCHED}
        watched = {at: struct.pack("<Q", self._leaving(n)) for at, n in addresses.items() if at}
        entry = self._library._handle  # glibc's link_map
        while entry:  # the module, and the libraries that were loaded with it
            start, name_at, dynamic, following = _load("<4Q", entry)
            name = os.path.basename(_text(name_at))
            if entry != self._library._handle and not name.startswith(_OWN_LIBRARIES):
                raise ValueError(f"it uses the library {name}, whose work cannot be recorded")
            if not name.startswith("libcudart"):
                slots = ((at, *_load("<Q", at)) for at in _slots(start, dynamic))
                codes |= {at: watched[to] for at, to in slots if to in watched}
            entry = following
        for at, code in codes.items():
            first = at & -_PAGE
            _change("mprotect", first, at + len(code) - first, _ANY_ACCESS)
            self._patches.append((at, ctypes.string_at(at, len(code)), code))
        self._switch(True)

    def _switch(self, is_on: bool) -> None:
        for at, before, code in self._patches:
            self._write(at, code if is_on else before)

    def _run(self, function: int, argument: int = 0) -> int:
        """Run a function of the module, and do what it asks for; the result has 32 bits."""
        end = _code("enter", "number", "jump", function=function, number=0, to=self._leave)
        stack = _change("mmap", _STACK, _STACK_SIZE, _ANY_ACCESS, _PRIVATE)
        _call("getcontext", self._there)
        self._write(self._there + 8, struct.pack("<4Q", 0, stack, 0, _STACK_SIZE))
        _call("makecontext", self._there, self._put(end), 1, argument)
        while True:
            _call("swapcontext", self._here, self._there)
            *arguments, at, number = self._kept
            if not number:
                _call("munmap", stack, _STACK_SIZE)
                return arguments[0] & _HALF
            if _MACHINE == "x86_64":
                arguments[6:] = _load("<2Q", at + 8)
            self._do(*self._left[number], arguments)

    def _do(self, called: str, at: int, a: Sequence[int]) -> None:
        """Do what is done in place of a function that was called with the arguments `a`."""
        name = called.removesuffix("_ptsz").removesuffix("_ptds")  # of streams of threads
        if name in _STREAMS and a[_STREAMS[name]] != self._stream:
            raise ValueError(f"{name} uses another stream than XLA's")
        match name:
            case "__cudaRegisterFunction":
                self._kernels[a[1]] = _text(a[3])
            case "__cudaRegisterVar" | "__cudaRegisterManagedVar":
                variable = _text(a[3])
                # Function objects of CCCL are variables without a value.
                is_cccl = any(part in variable for part in ("4cuda3std", "6thrust", "3cub"))
                if not is_cccl and "__4" not in variable.partition("4cuda")[2]:
                    why = "which keeps its value between calls"
                    raise ValueError(f"the module has the device variable {variable}, {why}")
            case "__cudaGetKernel":
                self._write(a[0], struct.pack("<Q", a[1]))
            case "cudaLaunchKernel" | "__cudaLaunchKernel" | "cudaLaunchCooperativeKernel":
                sizes = struct.unpack("<3I4x3I4x", struct.pack("<4Q", *a[1:5]))
                together = {_COOPERATIVE: ["Cooperative" in name]}
                self._launch(a[0], (*sizes, a[6], a[7]), together, a[5])
            case "cudaLaunchKernelExC":
                *how, attributes, n = _load("<6I3QI", a[0])
                pairs = (_load("<I4x3I", attributes + 72 * i) for i in range(n))
                self._launch(a[1], how, {key: values for key, *values in pairs}, a[2])
            case "cudaFuncSetAttribute":
                what, value = struct.unpack("<i4xi4x", struct.pack("<2Q", *a[1:3]))
                if what != _CARVEOUT and (what != _DYNAMIC_SHARED or not 0 <= value <= _SHARED_MAX):
                    raise ValueError(f"it sets attribute {what} of a kernel to {value}")
            case "cudaMemsetAsync" if a[2]:
                self._written.append(("fill", (a[0],), (a[1] & 0xFF, a[2])))
            case "cudaMemcpyAsync" if a[3] & _HALF not in _BETWEEN_ARRAYS:
                raise ValueError("it copies between the host and the device")
            case "cudaMemcpyAsync" if a[2]:
                self._written.append(("copy", (a[0], a[1]), (a[2],)))
            case "cudaMalloc" | "cudaMallocAsync":
                self._write(a[0], struct.pack("<Q", self._free if a[1] else 0))
                if a[1]:
                    self._written.append(("allocate", (self._free,), (a[1],)))
                    self._allocated ^= {self._free}
                    self._free += self._step
            case "cudaFree" | "cudaFreeAsync":
                self._allocated ^= {a[0]} - {0}
            case "cudaEventCreate" | "cudaEventCreateWithFlags":
                self._write(a[0], struct.pack("<Q", self._stream))  # whose order a plan has anyway
            case "cudaStreamIsCapturing":  # asked before a wait, which means nothing in a plan
                self._write(a[1], bytes(4))
            case "cudaGetDevice":
                self._write(a[0], bytes(4))
            case "cudaSetDevice" if a[0] & _HALF:
                raise ValueError("it changes the device")
            case "kb_services.fail":
                _call("snprintf", self._next, _TEXT_SIZE, *a[2:])
                raise ValueError(f"it fails: {_text(self._next).partition(chr(10))[0]}")
            case _ if name.startswith(_ASKED):
                self._switch(False)
                if code := _call(at, *a) & _HALF:
                    why = f"and this machine has none (CUDA error {code})"
                    raise ValueError(f"it asks for the device by {name}, {why}")
                self._switch(True)
            case "getenv" if _text(a[0]).startswith("NVTX_"):  # of a profiler, which CUB asks for
                pass
            case _ if name in _WATCHED:
                given = f'("{_text(a[0])}")' if name == "getenv" else ""
                raise ValueError(f"it calls {name}{given}, whose result may differ at each call")
            case _ if name not in _NOTHING:
                raise ValueError(f"it calls {called}, which a plan cannot contain")

    def _launch(self, stub: int, how: Sequence[int], more: dict[int, Any], parameters: int) -> None:
        """Write down a launch with values of cudaLaunchAttribute, by their numbers."""
        *grid, x, y, z, shared, stream = how
        if (name := self._kernels.get(stub, "")) not in self._request["kernels"]:
            raise ValueError("it launches a kernel that is not in the module's own device code")
        if stream != self._stream:
            raise ValueError("a launch uses another stream than XLA's")
        too_many = x * y * z > _THREADS_MAX or max(grid[1:]) > _ROWS_MAX or shared > _SHARED_MAX
        if too_many or 0 in (*grid, x, y, z):
            raise ValueError("it launches a grid or a block that no GPU can run")
        if unknown := sorted(more.keys() - {0, _COOPERATIVE, _CLUSTER, _OVERLAP}):
            raise ValueError(f"a launch has attribute {unknown[0]} of cudaLaunchAttributeID")
        sizes = self._request["kernels"][name]
        words = tuple(map(self._words, _load(f"<{len(sizes)}Q", parameters), sizes))
        flags = (bool(more.get(key, [0])[0]) for key in (_COOPERATIVE, _OVERLAP))
        fixed = (name, tuple(grid), (x, y, z), shared, tuple(more.get(_CLUSTER, (0, 0, 0))), *flags)
        self._written.append(("launch", words, fixed))

    def _words(self, at: int, size: int) -> tuple[int, ...]:
        """The words of a parameter, which may be numbers and addresses of the device."""
        data = ctypes.string_at(at, size)
        for (word,) in struct.iter_unpack("<Q", data[: size // 8 * 8]):
            if _LEAST_ADDRESS <= word < _MOST_ADDRESS and not _call("msync", word & -_PAGE, 1, 1):
                raise ValueError("it passes a kernel the address of memory of the host")
        return struct.unpack(f"<{-(-size // 8)}Q", data + bytes(-size % 8))

    def _tensor(self, array: tuple[Any, ...], run: int) -> bytes:
        """A kb_tensor of include/kernbridge/kernbridge.h."""
        number, code, bits, shape, strides, size, places = array
        dims = (self._put(struct.pack(f"<{len(shape)}q", *n)) for n in (shape, strides))
        fields = (places[run], _CUDA, 0, len(shape), code, bits, 1, *dims, 0, number, 0, size)
        return struct.pack("<Q3i2BH3Q2iq", *fields)

    def call(self, run: int) -> list[Any]:
        """What the function does in a run: launches, fills, copies and allocations."""
        arrays, n_inputs, values = (self._request[key] for key in ("arrays", "n_inputs", "values"))
        self._free, following = (places[run] for places in self._request["allocations"])
        self._step, self._stream = following - self._free, self._free + (1 << 49)
        self._written: list[Any] = []
        self._allocated: set[int] = set()
        tensors = [self._tensor(array, run) for array in arrays]
        pointers = struct.pack(f"<{len(values)}Q", *map(self._put, values))
        parts = (b"".join(tensors[:n_inputs]), b"".join(tensors[n_inputs:]), pointers)
        fail, scratch = (self._leaving(f"kb_services.{name}") for name in ("fail", "scratch"))
        each = self._put(_code("each"))
        services = self._put(struct.pack("<2I3Q", 32, _ABI, fail, scratch, each))
        numbers = (0, n_inputs, len(arrays) - n_inputs, len(values))
        fields = (72, _ABI, services, 0, self._stream, *numbers, *map(self._put, parts))
        if code := self._run(self._function, self._put(struct.pack("<2I3Q4i3Q", *fields))):
            raise ValueError(f"it fails: it returns {code}")
        if self._allocated:
            raise ValueError("it keeps memory that it allocates")
        return self._written


def _answer() -> None:
    try:
        out, printed = os.dup(1), os.memfd_create("printed")
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        try:
            recorder = _Recorder(marshal.load(sys.stdin.buffer))
            _call("fflush")
            before = os.fstat(printed).st_size
            recorder.call(0)  # for what only a first call does
            answer = marshal.dumps([recorder.call(run) for run in (0, 1)])
            _call("fflush")
            if os.fstat(printed).st_size != before:
                raise ValueError("it prints")
        except (ValueError, OSError) as e:
            answer = marshal.dumps(str(e))
        while answer:
            answer = answer[os.write(out, answer) :]
        os._exit(0)
    finally:
        os._exit(1)


def main() -> None:
    """Read a request of `launcher`; write what was recorded, or why nothing was."""
    gc.disable()
    _thread.start_new_thread(_answer, ())
    _call("pause")
