"""What each of two processes runs: kernels of several front ends, on a mesh of the devices of both.

See test_two_processes.py, and tests/gpu/test_two_processes_gpu.py.
"""

import json
import re

import cuda_kernels
import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from kernbridge._src.forge import artefacts
from kernbridge._src.numba_cpu import entry
from kernels import matvec, square
from numba import cuda


@cuda.jit
def matvec_by_threads(a, x, out):
    i = cuda.grid(1)
    if i < out.size:
        total = a[i, 0] * 0
        for j in range(x.size):
            total += a[i, j] * x[j]
        out[i] = total


def square_launch(x, out, stream):
    temporary = cuda.device_array(x.shape, x.dtype)
    cuda_kernels.square[1, 64, stream](x, temporary)
    out.copy_to_device(temporary, stream=stream)


CPP = """
#include "kernbridge/kernbridge.hpp"
// @BE square arg ret
void square(const kernbridge::Tensor x, kernbridge::Tensor out) {
    const float *in = x.data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); i++) out.data_ptr<float>()[i] = in[i] * in[i];
}
"""
CUDA = """
__global__ void square(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * x[i];
}
"""


def same(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def rows(a, x):
    return jax.ShapeDtypeStruct(a.shape[:1], a.dtype)


def size(x):
    return x.size


def vjp(inputs, outputs, ct, **_):
    return (2 * inputs[0] * ct,)


RULES = {"vjp": vjp, "sharding_rule": "i -> i"}
SUM = kernbridge.ShardingRule("i j, j -> i", reduce="sum")


def operations():
    """Return operations that square, and one that multiplies a matrix and a vector."""
    by_threads = kernbridge.numba_cuda_kernel(cuda_kernels.square, same, launch_dims=size, **RULES)
    if jax.default_backend() == "cpu":
        built = kernbridge.load_cpp_inline("two_processes", CPP).square
        squares = [
            kernbridge.numba_kernel(square, same, **RULES),
            by_threads,
            lambda x: built(x, outs=same, **RULES),
        ]
        return squares, kernbridge.numba_kernel(matvec, rows, sharding_rule=SUM)
    squares = [
        by_threads,
        kernbridge.numba_cuda_callable(square_launch, same, record="always", **RULES),
        kernbridge.cuda_kernel(CUDA, "square", same, launch_dims=size, attrs={"n": size}, **RULES),
    ]
    product = kernbridge.numba_cuda_kernel(
        matvec_by_threads, rows, launch_dims=lambda a, x: a.shape[0], sharding_rule=SUM
    )
    return squares, product


def note_what_is_made():
    """Return the list of what this process will compile and store."""
    made, store, compile_kernel = [], artefacts.store, entry.compile_kernel

    def storing(kind, *rest):
        made.append(kind)
        return store(kind, *rest)

    def compiling(kernel, positional, named):
        made.append(kernel.__name__)
        return compile_kernel(kernel, positional, named)

    artefacts.store, entry.compile_kernel = storing, compiling
    return made


def call_here():
    """Call every kernel on one device of this process."""
    x = jnp.arange(4.0)
    squares, product = operations()
    for op in squares:
        assert jax.jit(op)(x).tolist() == [0, 1, 4, 9]
        assert jax.jit(jax.vmap(op))(x[None]).tolist() == [[0, 1, 4, 9]]
    assert jax.jit(product)(jnp.ones((2, 4)), x).tolist() == [6, 6]


def call_on_both():
    """Call every kernel on the devices of both processes; returns the collectives of a sum."""
    mesh = jax.make_mesh((jax.device_count(),), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

    def put(array, *axes):
        where = NamedSharding(mesh, P(*axes))
        return jax.make_array_from_callback(array.shape, where, lambda part: array[part])

    def check(found, expected):
        for part in found.addressable_shards:
            np.testing.assert_allclose(part.data, expected[part.index])

    x = np.arange(8, dtype=np.float32)
    batch = np.arange(32, dtype=np.float32).reshape(4, 8)
    squares, product = operations()
    for op in squares:

        def loss(x, op=op):
            return jax.lax.psum(op(x).sum(), "x")

        total = jax.shard_map(loss, mesh=mesh, in_specs=P("x"), out_specs=P())
        value, gradient = jax.jit(jax.value_and_grad(total))(put(x, "x"))
        assert float(value) == 140
        check(gradient, 2 * x)
        check(jax.jit(op)(put(x, "x")), x * x)
        check(jax.jit(jax.grad(lambda x, op=op: op(x).sum()))(put(x, "x")), 2 * x)
        check(jax.jit(jax.vmap(op))(put(batch, "x")), batch * batch)

    operands = put(batch, None, "x"), put(x, "x")
    summed = jax.jit(product).lower(*operands).compile()
    check(summed(*operands), batch @ x)
    return re.findall(r" (all-gather|all-reduce)(?:-start)?\(", summed.as_text())


def run(rank, port, in_turn, devices=None):
    """Take part as the process of this rank; prints what it made, and on what it ran.

    `devices` are those that the process uses, where it does not use all that it sees.
    """
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank, devices)
    made = note_what_is_made()
    if in_turn and rank == 0:
        call_here()
    if in_turn:
        multihost_utils.sync_global_devices("the first process has compiled")
    if in_turn and rank == 1:
        call_here()
    moved = call_on_both()
    print(json.dumps([made, moved, jax.process_count(), jax.device_count()]))
