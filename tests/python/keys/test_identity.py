"""The key in a program: what a kernel means, and nothing else. Its walk: test_fingerprint."""

import hashlib
import re
import struct
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import kernbridge._core as _core
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel
from kernbridge._src.keys import fingerprint
from kernels import add

pytestmark = pytest.mark.once

S = jax.ShapeDtypeStruct
x = jnp.arange(3, dtype=jnp.float32)
F, D = ("float32", 1), ("float64", 1)


def digest(kernel=add, inputs=(F, F), outputs=(F,), aliases=None, **scalars):
    """The digest in a program that calls the kernel with arrays of these dtypes and ranks."""
    taken, made = ([S((2,) * rank, dtype) for dtype, rank in each] for each in (inputs, outputs))
    op = numba_kernel(kernel, made, input_output_aliases=aliases)
    text = jax.jit(lambda *arrays: op(*arrays, **scalars)).lower(*taken).as_text()
    return re.search(r"digest = dense<([^>]*)>", text)[1]


def test_one_function_makes_the_identities_of_fingerprints():
    """What takes a fingerprint apart from its record can leave out what is inlined."""
    source = Path(fingerprint.__file__).parents[1]
    users = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if re.search(r"\bcombine\(|import .*\bcombine\b", file.read_text())
    }
    assert users == {"keys/fingerprint.py", "keys/identity.py"}


@pytest.mark.usefixtures("x64")
@pytest.mark.filterwarnings("ignore::kernbridge.KernbridgeWarning")  # y may be an output
def test_dtype_rank_output_scalar_and_alias_each_change_the_key():
    @numba.njit
    def add(x, y, out):
        out.flat[0] = x.flat[0]

    digests = [
        digest(add),
        digest(add, inputs=(F, D)),
        digest(add, inputs=(F, ("float32", 2))),
        digest(add, outputs=(D,)),
        digest(add, inputs=(F,), outputs=(F, F)),
        digest(add, inputs=(F,), y=np.float32(1)),
        digest(add, inputs=(F,), y=np.int32(1)),
        digest(add, aliases={0: 0}),
    ]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize(
    "options",
    [{"error_model": "numpy"}, {"fastmath": True}, {"boundscheck": True}, {"parallel": True}],
)
@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")
def test_options_are_told_apart_in_one_process(options):
    def divide(x, out):
        for i in range(x.size):
            out[i] = 1 / x[i]

    plain, other = numba.njit(divide), numba.njit(divide, **options)
    before = _core.registry_stats()[0]
    assert digest(plain, inputs=(F,)) != digest(other, inputs=(F,))
    out = S((2,), jnp.float32)
    two = jnp.full(2, 2.0)
    for kernel in (plain, other):
        np.testing.assert_array_equal(numba_kernel(kernel, out)(two), [0.5, 0.5])
    assert _core.registry_stats()[0] - before >= 1
    if "error_model" in options:
        np.testing.assert_array_equal(numba_kernel(other, out)(jnp.zeros(2)), [np.inf, np.inf])
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"\[KB3001\]"):
            jax.block_until_ready(numba_kernel(plain, out)(jnp.zeros(2)))


def test_a_captured_constant_that_changed_gives_new_numbers():
    def make(constant):
        @numba.njit
        def kernel(x, out):
            for i in range(out.size):
                out[i] = x[i] + constant

        return numba_kernel(kernel, S((3,), jnp.float32))

    for constant in (1, 2, 1.0, 3):
        np.testing.assert_array_equal(make(constant)(x), np.asarray(x) + constant)


CONSTANTS = types.ModuleType("constants")


def test_a_global_is_frozen_when_a_signature_is_compiled():
    """As in Numba; and no other dispatcher ever gets code of another value under its key."""
    CONSTANTS.A = 1

    def function(x, out):
        for i in range(out.size):
            out.flat[i] = x.flat[i] + CONSTANTS.A

    old = numba_kernel(numba.njit(function), lambda x: S(x.shape, x.dtype))
    vector, matrix = jnp.zeros(3), jnp.zeros((2, 2))
    assert old(vector)[0] == 1
    CONSTANTS.A = 2
    new = numba_kernel(numba.njit(function), lambda x: S(x.shape, x.dtype))
    for _ in range(2):
        assert old(vector)[0] == 1
        assert old(matrix)[0, 0] == 2  # compiled now
        assert new(vector)[0] == 2
        assert new(matrix)[0, 0] == 2
        jax.clear_caches()
    CONSTANTS.A = 1
    again = numba_kernel(numba.njit(function), lambda x: S(x.shape, x.dtype))
    assert again(matrix)[0, 0] == 1


def native():
    """A native entry that does nothing."""

    @numba.cfunc("int32(voidptr, voidptr, voidptr)")
    def succeed(result, exception, buffers):
        return 0

    return succeed


