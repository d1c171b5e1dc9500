"""Bundles in a C program without Python, on the PJRT plugin of the package xla-cpu-pjrt."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import bundle_kernels as kernels
import c_host
import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from c_flags import c_flags
from kernbridge import _core, numba_kernel

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore::kernbridge.KernbridgeWarning")]
S = jax.ShapeDtypeStruct
ROOT = Path(__file__).parents[4]


def like(x):
    return S(x.shape, x.dtype)


def bits(x):
    return jax.lax.bitcast_convert_type(x, jnp.uint8)


@pytest.fixture(scope="module")
def coba(tmp_path_factory):
    """The bundle of the demo, as the example writes it."""
    c_host.compiled()
    folder = tmp_path_factory.mktemp("coba") / "bundle"
    export = str(ROOT / "examples" / "c_host" / "export.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [export, str(folder)])
        patch.setattr(sys, "path", list(sys.path))
        runpy.run_path(export, run_name="__main__")
    return folder


def test_the_demo_has_the_same_spikes_in_c(coba):
    assert c_host.run(coba, 10_000) == 77_906


@pytest.mark.skipif(shutil.which("ldd") is None, reason="there is no ldd")
def test_the_libraries_of_the_host_are_without_python():
    program = c_host.compiled()
    library = Path(kernbridge.__file__).parent / "lib" / "libkernbridge.so"
    for file in (program, library, c_host.plugin()[0]):
        listed = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=True)
        assert "libc.so" in listed.stdout
        assert "libpython" not in listed.stdout
    assert (
        "libkernbridge" in subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    )


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_a_running_host_has_mapped_no_python(coba):
    with subprocess.Popen(
        c_host.command(coba, 10**9), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline().startswith("program for cpu of")  # it is in its steps
            maps = Path(f"/proc/{process.pid}/maps").read_text()
        finally:
            process.kill()
    mapped = {Path(line.split()[-1]).name for line in maps.splitlines() if "/" in line}
    assert {"libkernbridge.so", Path(c_host.plugin()[0]).name, "coba"} <= mapped
    assert not [name for name in mapped if "python" in name.lower() or name.startswith("_core")]


@pytest.mark.skipif(shutil.which("nm") is None, reason="binutils' nm is not installed")
def test_only_what_the_header_declares_leaves_the_library():
    library = Path(_core.__file__).parent / "lib" / "libkernbridge.so"
    command = ["nm", "--dynamic", "--defined-only", str(library)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].partition("@")[0] for line in listing.splitlines()}
    header = (ROOT / "include/ext/embed/kernbridge/host.h").read_text()
    declared = {
        line.partition("(")[0].split()[-1]
        for line in header.splitlines()
        if line.startswith("KB_HOST_EXPORT")
    }
    assert names == {*declared, "KERNBRIDGE_1"}
    assert len(declared) == 5
    command[2] = "--undefined-only"
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Py" not in listing


def test_the_c_code_of_the_document_compiles(tmp_path):
    (block,) = re.findall(
        r"^```c\n(.*?)^```", (ROOT / "docs" / "c-host.md").read_text(), re.M | re.S
    )
    (tmp_path / "document.c").write_text(block)
    (tmp_path / "header.cpp").write_text(
        "#include <kernbridge/host.h>\n"
        "int main() { return kb_host_api() >= KB_HOST_API ? 0 : 1; }\n"
    )
    flags = [f"-I{c_host.plugin()[1]}", *c_flags()]
    strict = ["-Wall", "-Wextra", "-Werror", "-Wno-cast-qual"]
    for command in (
        ["cc", "-std=c11", *strict, "-c", "document.c", "-o", "document.o", *flags[:2]],
        ["c++", *strict, "-Wpedantic", "header.cpp", "-o", "header", *flags],
        [str(tmp_path / "header")],
    ):
        if shutil.which(command[0]) is None:
            pytest.skip(f"there is no {command[0]}")
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_values_are_those_of_jax(tmp_path):
    mix = numba_kernel(
        numba.njit(kernels.mix), lambda x, n: (S(x.shape, x.dtype), S((1,), x.dtype))
    )
    decay = numba_kernel(numba.njit(kernels.decay), like)
    rng = np.random.default_rng(5)
    x, n = rng.uniform(0, 1, (3, 4, 5)), rng.integers(0, 9, (3, 4)).astype(np.int32)
    x = x.astype(np.float32)

    def model(x, n):
        def step(carry, _):
            return decay(carry), None

        y, total = jax.vmap(mix)(x, n)
        return jax.lax.scan(step, y.ravel(), None, length=3)[0], total

    expected = jax.jit(model)(x, n)

    def same(x, n):
        got = model(x, n)
        pairs = zip(got, expected, strict=True)
        return jnp.concatenate([(bits(g) == bits(e)).ravel() for g, e in pairs])

    c_host.export(tmp_path / "b", same, x, n)
    assert c_host.run(tmp_path / "b") == sum(e.nbytes for e in expected)


def test_a_program_of_many_platforms_and_shapes_needs_no_argument_for_them(tmp_path):
    decay = numba_kernel(numba.njit(kernels.decay), like)

    def halved(x):
        half = jax.lax.platform_dependent(x, cpu=decay, cuda=lambda x: x * 0)
        return half == x / 2

    (n,) = jax.export.symbolic_shape("n")
    exported = jax.export.export(jax.jit(halved), platforms=("cuda", "cpu"))(S((n,), jnp.float32))
    x = np.arange(1, 8, dtype=np.float32)
    c_host.export(tmp_path / "b", exported, x)
    assert c_host.run(tmp_path / "b") == 7


CUDA = """
import jax, jax.numpy as jnp, kernbridge
from numba import cuda

