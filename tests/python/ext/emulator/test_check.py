"""The checked mode of CUDA kernels on the CPU.

It finds the faults that tests/cuda_corpus/faults.py plants in kernels, and none in the kernels as
they are.

Each test is a program of its own, see test_cuda_on_cpu.
"""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

TESTS = str(Path(__file__).parents[3])
sys.path.insert(0, TESTS)

from cuda_corpus import case, faults  # noqa: E402

pytestmark = pytest.mark.once
CPU = {"KERNBRIDGE_LIBCUDA": "/nowhere/libcuda.so"}
PARTS = 4

HEAD = r'''
import re
import jax, jax.numpy as jnp, numba, numpy as np
import kernbridge
from kernbridge import numba_cuda_callable, numba_cuda_kernel
from numba import cuda
S = jax.ShapeDtypeStruct
I32 = lambda *shape: S(shape, jnp.int32)

def programs(lowered):
    """What the machine code is in."""
    found = re.findall(r'program = dense<"0x([0-9A-F]+)">', lowered.as_text())
    return b"".join(map(bytes.fromhex, found))

def refused(call, *words):
    try:
        jax.block_until_ready(call())
    except (jax.errors.JaxRuntimeError, ValueError) as e:  # JAX's fast path raises the latter
        assert "INTERNAL: " in str(e) and all(w in str(e) for w in words), (words, str(e))
    else:
        raise SystemExit(f"no error with {words}")
'''


@pytest.fixture
def run(run_python, tmp_path):
    def run(program, **environment):
        environment.setdefault("KERNBRIDGE_CACHE_DIR", str(tmp_path / "cache"))
        return run_python(HEAD + program, **CPU, **environment)

    return run


@pytest.fixture
def run_corpus(run_python, tmp_path):
    def run(program):
        printed = run_python(
            f"import sys; sys.path.insert(0, {TESTS!r})\n{program}",
            KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"),
            KERNBRIDGE_DEBUG="check",
            **CPU,
        )
        found = json.loads(printed.splitlines()[-1])
        assert not found, "\n".join(found)

    return run


@pytest.mark.parametrize(
    "which",
    [
        pytest.param("one_of_each_kind()", marks=pytest.mark.exhaustive),
        *(
            pytest.param(f"FAULTS[{part}::{PARTS}]", marks=pytest.mark.exhaustive)
            for part in range(PARTS)
        ),
    ],
)
def test_planted_faults_are_found_and_the_process_lives(which, run_corpus, tmp_path):
    imports = "from cuda_corpus.faults import FAULTS, check, one_of_each_kind"
    run_corpus(f"{imports}; check({which}, {str(tmp_path)!r})")


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(PARTS))
def test_clean_kernels_run_with_the_values_of_a_gpu(part, run_corpus):
    groups = case.GROUPS[part::PARTS]
    run_corpus(f"from cuda_corpus.faults import check_clean; check_clean(*{groups!r})")


def test_every_kind_of_fault_is_planted():
    assert {f.kind for f in faults.FAULTS} == set(faults.KINDS)
    assert len(faults.FAULTS) >= 24
    assert len({f.kernel for f in faults.FAULTS}) >= 16


def test_a_plant_that_finds_nothing_to_change_is_an_error(tmp_path):
    fault = faults.Fault("block_sums", faults.KINDS[0], "no such text", "", ())
    with pytest.raises(AssertionError, match="0 times"):
        faults.planted(fault, tmp_path)


def test_one_operation_is_checked_and_another_is_not(run):
    run("""
@cuda.jit(device=True)
def at(x, i, j):
    return x[i, j]

@cuda.jit
def shifted(x, out):
    i = cuda.threadIdx.x
    out[i] = at(x, 0, i + 1)  # the last one lies in the next row

x = jnp.arange(10, dtype=jnp.int32).reshape(2, 5)
def make(**how):
    return numba_cuda_kernel(shifted, I32(5), grid=1, block=5, **how)

words = (
    "thread (4, 0, 0): reads 'x' (i32[2d])",
    "index 5 of axis 1, whose extent is 5 (of shape (2, 5)) (at program.py:25)",
    "    program.py:25: return x[i, j]",
)
inside = numba_cuda_kernel(shifted, I32(4), grid=1, block=4, check=True)
for _ in range(2):
    refused(lambda: make(check=True)(x), *words)
    np.testing.assert_array_equal(make()(x), [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(make(check=False)(x), [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(inside(x), [1, 2, 3, 4])
    refused(lambda: jax.jit(make(check=True))(x), *words)

for how in ({}, {"check": True}):
    code = programs(jax.jit(make(**how)).trace(x).lower(lowering_platforms=("cuda",)))
    assert b"ELF" in code and b"kb.check" not in code and b"kb_check" not in code
assert b"kb_check_touch" in programs(jax.jit(make(check=True)).lower(x))
plain = programs(jax.jit(make()).lower(x))
assert b"kb_blocks" in plain and b"kb_check" not in plain
""")