def register(digest, entry):
    """Register a kernel without buffers; see src/object/kb_host_code.h."""
    texts = b"".join(struct.pack("<I", len(text)) + text for text in (b"a test", b"here:1"))
    body = bytes(8) + texts + bytes(20)
    head = _core.HOST_CODE_MAGIC.encode() + struct.pack("<I", _core.HOST_CODE_VERSION)
    code = head + hashlib.sha256(digest + body).digest() + body
    return _core.register_host_code(digest, code, entry.address)


@pytest.mark.parametrize("top", [0x00, 0x7F, 0x80, 0xFF])
def test_a_key_with_the_top_bit_set_works(top):
    entry = native()
    d = bytes([1, 2, 3, 4, 5, 6, 7, top]) + bytes(24)
    assert register(d, entry) is True
    assert register(d, entry) is False
    assert _core.kernel_name(d)
    assert _core.kernel_name(d) == "a test"
    call = {
        "call": np.array([fingerprint.key_of(d)], np.int64),
        "digest": np.frombuffer(d, np.uint8),
        "origin": "{}",
    }
    f = jax.jit(lambda: jax.ffi.ffi_call("kernbridge.host", [], has_side_effect=True)(**call))
    jax.block_until_ready(f())
    assert (fingerprint.key_of(d) < 0) == (top >= 0x80)


def test_an_equal_key_with_another_digest_is_refused():
    entry = native()
    first, second = bytes(range(40, 72)), bytes(range(40, 71)) + b"\0"
    register(first, entry)
    with pytest.raises(ValueError, match="another digest"):
        register(second, entry)
    with pytest.raises(ValueError, match="another digest"):
        _core.kernel_name(second)
    with pytest.raises(ValueError, match="another digest"):
        _core.kernel_name(second)
    assert _core.kernel_name(bytes(32)) is None
    assert _core.kernel_name(bytes(32)) is None
    with pytest.raises(ValueError, match="expected a digest of 32 bytes, got 3"):
        _core.kernel_name(b"abc")


def test_a_damaged_program_is_an_error():
    d = bytes(range(100, 132))
    register(d, native())
    good = {"call": np.array([fingerprint.key_of(d)]), "digest": np.frombuffer(d, np.uint8)}
    damaged = [
        ({}, "without a digest"),
        ({**good, "digest": good["digest"][:31]}, "without a digest"),
        ({**good, "digest": good["digest"].astype(np.int8)}, "without a digest"),
        ({"digest": good["digest"]}, "without its key"),
        ({**good, "call": np.array([3])}, "does not belong to its digest"),
    ]
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        for attributes, words in damaged:
            call = jax.ffi.ffi_call("kernbridge.host", [], has_side_effect=True)
            with pytest.raises(jax.errors.JaxRuntimeError, match=rf"{words}.*\[KB5107\]"):
                jax.jit(lambda: call(**attributes))()  # noqa: B023


# --- kernels that a fresh process must find, which runs no code of programs


EXPORTING = """
import sys, jax, jax.numpy as jnp, numba, numpy as np, kernbridge
from jax import export
{definition}
op = kernbridge.numba_kernel({name}, jax.ShapeDtypeStruct((3,), jnp.float32))
x = jnp.ones(3)
check = export.DisabledSafetyCheck.custom_call("kernbridge.host")
open({path!r}, "wb").write(export.export(jax.jit(op), disabled_checks=[check])(x).serialize())
"""
LOADING = """
import sys, jax, jax.numpy as jnp, numba, kernbridge
from jax import export
{before}
ex = export.deserialize(bytearray(open({path!r}, "rb").read()))
try:
    print("result", ex.call(jnp.ones(3)).tolist())
except Exception as e:
    print("error", type(e).__name__, e)
"""
MODULE = """
import numba
FACTOR = {factor}
@numba.njit
def triple(x, out):
    for i in range(out.size):
        out[i] = x[i] * FACTOR
"""


@pytest.fixture
def program(tmp_path, run_python):
    """Export a kernel in one process and run the result in another; gives what that one prints."""
    path = str(tmp_path / "program.bin")
    module = tmp_path / "travelling.py"

    allow = "kernbridge.config.allow_imports('travelling')"

    def run(definition="from travelling import triple", name="triple", before=allow, then=None):
        module.write_text(MODULE.format(factor=3))
        run_python(EXPORTING.format(definition=definition, name=name, path=path))
        if then is not None:
            module.unlink() if then == "remove" else module.write_text(then)
        loading = LOADING.format(path=path, before=before)
        return run_python(loading, KERNBRIDGE_EXPORTED_CODE="recompile")

    return run


LOCAL = MODULE.format(factor=5).replace("triple", "local")


