"""What is read from a cubin, against what its compiler says; and damaged ones."""

import functools
import random
import re
import shutil
import struct
import subprocess
import sys

import pytest
from kernbridge._src.plan import cubin as gpu_cubin

pytestmark = pytest.mark.once

SOURCE = r"""
struct Big { char bytes[300]; };
struct Huge { char bytes[6000]; };
struct alignas(16) Quad { float x[4]; };
extern "C" {
__global__ void none() {}
__global__ void scalars(const float *a, int n, char k, double d, float *o) { o[n] = a[n] + k + d; }
__global__ void tail(double d, char k) {}
__global__ void structs(char k, Quad q, Big b, short s, float *o) { o[s] = b.bytes[s] + q.x[k]; }
__global__ void huge(Huge b, float *o) { o[0] = b.bytes[threadIdx.x]; }
__global__ void shared(float *o) {
    __shared__ float s[300];
    s[threadIdx.x] = o[threadIdx.x];
    __syncthreads();
    o[threadIdx.x] = s[255 - threadIdx.x];
}
__global__ void dynamic(float *o) {
    extern __shared__ float d[];
    d[threadIdx.x] = o[threadIdx.x];
    __syncthreads();
    o[threadIdx.x] = d[255 - threadIdx.x];
}
__global__ void local(float *o, int n) {
    float t[100];
    for (int i = 0; i < 100; i++) t[i] = o[i * n];
    for (int i = 0; i < n; i++) o[i] = t[(i * 7) % 100];
}
__global__ void spill(float *o, int n) {
    float a[64];
    _Pragma("unroll") for (int i = 0; i < 64; i++) a[i] = o[i + n * threadIdx.x];
    _Pragma("unroll 1") for (int k = 0; k < n; k++)
        _Pragma("unroll") for (int i = 0; i < 64; i++) a[i] = a[i] * a[(i + 1) % 64] + k;
    _Pragma("unroll") for (int i = 0; i < 64; i++) o[i + n * threadIdx.x] = a[i];
}
}
__device__ __noinline__ float recurse(float x, int n) {
    float t[4];
    for (int i = 0; i < 4; i++) t[i] = x * i;
    return n <= 0 ? x : recurse(t[n % 4], n - 1) * 2 + t[(n + 1) % 4];
}
extern "C" __global__ void recursive(float *o, int n) { o[0] = recurse(o[1], n); }
"""

PARAMETERS = {
    "none": (),
    "scalars": ((0, 8), (8, 4), (12, 1), (16, 8), (24, 8)),
    "tail": ((0, 8), (8, 1)),
    "structs": ((0, 1), (16, 16), (32, 300), (332, 2), (336, 8)),
    "huge": ((0, 6000), (6000, 8)),
    "shared": ((0, 8),),
    "dynamic": ((0, 8),),
    "local": ((0, 8), (8, 4)),
    "spill": ((0, 8), (8, 4)),
    "recursive": ((0, 8), (8, 4)),
}
BUILDS = {
    "sm_80": ("-arch=sm_80",),
    "sm_90": ("-arch=sm_90",),
    "sm_90, 32 registers": ("-arch=sm_90", "-maxrregcount=32"),
    "sm_90, debug": ("-arch=sm_90", "-G"),
    "sm_120": ("-arch=sm_120",),
}

USAGE = re.compile(
    r"Compiling entry function '(?P<entry>\w+)'.*?(?P<local>\d+) bytes stack frame.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>.*)"
)


