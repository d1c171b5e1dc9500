"""A kernel cannot change a live JAX array: inputs are read-only, or a copy."""

import warnings

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel

S = jax.ShapeDtypeStruct
OUT = S((4,), jnp.float32)


@numba.njit
def helper_that_writes(a):
    a[0] = 99


WRITES = {
    "item": "x[0] = 99",
    "slice": "x[1:][0] = 99",
    "augmented": "x += 1",
    "fill": "x.fill(99)",
    "view": "x.view(np.int32)[0] = 99",
    "flat": "x.flat[0] = 99",
    "flat in a loop": "for i in range(3):\n        x.flat[i] = 99",
    "nditer": "for v in np.nditer(x):\n        v[()] = 99",
    "ascontiguousarray": "np.ascontiguousarray(x)[0] = 99",
    "fill_diagonal": "np.fill_diagonal(x.reshape((2, 2)), 99)",
    "dot out": "a = np.ones((2, 2), np.float32)\n    np.dot(a, a, x.reshape((2, 2)))",
    "helper": "helper(x)",
    "sort": "x.sort()",
    "ping-pong": "a, b = x, out\n    for _ in range(3):\n        b[:] = a + 1\n        a, b = b, a",
}


def make(statement):
    scope = {"np": np, "helper": helper_that_writes, "numba": numba}
    exec(f"def kernel(y, x, out):\n    {statement}\n    out[:] = x + y\n", scope)
    return scope["kernel"]


def expected(statement):
    """What the kernel gives when x is a copy of its own."""
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    numba.njit(make(statement))(np.ones(4, np.float32), x, out)
    return out


def ways():
    """Every way for a sequential kernel, and a parallel loop's own ones for a parallel kernel.

    What JAX does with the copy is the same for each way, and is looked at again for one of them on
    another version of JAX. The rest of the parallel kernels, which take seconds to compile, is
    exhaustive.
    """
    for parallel in (False, True):
        for name, statement in WRITES.items():
            marks = [] if name == "flat" and not parallel else [pytest.mark.once]
            rare = name not in ("flat", "slice", "helper", "ping-pong")
            if rare if not parallel else name != "slice":
                marks.append(pytest.mark.exhaustive)
            kind = "parallel" if parallel else "sequential"
            yield pytest.param(statement, parallel, id=f"{kind}-{name}", marks=marks)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("statement", "parallel"), list(ways()))
def test_a_kernel_that_writes_to_an_input_gets_a_copy_and_a_warning(statement, parallel):
    op = numba_kernel(numba.njit(make(statement), parallel=parallel), OUT)
    x, y = jnp.arange(4, dtype=jnp.float32), jnp.ones(4)
    wanted = expected(statement)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"input 1.*\(x\).*\[KB4003\]"):
        got = op(y, x)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(x, np.arange(4))
    with warnings.catch_warnings():  # it is said once
        warnings.simplefilter("error")
        np.testing.assert_array_equal(jax.jit(op)(y, x), wanted)
        loop = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, a: op(y, x) + 0 * a, x))
        np.testing.assert_array_equal(loop(x), wanted)
    np.testing.assert_array_equal(x, np.arange(4))


READS = {
    "flat": "out.flat[0] = x.flat[0]",
    "nditer": "for v in np.nditer(x):\n        out[0] += v[()]",
    "slices": "out[1:] = x[:3]",
    "reductions": "out[0] = x.sum() + np.dot(x, x) + np.max(x)",
    "copy": "x = np.sort(x)\n    x[0] = 1",
    "contiguous out": "np.ascontiguousarray(out)[0] = x[0]",
}


@pytest.mark.brief
@pytest.mark.once
@pytest.mark.parametrize(
    "statement",
    [
        # Numba compiles a sort for seconds.
        pytest.param(statement, id=name, marks=[pytest.mark.exhaustive] * (name == "copy"))
        for name, statement in READS.items()
    ],
)
def test_a_kernel_that_only_reads_copies_nothing(statement):
    op = numba_kernel(numba.njit(make(statement)), OUT)
    with warnings.catch_warnings():
        warnings.simplefilter("error", kernbridge.KernbridgeWarning)
        text = jax.jit(op).lower(jnp.ones(4), jnp.ones(4)).as_text()
    assert "output_operand_alias" not in text