@pytest.mark.exhaustive
def test_a_kernel_of_a_module_is_imported_and_compiled(program):
    assert program() == "result [3.0, 3.0, 3.0]\n"


ATTEMPTS = """
import os
for allow in ([], ["travel"], ["travelling.inner"], None, ["travelling"]):
    if allow is None:
        os.environ["KERNBRIDGE_ALLOW_IMPORTS"] = "other, travelled"
    else:
        kernbridge.config.allow_imports(*allow)
    try:
        ex = export.deserialize(bytearray(open({path!r}, "rb").read()))
        print(allow, ex.call(jnp.ones(3)).tolist())
    except Exception as e:
        print(allow, "travelling" in sys.modules, e)
"""


@pytest.mark.exhaustive
def test_a_module_is_imported_only_where_that_is_allowed(program, tmp_path):
    """A program may not choose what code runs where it is loaded."""
    before = ATTEMPTS.format(path=str(tmp_path / "program.bin"))
    got = program(before=before).partition("result")[0]
    assert got.count("travelling:triple, and the module 'travelling' is not imported here") == 4
    assert got.count("kernbridge.config.allow_imports('travelling')") == 4
    assert got.count(" False ") == 4
    assert got.endswith("['travelling'] [3.0, 3.0, 3.0]\n")


def test_what_may_be_imported(monkeypatch):
    may, allow = kernbridge.config.may_import, kernbridge.config.allow_imports
    try:
        assert not may("a")
        allow("a", "b.c")
        assert [may(m) for m in ("a", "a.x", "ab", "b", "b.c", "b.c.d", "")] == [
            *(True, True, False, False, True, True, False)
        ]
        allow()
        monkeypatch.setenv("KERNBRIDGE_ALLOW_IMPORTS", "x, y.z,")
        assert [may(m) for m in ("a", "x.y", "y", "y.z", "")] == [False, True, False, True, False]
        allow("*")
        assert may("anything")
        with pytest.raises(TypeError, match=r"3 is.*\[KB8001\]"):
            allow(3)
    finally:
        allow()


@pytest.mark.exhaustive
def test_a_missing_import_is_named(program):
    got = program(then="remove")
    assert "error JaxRuntimeError" in got
    assert "travelling:triple" in got
    assert "No module named 'travelling'" in got


@pytest.mark.exhaustive
def test_a_missing_name_is_named(program):
    got = program(then="x = 1")
    assert "travelling:triple" in got
    assert "has no attribute 'triple'" in got


def test_a_kernel_that_changed_is_refused(program):
    # Of another size: Python takes a file of the same size and second for the one it compiled.
    got = program(then=MODULE.format(factor=44))
    assert "differs from the one that the program was exported with" in got


@pytest.mark.exhaustive
def test_a_kernel_of_main_must_be_wrapped_first(program):
    got = program(definition=LOCAL, name="local")
    assert "needs the kernel __main__:local, which was not found in this process" in got
    wrapped = (
        LOCAL + "\nop = kernbridge.numba_kernel(local, jax.ShapeDtypeStruct((3,), jnp.float32))"
    )
    got = program(definition=LOCAL, name="local", before=wrapped)
    assert got == "result [5.0, 5.0, 5.0]\n"


def test_a_kernel_without_a_name_outside_the_process_is_not_exported():
    pointer = numba.cfunc("float64(float64)")(lambda x: x).ctypes

    @numba.njit
    def kernel(x, out):
        out[0] = pointer(x[0])

    op = numba_kernel(kernel, S((1,), jnp.float32))
    y = jnp.full(1, 2.5)
    assert op(y)[0] == 2.5
    check = jax.export.DisabledSafetyCheck.custom_call("kernbridge.host")
    with pytest.raises(ValueError, match=r"numba_kernel.*'kernel'.*\[KB6101\]"):
        jax.export.export(jax.jit(op), disabled_checks=[check])(y)


@pytest.mark.exhaustive
def test_jaxs_compilation_cache_serves_a_second_process(tmp_path, run_python):
    (tmp_path / "travelling.py").write_text(MODULE.format(factor=3))
    source = (
        "import jax, jax.numpy as jnp, kernbridge\n"
        "from travelling import triple\n"
        f"jax.config.update('jax_compilation_cache_dir', {str(tmp_path / 'cache')!r})\n"
        "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)\n"
        "jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)\n"
        "op = kernbridge.numba_kernel(triple, jax.ShapeDtypeStruct((3,), jnp.float32))\n"
        "print(jax.jit(lambda x: op(x) + 1)(jnp.ones(3)).tolist())\n"
    )
    for _ in range(2):
        assert run_python(source).splitlines()[-1] == "[4.0, 4.0, 4.0]"
    assert any((tmp_path / "cache").iterdir())
