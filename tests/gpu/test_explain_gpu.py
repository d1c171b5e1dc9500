"""What kernbridge.explain says about graphs, compared with those that XLA makes."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu_only("CPUs have no graphs")
PROGRAM = """
import numpy
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
import functools, jax, jax.numpy as jnp, kernbridge
from numba import cuda

@cuda.jit
def add_one(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + 1

out = jax.ShapeDtypeStruct((4096,), jnp.float32)
op = kernbridge.numba_cuda_kernel(add_one, out, launch_dims=4096)
x = jnp.zeros(4096)

def loop(x, unroll):
    return jax.lax.fori_loop(0, 100, lambda i, x: op(x), x, unroll=unroll)

def until(x):
    return jax.lax.while_loop(lambda x: x[0] < 100, lambda x: op(op(op(op(op(op(x)))))), x)

small = {"xla_gpu_graph_min_graph_size": 1}
programs = (
    jax.jit(functools.partial(loop, unroll=1)),
    jax.jit(functools.partial(loop, unroll=10)),
    jax.jit(functools.partial(loop, unroll=1), compiler_options=small),
    jax.jit(until),
)
for f in programs:
    found = kernbridge.explain(f, x)
    before, _ = kernbridge._core.captures()
    for _ in range(5):
        f(x).block_until_ready()
    captured = kernbridge._core.captures()[0] - before
    (loop_found,) = found.loops
    kinds = ",".join(finding.kind for finding in found.findings) or "-"
    in_graphs = sum(graph.calls for graph in found.graphs)
    print(loop_found.turns, loop_found.calls, in_graphs, kinds, captured, loop_found.where)
    print(found, file=__import__("sys").stderr)
"""


def test_graphs_are_those_that_xla_makes(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={
            **os.environ,
            "KERNBRIDGE_DEBUG": "nodes",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "XLA_FLAGS": "",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    found = [(turns, int(calls), int(graphs), kinds) for turns, calls, graphs, kinds, _, _ in rows]
    assert found == [
        ("100", 1, 0, "small_loop"),
        ("10", 10, 10, "-"),
        ("100", 1, 1, "-"),
        ("None", 6, 6, "unknown_turns"),
    ], done.stderr
    for _, _, in_graphs, _, captured, where in rows:
        assert (int(captured) > 0) == (int(in_graphs) > 0), done.stderr
        assert where.startswith("program.py:")