@pytest.mark.exhaustive
def test_a_gpu_program_is_the_same_before_and_after(run):
    program = """
@cuda.jit(device=True)
def at(x, i):
    return x[i] + x[-i - 1]

@cuda.jit
def kernel(x, out):
    own = cuda.local.array(2, numba.int32)
    i = cuda.threadIdx.x
    own[i % 2] = at(x, i)
    cuda.atomic.add(out, i, own[i % 2])

x = jnp.arange(5, dtype=jnp.int32)
op = numba_cuda_kernel(kernel, I32(5), grid=1, block=5, zero_outputs=True, check=True)
if CHECKED_FIRST:
    np.testing.assert_array_equal(op(x), [4] * 5)
print(programs(jax.jit(op).trace(x).lower(lowering_platforms=("cuda",))).hex())
"""
    before, after = (run(f"CHECKED_FIRST = {first}\n{program}") for first in (False, True))
    assert len(before) > 1000
    assert before == after


def test_batches_name_the_array_and_the_slice(run):
    run("""
@cuda.jit
def gather(table, index, out):
    i = cuda.threadIdx.x
    out[i] = table[index[i]]

op = numba_cuda_kernel(gather, I32(6), grid=1, block=6, check=True)
table = jnp.arange(40, dtype=jnp.int32).reshape(4, 10)
index = jnp.arange(24, dtype=jnp.int32).reshape(4, 6) % 10
want = np.take_along_axis(np.array(table), np.array(index), 1)
np.testing.assert_array_equal(jax.vmap(op)(table, index), want)
np.testing.assert_array_equal(jax.vmap(op, (None, 0))(table[0], index), np.array(index))
bad = index.at[2, 3].set(10)
words = "block (0, 0, 2), thread (3, 0, 0): reads 'table' (i32[1d])", "index 10 of axis 0"
refused(lambda: jax.vmap(op)(table, bad), *words)
refused(lambda: jax.vmap(op, (None, 0))(table[0], bad), *words)
nested = jax.vmap(jax.vmap(op))
refused(lambda: nested(table.reshape(2, 2, 10), bad.reshape(2, 2, 6)), *words)
np.testing.assert_array_equal(jax.vmap(op)(table, index), want)
""")


def test_recorded_functions_are_checked_too(run):
    run(
        """
@cuda.jit
def fill(out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = i

@cuda.jit
def move(source, target):
    i = cuda.threadIdx.x
    target[i] = source[i]

def twice(out, stream, n=10, first=5):
    a = cuda.device_array(10, np.int32)
    fill[1, 32, stream](a, n)
    move[1, 5, stream](a[first:first + 5], a[:5])
    out[:] = a

make = lambda **how: numba_cuda_callable(lambda out, stream: twice(out, stream, **how), I32(10))
np.testing.assert_array_equal(make()(), [5, 6, 7, 8, 9, 5, 6, 7, 8, 9])
refused(make(n=12), "fill", "writes 'out'", "index 10 of axis 0, whose extent is 10", "program.py")
# Each thread reads what another one writes, by another slice of the same memory.
refused(make(first=1), "move", "thread (1, 0, 0): a data race", "element [1] of 'target'")
""",
        KERNBRIDGE_DEBUG="check",
    )


@pytest.mark.exhaustive
def test_an_exported_operation_stays_checked(run, run_python):
    run("""
from jax import export
@cuda.jit
def looked_up(table, index, out):
    i = cuda.threadIdx.x
    out[i] = table[index[i]]
op = numba_cuda_kernel(looked_up, I32(3), grid=1, block=3, check=True)
check = [export.DisabledSafetyCheck.custom_call("kernbridge.cuda.host")]
exported = export.export(jax.jit(op), disabled_checks=check)(I32(8), I32(3))
open("program", "wb").write(exported.serialize())
""")
    run_python(
        """
import sys, jax, numpy as np, kernbridge
from jax import export
f = export.deserialize(open("program", "rb").read())
table = np.arange(8, dtype=np.int32) * 3
try:
    f.call(table, np.int32([0, 8, 1])).block_until_ready()
except jax.errors.JaxRuntimeError as e:
    for words in ("thread (1, 0, 0)", "reads 'table'", "index 8 of axis 0", "program.py:"):
        assert words in str(e), e
else:
    raise SystemExit("no error")
assert f.call(table, np.int32([0, 7, 1])).tolist() == [0, 21, 3]
assert "numba" not in sys.modules
""",
        **CPU,
    )


