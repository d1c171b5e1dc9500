"""CUDA graphs: that they form, with one kernel node for each launch of a plan."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import numpy
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
import jax, jax.numpy as jnp, kernbridge
from numba import cuda

@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]

def two(x, y, out, stream):
    temporary = cuda.device_array(x.shape, x.dtype)
    temporary[:] = 0
    add[4, 256, stream](x, y, temporary)
    add[4, 256, stream](temporary, y, out)

out = jax.ShapeDtypeStruct((1024,), jnp.float32)
single = kernbridge.numba_cuda_kernel(add, out, launch_dims=1024)
double = kernbridge.numba_cuda_callable(two, out, record="always")
x, ones = jnp.zeros(1024), jnp.ones(1024)

def chain(op, n):
    def run(x, y):
        for _ in range(n):
            x = op(x, y)
        return x
    return jax.jit(run)

for op, n in ((single, 20), (double, 20), (jax.vmap(single), 8)):
    batched = op not in (single, double)
    a, b = (jnp.stack([x] * 5), jnp.stack([ones] * 5)) if batched else (x, ones)
    before = kernbridge._core.captures()
    f = chain(op, n)
    for _ in range(5):
        result = f(a, b)
    result.block_until_ready()
    calls, nodes = (j - i for i, j in zip(before, kernbridge._core.captures()))
    print(calls, nodes, float(result.ravel()[0]))
"""


def test_graphs_form_with_a_node_for_each_launch(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "KERNBRIDGE_DEBUG": "nodes", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    expected = [(20, 1, 20.0), (20, 2, 40.0), (8, 1, 8.0)]
    for (calls, nodes, value), (n, launches, result) in zip(lines, expected, strict=True):
        assert int(calls) >= n  # each was recorded at least once
        assert int(nodes) == launches * int(calls)
        assert float(value) == result