@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]

out = jax.ShapeDtypeStruct((300,), jnp.float32)
op = kernbridge.numba_cuda_kernel(double, out, launch_dims=300)
x = jnp.arange(300.0)
kernbridge.export_bundle(
    "b", lambda x: op(x) == x + x, x, with_values=True, stablehlo_version="1.13.0"
)
"""


def test_a_cuda_kernel_runs_on_the_cpu(tmp_path, run_python):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    run_python(CUDA)
    assert c_host.run(tmp_path / "b") == 300


def test_a_c_function_whose_library_is_carried(tmp_path):
    module = kernbridge.load_c_inline(
        "doubles",
        """
#include "kernbridge/kernbridge.h"
// @BE twice arg:f32[n] ret:f32[n]
int twice(const kb_tensor *x, kb_tensor *out) {
    const float *from = (const float *)x->data;
    float *to = (float *)out->data;
    for (int64_t i = 0; i < x->shape[0]; i++)
        to[i] = 2 * from[i];
    return 0;
}
""",
        carry=True,
    )
    x = np.arange(50, dtype=np.float32)
    c_host.export(tmp_path / "b", lambda x: module.twice(x, outs=like(x)) == x + x, x)
    assert c_host.run(tmp_path / "b") == 50


def test_arguments_and_results_of_every_type(tmp_path):
    empty = np.zeros((0, 3), np.float32)
    c_host.export(tmp_path / "e", lambda x: (x, x.sum() == 0), empty)
    assert c_host.run(tmp_path / "e", 2) == 2
    dtypes = [
        np.dtype(name) for name in ("bool", "int8", "uint16", "int32", "float16", "float32")
    ] + [np.dtype("complex64"), np.dtype(jnp.bfloat16), np.dtype(jnp.float8_e5m2)]
    state = [(np.arange(6) % 5).astype(d).reshape(2, 3) for d in dtypes]

    def step(state):
        held = [jnp.all(a == jnp.asarray(b)) for a, b in zip(state, before, strict=True)]
        return state, jnp.stack(held)

    before = state
    c_host.export(tmp_path / "b", step, state)
    assert c_host.run(tmp_path / "b", 3) == 3 * len(dtypes)


def test_an_exception_has_its_type_message_and_place(tmp_path):
    op = numba_kernel(numba.njit(kernels.decay), like)
    v = np.array([1, -2], np.float32)
    c_host.export(tmp_path / "b", lambda v: op(v), v)
    said = c_host.error(tmp_path / "b")
    assert "coba: a step: " in said
    assert "numba_kernel 'decay': ValueError: ('negative rate', ...) (in decay at" in said
    assert "bundle_kernels.py:7)" in said


def test_a_platform_that_the_bundle_lacks(tmp_path):
    v = np.ones(2, np.float32)
    kernbridge.export_bundle(tmp_path / "b", lambda v: v + 1, v, platforms=["cuda"])
    assert (
        "choosing a program: the bundle has no program for the platform cpu, only for cuda: "
        in (c_host.error(tmp_path / "b"))
    )


def test_a_program_that_is_damaged_behind_its_digest(tmp_path):
    """Machine code has a digest of its own, in the program."""
    op = numba_kernel(numba.njit(kernels.decay), like)
    c_host.export(tmp_path / "b", op, np.ones(2, np.float32))
    program = tmp_path / "b" / "program.cpu.mlirbc"
    code = program.read_bytes()
    at = code.index(b"KBHC") + 700
    damaged = code[:at] + bytes([code[at] ^ 1]) + code[at + 1 :]
    program.write_bytes(damaged)
    assert "program.cpu.mlirbc is damaged: it is not the file that the manifest" in (
        c_host.error(tmp_path / "b")
    )
    resign(tmp_path / "b", code, damaged)
    said = c_host.error(tmp_path / "b")
    assert "compiling the program: " in said
    assert (
        "machine code is damaged, or belongs to another kernel: the check of its digest failed"
        in said
    )


def resign(folder, code, damaged):
    """Write the digests anew, as who damaged the bundle on purpose would."""
    import hashlib

    manifest = folder / "manifest.txt"
    text = manifest.read_text().replace(
        hashlib.sha256(code).hexdigest(), hashlib.sha256(damaged).hexdigest()
    )
    body = text[: text.index("end ")]
    manifest.write_text(body + f"end {hashlib.sha256(body.encode()).hexdigest()}\n")


def test_machine_code_of_another_format_is_refused(tmp_path):
    op = numba_kernel(numba.njit(kernels.decay), like)
    c_host.export(tmp_path / "b", op, np.ones(2, np.float32))
    program = tmp_path / "b" / "program.cpu.mlirbc"
    code = program.read_bytes()
    at = code.index(b"KBHC")
    changed = bytearray(code)
    changed[at + 4 : at + 8] = (99).to_bytes(4, "little")  # the format
    program.write_bytes(changed)
    resign(tmp_path / "b", code, bytes(changed))
    said = c_host.error(tmp_path / "b")
    assert "a kernel's machine code has format 99, and this kernbridge reads format" in said