@pytest.mark.exhaustive
def test_what_threads_may_do_without_a_barrier(run):
    run("""
def operation(kernel, n_out=1, **how):
    return numba_cuda_kernel(
        kernel, [I32(n_out), I32(1)], grid=1, block=96, check=True, zero_outputs=True, **how
    )

def locked(fences):
    @cuda.jit
    def kernel(x, total, lock):
        i = cuda.threadIdx.x
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            cuda.nanosleep(10)
        if fences:
            cuda.threadfence()
        total[0] += x[i]
        if fences:
            cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)
    return operation(kernel)

x = np.arange(96, dtype=np.int32)
assert locked(True)(x)[0][0] == x.sum()
refused(lambda: locked(False)(x), "a data race", "element [0] of 'total'", "thread (0, 0, 0)")

def flagged(value):
    @cuda.jit
    def kernel(x, flag, unused):
        i = cuda.threadIdx.x
        if x[i] % 2 == 1:
            flag[0] = 7 if value else i
    return operation(kernel)

assert flagged(True)(x)[0][0] == 7
refused(lambda: flagged(False)(x), "thread (3, 0, 0): a data race: it writes", "thread (1, 0, 0)")

def counted(plain):
    @cuda.jit
    def kernel(x, count, unused):
        i = cuda.threadIdx.x
        cuda.atomic.add(count, 0, x[i])
        if plain and i == 40:
            count[0] += 1
    return operation(kernel)

assert counted(False)(x)[0][0] == x.sum()
refused(lambda: counted(True)(x), "'count'", "a data race", "updates")

def flipped(barrier):
    @cuda.jit
    def kernel(x, out, unused):
        shared = cuda.shared.array((3, 32), numba.int32)
        i = cuda.threadIdx.x
        shared[i // 32, i % 32] = x[i]
        if barrier:
            cuda.syncwarp()
        out[i] = shared[i // 32, 31 - i % 32]
    return operation(kernel, 96)

want = x.reshape(3, 32)[:, ::-1].ravel()
np.testing.assert_array_equal(flipped(True)(x)[0], want)
refused(lambda: flipped(False)(x), "of a shared array of 3x32 int32 from program.py:",
        "a data race: it writes", "with no barrier between")
""")


def test_an_atomic_index_is_checked_by_axes(run):
    run("""
@cuda.jit
def counts(i, j, out):
    t = cuda.threadIdx.x
    cuda.atomic.add(out, (i[t], j[t]), 1)

op = numba_cuda_kernel(counts, I32(3, 4), grid=1, block=2, zero_outputs=True, check=True)
assert op(np.int32([0, -1]), np.int32([-4, 3])).tolist()[2] == [0, 0, 0, 1]
refused(lambda: op(np.int32([0, 1]), np.int32([1, 4])), "updates 'out' (i32[2d])",
        "index 4 of axis 1, whose extent is 4")
refused(lambda: op(np.int32([0, -4]), np.int32([1, 1])), "index -4 of axis 0")
""")


def test_a_misspelt_name_is_an_error(run_python):
    said = run_python("import kernbridge", check=False, KERNBRIDGE_DEBUG="chekc", **CPU)
    assert "KERNBRIDGE_DEBUG names 'chekc', expected some of" in said
    assert "check" in said.split("expected", 1)[1]


UNWRITTEN = """
@cuda.jit
def doubled(x, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = 2 * x[i, j]

x = np.arange(12, dtype=np.float32).reshape(3, 4)
def over(dims, **options):
    options |= dict(signature="x: f32[n, m] -> f32[n, m]", launch_dims=dims, check=True)
    return numba_cuda_kernel(doubled, **options)

np.testing.assert_array_equal(over(("n", "m"))(x), 2 * x)
words = "no thread wrote 9 of the 12 elements of output 0 (out)", "element 1; launch more threads"
refused(lambda: over("n")(x), *words)
refused(lambda: jax.vmap(over("n"))(x[None, :, :2]), "wrote 3 of the 6 elements")
np.testing.assert_array_equal(over("n", zero_outputs=True)(x)[:, 0], 2 * x[:, 0])

record = np.dtype([("a", np.float32), ("b", np.int32)])
@cuda.jit
def counted(p, out):
    i = cuda.grid(1)
    if i < p.size:
        out[i] = p[i].a
        p[i].b += 1

given = np.array([(1.5, 1), (2.5, 7), (3.5, 9)], record)
op = numba_cuda_kernel(
    counted, signature="p: u32[n, 2] -> p, out: f32[n]", launch_dims="n", view={"p": record}
)
words, out = op(jnp.asarray(given.view(np.uint32).reshape(3, 2)))
assert np.asarray(words).view(record)["b"].ravel().tolist() == [2, 8, 10], words
np.testing.assert_array_equal(out, given["a"])
"""


def test_elements_of_outputs_that_no_thread_writes_and_records_in_place(run):
    run(UNWRITTEN)