@pytest.mark.brief
@pytest.mark.once
@pytest.mark.parametrize(
    ("signature", "copied"),
    [
        ("void(float32[:], float32[:], float32[:])", "input 0 (y), input 1 (x)"),
        ("void(float32[::1], float32[::1], float32[::1])", "input 0 (y), input 1 (x)"),
        (
            [
                numba.types.void(
                    numba.types.Array(numba.float32, 1, "C", readonly=True),
                    numba.float32[:],
                    numba.float32[:],
                )
            ],
            "input 1 (x)",
        ),
        (
            [
                numba.types.void(
                    numba.types.Array(numba.float32, 1, "A", readonly=True),
                    numba.types.Array(numba.float32, 1, "C", readonly=True),
                    numba.float32[::1],
                )
            ],
            None,
        ),
    ],
    ids=str,
)
def test_explicit_signatures(signature, copied):
    kernel = numba.njit(signature)(make("out[0] = 1" if copied is None else "x_ = x"))
    op = numba_kernel(kernel, OUT)
    x = jnp.arange(4, dtype=jnp.float32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", kernbridge.KernbridgeWarning)
        np.testing.assert_array_equal(op(x, x), 2 * np.arange(4))
    said = [str(w.message) for w in caught if w.category is kernbridge.KernbridgeWarning]
    assert len(said) == (copied is not None)
    assert copied is None or copied in said[0]


@pytest.mark.exhaustive
@pytest.mark.once
def test_only_what_is_written_is_copied():
    @numba.njit
    def kernel(a, b, c, d, out):
        b[0] = 1
        d.flat[0] = 1
        out[:] = a + b + c + d

    x = jnp.zeros(4)
    op = numba_kernel(kernel, OUT)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"input 1.*\(b\).*input 3.*\[KB4003\]"):
        np.testing.assert_array_equal(op(x, x, x, x), [2, 0, 0, 0])
    np.testing.assert_array_equal(x, np.zeros(4))
    text = jax.jit(op).lower(x, x, x, x).as_text()
    assert text.count("output_operand_alias<") == 2


@pytest.mark.exhaustive
def test_copies_are_separate_for_each_slice_of_a_batch():
    @numba.njit
    def scratch(x, y, out):
        x[0] += y[0]  # an unmapped x must be fresh in every slice
        out[:] = x

    op = numba_kernel(scratch, S((2,), jnp.float32))
    x, y = jnp.zeros(2), jnp.arange(6, dtype=jnp.float32).reshape(3, 2)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"\[KB4003\]"):
        got = jax.vmap(op, (None, 0))(x, y)
    np.testing.assert_array_equal(got, [[0, 0], [2, 0], [4, 0]])
    nested = jax.vmap(jax.vmap(op, (None, 0)), (0, None))(jnp.ones((2, 2)), y)
    np.testing.assert_array_equal(nested, np.broadcast_to([[1, 1], [3, 1], [5, 1]], (2, 3, 2)))
    np.testing.assert_array_equal(x, np.zeros(2))


def test_aliased_input_is_writable_and_the_others_are_not():
    @numba.njit
    def kernel(x, y, out):
        x[0] = 7
        out[1] = y[1]

    op = numba_kernel(kernel, OUT, input_output_aliases={0: 0})
    with warnings.catch_warnings():
        warnings.simplefilter("error", kernbridge.KernbridgeWarning)
        got = op(jnp.zeros(4), jnp.ones(4))
    np.testing.assert_array_equal(got, [7, 1, 0, 0])


@pytest.mark.exhaustive
@pytest.mark.once
def test_kernel_from_numbas_cache_on_disk_is_protected_too(tmp_path, run_python):
    (tmp_path / "cached_kernels.py").write_text(
        "import numba\n"
        "@numba.njit(cache=True)\n"
        "def kernel(x, out):\n"
        "    x.flat[0] = 99\n"
        "    out[:] = x\n"
    )
    program = (
        "import sys, warnings; sys.path.insert(0, '.')\n"
        "import jax, jax.numpy as jnp, kernbridge\n"
        "from cached_kernels import kernel\n"
        "warnings.simplefilter('ignore')\n"
        "x = jnp.zeros(3)\n"
        "op = kernbridge.numba_kernel(kernel, jax.ShapeDtypeStruct((3,), jnp.float32))\n"
        "print(op(x).tolist(), x.tolist())\n"
    )
    first, second = run_python(program), run_python(program)
    assert first == second == "[99.0, 0.0, 0.0] [0.0, 0.0, 0.0]\n"