@functools.cache
def nvcc(*options):
    """A cubin, and what ptxas says about its kernels."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on PATH")
    command = ["nvcc", "-cubin", "-Xptxas", "-v", *options, "-x", "cu", "-", "-o", "/dev/stdout"]
    done = subprocess.run(command, input=SOURCE.encode(), capture_output=True, check=False)
    if b"Unsupported gpu architecture" in done.stderr:
        pytest.skip(f"this nvcc has no {options}")
    assert done.returncode == 0, done.stderr.decode()
    text = " ".join(done.stderr.decode().split("\n"))
    usage = {}
    for part in text.split("Compiling entry function ")[1:]:
        m = USAGE.search("Compiling entry function " + part)
        smem = re.search(r"(\d+) bytes smem", m["rest"])
        usage[m["entry"]] = {
            "registers": int(m["registers"]),
            "local": int(m["local"]),
            "static_shared": int(smem[1]) if smem else 0,
        }
    return done.stdout, usage


@functools.cache
def any_cubin():
    """A cubin with a kernel in it, from nvcc or from Numba."""
    if shutil.which("nvcc") is None:
        return numba_cubin()[:2]
    return nvcc(*BUILDS["sm_90"])[0], "scalars"


@functools.cache
def numba_cubin():
    """A cubin of Numba's, its entry, and the types of the kernel's arguments."""
    pytest.importorskip("numba_cuda", reason="neither nvcc nor numba-cuda is here")
    program = r"""
import sys
import numba.cuda.codegen as codegen
import numba.cuda.dispatcher as dispatcher
from numba import cuda, types

class Device:
    compute_capability, id, name = (9, 0), 0, "none"

dispatcher.get_current_device = Device
codegen.CUDACodeLibrary._ensure_cc = lambda self, cc: cc or (9, 0)

def kernel(x, k, b, c, o):
    s = cuda.shared.array(32, types.float32)
    i = cuda.grid(1)
    s[i % 32] = x[i, 0]
    cuda.syncthreads()
    if b:
        o[i] = s[(i + 1) % 32] * k + c.real

f = types.float32
arguments = (f[:, ::1], types.int64, types.boolean, types.complex64, f[::1])
made = dispatcher._Kernel(kernel, arguments, **cuda.jit(kernel).targetoptions)
cubin = made._codelibrary.get_cubin(cc=(9, 0))
sys.stdout.buffer.write(made.entry_name.encode() + b"\0" + getattr(cubin, "code", cubin))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"Numba makes no cubin here: {done.stderr.decode()[-300:]}")
    entry, _, cubin = done.stdout.partition(b"\0")
    return cubin, entry.decode()


@pytest.mark.brief
@pytest.mark.parametrize("build", BUILDS)
def test_agrees_with_the_compiler(build):
    cubin, usage = nvcc(*BUILDS[build])
    assert gpu_cubin.entries(cubin) == tuple(sorted(PARAMETERS)) == tuple(sorted(usage))
    for entry, expected in usage.items():
        info = gpu_cubin.read(cubin, entry)
        assert info.parameters == PARAMETERS[entry], entry
        assert info.registers == expected["registers"], entry
        assert info.local == expected["local"], entry
        assert info.static_shared == expected["static_shared"], entry


@pytest.mark.exhaustive
def test_the_cases_are_what_they_are_for():
    """Shared memory, local arrays and spills are there to be read."""
    plain, tight = (
        {e: gpu_cubin.read(nvcc(*BUILDS[b])[0], e) for e in PARAMETERS}
        for b in ("sm_90", "sm_90, 32 registers")
    )
    assert plain["shared"].static_shared == 1200
    assert plain["dynamic"].static_shared == plain["none"].static_shared == 0
    assert plain["local"].local == 400
    assert plain["spill"].local == 0
    assert tight["spill"].local > 0
    assert plain["spill"].registers > tight["spill"].registers == 32


@pytest.mark.exhaustive
def test_numba():
    cubin, entry = numba_cubin()
    assert gpu_cubin.entries(cubin) == (entry,)
    info = gpu_cubin.read(cubin, entry)
    words = [(8 * i, 8) for i in range(9 + 1)]  # a matrix is 5 + 2 * 2 words, then the integer
    vector = [(96 + 8 * i, 8) for i in range(7)]
    assert info.parameters == (*words, (80, 1), (84, 4), (88, 4), *vector)
    assert info.static_shared == 128
    assert info.registers > 0
    assert info.local == 0


