"""A front end and a target of another package (tests/stranger), which an entry point names."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.once
STRANGER = Path(__file__).parents[1] / "stranger"
HEAD = f"""
import sys
sys.path.append({str(STRANGER)!r})
import jax, jax.numpy as jnp, numpy as np, pathlib
file = pathlib.Path("exported")

def equal(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-6)
"""
LOADS = """
x = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
equal(jax.jit(jax.export.deserialize(file.read_bytes()).call)(x), expected(x))
print("stranger_" in "".join(sys.modules), "kernbridge" in sys.modules)
"""


def run_both(run_python, exporting, expected):
    """Run a program that exports, and one that only loads; returns what each printed."""
    head = HEAD + expected
    return run_python(head + exporting).splitlines(), run_python(head + LOADS).splitlines()


def test_a_front_end(run_python):
    first, second = run_both(
        run_python,
        """
from stranger_front_end import polynomial

slope = polynomial(2, 6)
op = polynomial(1, 2, 3, vjp=lambda inputs, outputs, ct: (ct * slope(inputs[0]),))
x = jnp.array([[0.5, -1.0], [2.0, 3.0], [0.0, 1e3]])
equal(op(x), expected(x))
equal(jax.jit(op)(x[0]), expected(x[0]))
equal(jax.vmap(op, 1, 1)(x), expected(x))
equal(jax.vmap(jax.grad(lambda x: op(x).sum()))(x), 2 + 6 * x)
equal(jax.jit(jax.vmap(jax.vmap(lambda x: op(x[None]))))(x)[..., 0], expected(x))
wide = jax.export.export(jax.jit(op))(jax.ShapeDtypeStruct((2, 3), jnp.float32))
file.write_bytes(wide.serialize())
try:
    op(jnp.arange(3))
except TypeError as e:
    print(e)
print(op.inspect(x)[0].name, op)
""",
        "expected = lambda x: 1 + 2 * x + 3 * x * x\n",
    )
    label = "polynomial [1.0, 2.0, 3.0]"
    assert first.count(f"compiles {label}") == 2  # once for each rank
    assert first[-2] == f"{label} takes one array of float32 or float64"
    assert first[-1].startswith("polynomial ")
    assert second == ["True True"]  # and nothing is compiled: it was on disk


def test_a_target(run_python):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    first, second = run_both(
        run_python,
        """
import kernbridge
from numba import cuda

@cuda.jit
def scaled(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out.flat[i] = 3 * x.flat[i]

rule = {"vjp": lambda inputs, outputs, ct: (3 * ct,)}
op = kernbridge.numba_cuda_kernel(scaled, lambda x: x, launch_dims=lambda x: x.size, **rule)
x = jnp.array([[0.5, -1.0], [2.0, 3.0], [0.0, 1e3]])
equal(jax.jit(op)(x), expected(x))
equal(jax.vmap(op, 1, 1)(x), expected(x))
equal(jax.grad(lambda x: (op(x) ** 2).sum())(x), 18 * x)
wide = jax.export.export(jax.jit(op))(jax.ShapeDtypeStruct((2, 3), jnp.float32))
file.write_bytes(wide.serialize())
""",
        "expected = lambda x: 3 * x\n",
    )
    assert first
    assert set(first) == {"compiles numba_cuda_kernel 'scaled'"}
    assert second == ["True True"]
