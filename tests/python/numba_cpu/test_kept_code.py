"""Machine code of Numba kernels on disk: what a second process compiles, and what it does not."""

import json

import pytest

pytestmark = pytest.mark.once

RUNNING = """
import json, os, sys, warnings
import jax, jax.numpy as jnp, numba, numpy as np
import carried_kernels as kernels
from kernbridge import numba_kernel
from kernbridge._src.numba_cpu import entry

compiled, real = {}, entry.compile_kernel
def counting(kernel, positional, named):
    compiled[kernel.py_func.__name__] = True
    return real(kernel, positional, named)
entry.compile_kernel = counting

def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)

x = jnp.arange(5.0, dtype=jnp.float32)
results = {}
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    for name in json.loads(os.environ["KERNBRIDGE_TEST_KERNELS"]):
        function = getattr(kernels, name)
        op = numba_kernel(function if hasattr(function, "py_func") else numba.njit(function), like)
        try:
            results[name] = np.asarray(op(x)).tolist()
        except jax.errors.JaxRuntimeError as e:
            results[name] = str(e)
        if "KERNBRIDGE_TEST_INSPECT" in os.environ:
            results[name] = "define" in op.inspect(x)[0].llvm_ir
warnings = sum("may write to input" in str(w.message) for w in warned)
print(json.dumps([list(compiled), results, warnings]))
"""
CARRIED = ["double", "mathematics", "writes", "of_a_callee", "division", "returns_a_call"]


@pytest.fixture
def run(tmp_path, run_python):
    """Call kernels in a fresh process; what it compiled, its results and warnings of copies."""

    def run(*names, **environment):
        environment.setdefault("KERNBRIDGE_CACHE_DIR", str(tmp_path / "cache"))
        return json.loads(
            run_python(RUNNING, KERNBRIDGE_TEST_KERNELS=json.dumps(names), **environment)
        )

    return run


@pytest.mark.exhaustive
def test_a_second_process_compiles_nothing(run):
    compiled, results, warned = run(*CARRIED)
    assert compiled == CARRIED
    assert "ValueError: negative" in results["of_a_callee"]
    assert warned == 1
    assert run(*CARRIED) == [[], results, 1]


MOVING = """
import jax, jax.numpy as jnp, numba, moved
from kernbridge import numba_kernel
try:
    numba_kernel(moved.kernel, jax.ShapeDtypeStruct((1,), jnp.float32))(jnp.zeros(1))
except jax.errors.JaxRuntimeError as e:
    print(e)
"""
MOVED = """
import numba
@numba.njit
def helper(x):
    return 5 // x
@numba.njit
def kernel(x, out):
    out[0] = helper(int(x[0]))
"""


@pytest.mark.exhaustive
def test_lines_are_those_of_the_file_as_it_is(run_python, tmp_path):
    """Code that moves within its file means the same, and its exceptions name other lines."""
    environment = {"KERNBRIDGE_CACHE_DIR": str(tmp_path / "cache")}
    for above in ("", "# a comment\n", "# a comment\n"):
        (tmp_path / "moved.py").write_text(above + MOVED)
        line = 5 + above.count("\n")
        assert f"(in helper at {tmp_path}/moved.py:{line})" in run_python(MOVING, **environment)


@pytest.mark.exhaustive
def test_a_class_of_the_user_may_give_another_text_next_time(run):
    text = run("own_error")[1]
    assert run("own_error")[:2] == [["own_error"], text]


PACKAGE = """
import numba
@numba.njit(cache=True)
def inner(v):
    return v + 1.0
@numba.njit("float64(float64)", cache=True)
def declared(v):
    return 10.0 * v
@numba.njit
def between(x):
    return inner(x[0]) + declared(1.0)
@numba.njit
def kernel(x, out):
    out[0] = between(x) + inner(x[0])
"""
CALLING = """
import jax, numpy as np, package
from kernbridge import numba_kernel
from kernbridge._src.numba_cpu import entry
x = np.zeros(1, np.float32)
x.flags.writeable = False
package.between(x)  # with what Numba has on disk
hits = sum(sum(f.stats.cache_hits.values()) for f in (package.inner, package.declared))
compiled, real = [], entry.compile_kernel
entry.compile_kernel = lambda *args: compiled.append(1) or real(*args)
op = numba_kernel(package.kernel, lambda x: x)
print(hits, op(x)[0], len(compiled), op.inspect(x)[0].export.split()[-1])
"""


@pytest.mark.exhaustive
def test_what_numba_has_on_disk_is_compiled_afresh_once(tmp_path, run_python):
    """Also if Python code has called it before."""
    (tmp_path / "package.py").write_text(PACKAGE)
    for folder, *expected in [("0", "0", "1"), ("cache", "2", "1"), ("cache", "2", "0")]:
        place = str(tmp_path / folder) if folder != "0" else folder
        printed = run_python(CALLING, KERNBRIDGE_CACHE_DIR=place)
        assert printed.split() == [expected[0], "12.0", expected[1], "code"]


@pytest.mark.exhaustive
def test_settings_of_numba_are_part_of_the_key(run):
    run("double")
    assert run("double")[0] == []
    assert run("double", NUMBA_LOOP_VECTORIZE="0")[0] == ["double"]
    assert run("double", NUMBA_DEBUGINFO="1")[0] == ["double"]
    assert run("double", NUMBA_DEBUGINFO="1")[0] == ["double"]  # its lines are wanted
    assert run("double", NUMBA_CPU_FEATURES="", NUMBA_CPU_NAME="generic")[0] == ["double"]


@pytest.mark.exhaustive
def test_code_is_inspected_although_it_was_not_compiled(run):
    run("double")
    assert run("double", KERNBRIDGE_TEST_INSPECT="1")[:2] == [["double"], {"double": True}]


@pytest.mark.exhaustive
def test_damaged_code_is_compiled_anew(run, tmp_path):
    results = run("double")[1]
    (file,) = (tmp_path / "cache").rglob("numba_cpu_code/*/*.bin")
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)
    assert run("double")[:2] == [["double"], results]
    assert run("double")[:2] == [[], results]


@pytest.mark.exhaustive
def test_a_folder_of_others_is_not_read(run, tmp_path):
    run("double")
    (tmp_path / "cache").chmod(0o777)
    assert run("double")[0] == ["double"]