@pytest.mark.exhaustive
def test_the_header_before_cuda_13():
    """It names the architecture elsewhere, and sm_90 reserves shared memory in both."""
    for build, old_flags in (("sm_80", 0x500550), ("sm_90", 0x50055A)):
        cubin, _ = nvcc(*BUILDS[build])
        if cubin[7] == 0x33:
            pytest.skip("this nvcc is older")
        data = bytearray(cubin)
        data[7:9] = 0x33, 7
        struct.pack_into("<I", data, 48, old_flags)
        assert gpu_cubin.read(bytes(data), "shared") == gpu_cubin.read(cubin, "shared")


def test_a_kernel_that_is_not_there():
    cubin, entry = any_cubin()
    with pytest.raises(ValueError, match=f"no kernel 'other'; its kernels are: .*{entry}"):
        gpu_cubin.read(cubin, "other")


def test_device_functions_are_no_kernels():
    cubin, _ = nvcc("-arch=sm_90")
    assert b"_Z7recursefi" in cubin
    with pytest.raises(ValueError, match="no kernel"):
        gpu_cubin.read(cubin, "_Z7recursefi")


@pytest.mark.exhaustive
def test_unlinked():
    cubin, _ = nvcc("-arch=sm_90", "-rdc=true")
    with pytest.raises(ValueError, match=r"not linked.*nvlink"):
        gpu_cubin.entries(cubin)


@pytest.mark.parametrize(
    "data",
    [b"", b".version 8.0\n.target sm_90", b"\x50\xed\x55\xba" + bytes(100)],
    ids=["nothing", "PTX", "fatbin"],
)
def test_something_else(data):
    with pytest.raises(ValueError, match="not a cubin"):
        gpu_cubin.entries(data)


def test_an_elf_file_of_the_host():
    with open(sys.executable, "rb") as f:
        data = f.read()
    with pytest.raises(ValueError, match=r"not a cubin: an ELF file of class 2, .* and machine"):
        gpu_cubin.entries(data)


def section(cubin, name):
    """Offset of a section's contents, and their size."""
    start, count, names = (
        struct.unpack_from("<Q", cubin, 40)[0],
        *struct.unpack_from("<HH", cubin, 60),
    )
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + 64 * i) for i in range(count)]
    table = cubin[headers[names][4] :]
    found = [h for h in headers if table[h[0] :].startswith(name.encode() + b"\0")]
    return found[0][4:6]


def find(cubin, entry, code):
    """Offsets of the values of the attributes with this code."""
    start, size = section(cubin, f".nv.info.{entry}")
    at, found = start, []
    while at < start + size:
        form, what, length = struct.unpack_from("<BBH", cubin, at)
        at += 4
        if what == code:
            found.append(at)
        at += length if form == 4 else 0
    return found


def test_parameters_that_contradict_each_other():
    cubin, _ = nvcc("-arch=sm_90")
    places = find(cubin, "scalars", 0x17)
    assert len(places) == 5

    def with_parameter(which, **new):
        data = bytearray(cubin)
        index, ordinal, offset, info = struct.unpack_from("<IHHI", cubin, places[which])
        size = new.get("size", info >> 18) << 18
        values = (index, new.get("ordinal", ordinal), new.get("offset", offset), size)
        struct.pack_into("<IHHI", data, places[which], *values)
        return bytes(data)

    assert gpu_cubin.read(with_parameter(0), "scalars").parameters == PARAMETERS["scalars"]
    with pytest.raises(ValueError, match="damaged cubin"):
        gpu_cubin.read(with_parameter(0, ordinal=0), "scalars")
    with pytest.raises(ValueError, match="damaged cubin"):
        gpu_cubin.read(with_parameter(0, ordinal=9), "scalars")
    with pytest.raises(ValueError, match=r"damaged cubin: .*\(4, 25, 8\)\] of 32"):
        gpu_cubin.read(with_parameter(0, offset=25), "scalars")
    with pytest.raises(ValueError, match=r"damaged cubin: .*\(4, 16, 8\)"):
        gpu_cubin.read(with_parameter(0, offset=16), "scalars")
    with pytest.raises(ValueError, match=r"damaged cubin: .*, 0\)"):
        gpu_cubin.read(with_parameter(0, size=0), "scalars")


def test_pointers_with_attributes():
    """Alignment and space of a pointer stand beside its size; the larger form has 16 bits."""
    cubin, _ = nvcc("-arch=sm_90")
    for entry, code, bits in (("scalars", 0x17, 0x5F4FF), ("huge", 0x45, 0x05080000)):
        data = bytearray(cubin)
        at = find(cubin, entry, code)[0] + 8
        before = struct.unpack_from("<I", cubin, at)[0]
        struct.pack_into("<I", data, at, before | (bits & 0x3FFFF if code == 0x17 else bits))
        assert gpu_cubin.read(bytes(data), entry).parameters == PARAMETERS[entry]


def outcome(cubin, entry):
    """A result of the right types, or None where there was a ValueError."""
    try:
        names = gpu_cubin.entries(cubin)
        info = gpu_cubin.read(cubin, entry)
    except ValueError:
        return None
    assert entry in names
    numbers = [info.registers, info.static_shared, info.local]
    assert all(isinstance(n, int) and n >= 0 for n in [*numbers, *sum(info.parameters, ())])
    return info


def test_cut_short():
    cubin, entry = any_cubin()
    whole = outcome(cubin, entry)
    assert whole is not None
    r = random.Random(1)
    lengths = {*range(200), *(r.randrange(len(cubin)) for _ in range(300)), len(cubin) - 1}
    results = {outcome(cubin[:n], entry) for n in lengths}
    assert results <= {None, whole}
    assert None in results


def test_damage_by_name():
    cubin, entry = any_cubin()
    headers = struct.unpack_from("<Q", cubin, 40)[0]
    last = find(cubin, entry, 0x36)[-1]  # the kernel's last attribute but flags
    for at, value, message in (
        (62, b"\xff\x7f", "damaged cubin"),
        (62, b"\0\0", "damaged cubin"),
        (58, b"\x3f", "sections of 63 bytes"),
        (headers + 64, b"\xff\xff", "damaged cubin"),
        (last - 2, b"\xff\xff", "65535 bytes at .* are past the end"),
        (last - 4, b"\x09", "attribute 0x36 has the unknown format 9"),
    ):
        data = bytearray(cubin)
        data[at : at + len(value)] = value
        with pytest.raises(ValueError, match=message):
            gpu_cubin.read(bytes(data), entry)


@pytest.mark.exhaustive
def test_random_damage():
    cubin, entry = any_cubin()
    headers = struct.unpack_from("<Q", cubin, 40)[0]
    symbols, n_symbols = section(cubin, ".symtab")
    names, n_names = section(cubin, ".shstrtab")
    info, n_info = section(cubin, f".nv.info.{entry}")
    common, n_common = section(cubin, ".nv.info")
    places = [
        *range(64),
        *range(headers, len(cubin)),
        *range(symbols, symbols + n_symbols),
        *range(names, names + n_names),
        *range(common, common + n_common),
        *range(info, info + n_info),
    ]
    r = random.Random(2)
    refused = 0
    for i in range(3000):
        data = bytearray(cubin)
        pool = places if i % 3 else range(info, info + n_info)
        for _ in range(r.choice((1, 1, 4, 40))):
            data[r.choice(pool)] = r.choice((0, 1, 4, 0x17, 0x7F, 0x80, 0xFF, r.randrange(256)))
        refused += outcome(bytes(data), entry) is None
    assert 100 < refused < 3000
