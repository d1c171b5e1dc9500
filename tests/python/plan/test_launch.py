"""Grids that depend on shapes with blocks of the user's choice, in every way to write them."""

import importlib.util

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")

pytestmark = pytest.mark.usefixtures("gpu")
S = jax.ShapeDtypeStruct
A = jnp.arange(20 * 70.0).reshape(20, 70)
BLOCK, GRID = (32, 8, 1), (3, 3, 1)  # of A
SOURCE = 'extern "C" __global__ void f(const float *a, float *out) { *out = *a; }'


def ceil_divided(a):
    return -(-a.shape[1] // 32), (a.shape[0] + 7) // 8


def reversed_shape(a):
    return a.shape[::-1]


LAUNCHES = {
    "grid": {"grid": ceil_divided, "block": (32, 8)},
    "grid and block": {"grid": ceil_divided, "block": lambda a: [32, 8]},
    "launch_dims": {"launch_dims": reversed_shape, "block": (32, 8)},
    "threads": {"launch_dims": reversed_shape, "threads_per_block": (32, 8)},
    "block": {"launch_dims": reversed_shape, "block": lambda a: (32, 8)},
}


@cuda.jit
def doubled(a, out):
    """Doubles elements where the launch is as expected, and adds the threads of a block."""
    j, i = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        out[i, j] = 2 * a[i, j] + cuda.blockDim.x * cuda.blockDim.y


def same(a, *_):
    return S(a.shape, a.dtype)


@pytest.fixture(params=LAUNCHES)
def op(request):
    return kernbridge.numba_cuda_kernel(doubled, same, **LAUNCHES[request.param])


def check(found, a=A):
    np.testing.assert_array_equal(found, 2 * np.asarray(a) + 256)


def launched(gpu):
    return [(tuple(launch.grid), tuple(launch.block)) for launch in gpu.launches]


@pytest.mark.brief
def test_values_vmap_and_launches(op, gpu):
    check(op(A))
    check(op(A[:0]), A[:0])
    batch = jnp.stack([A, A + 1, A - 1])
    check(jax.jit(jax.vmap(op))(batch), batch)
    assert launched(gpu) == [(GRID, BLOCK), ((3, 3, 3), BLOCK)]


@pytest.mark.brief
def test_symbolic_shapes(op, gpu):
    n, m = jax.export.symbolic_shape("n, m")
    checks = [jax.export.DisabledSafetyCheck.custom_call("kernbridge.cuda.graph")]
    exported = jax.export.export(jax.jit(op), disabled_checks=checks)(S((n, m), A.dtype))
    check(exported.call(A))
    check(exported.call(A[:8, :33]), A[:8, :33])
    assert launched(gpu) == [(GRID, BLOCK), ((2, 1, 1), BLOCK)]


def test_a_part_of_an_array_has_its_own_grid(gpu):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    op = kernbridge.numba_cuda_kernel(
        doubled, same, grid=ceil_divided, block=(32, 8), sharding_rule="i j -> i j"
    )
    check(jax.jit(op)(jax.device_put(A, split)))
    assert launched(gpu) == [((3, 2, 1), BLOCK)] * 2


ON_CPU = """
from test_launch import *

for launch in LAUNCHES.values():
    op = kernbridge.numba_cuda_kernel(doubled, same, **launch)
    check(jax.vmap(op)(A[None])[0])
    check(op(A))
print(op.plan(A).steps[0].grid)
"""


@pytest.mark.exhaustive
@pytest.mark.once
def test_on_the_cpu(run_python):
    assert run_python(ON_CPU).count("constant=3") == 2


@pytest.mark.once
def test_a_kernel_that_sees_the_batch_gets_a_grid_for_it(gpu):
    @cuda.jit
    def flat(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out.flat[i] = 2 * x.flat[i]

    def over(grid):
        return kernbridge.numba_cuda_kernel(
            flat, same, grid=grid, block=8, vmap_method="broadcast_all"
        )

    for grid in (9, lambda x: -(-x.size // 8)):
        np.testing.assert_array_equal(jax.vmap(over(grid))(A[:5]), 2 * A[:5])
    assert launched(gpu) == [((9, 1, 5), (8, 1, 1)), ((44, 1, 1), (8, 1, 1))]


@pytest.mark.once
def test_an_operation_is_kept_while_its_functions_read_the_same():
    threads = 32

    def block(a):
        return threads

    def made():
        return kernbridge.numba_cuda_kernel(doubled, same, grid=ceil_divided, block=block)

    first = made()
    assert made() is first
    threads = 64
    assert made() is not first


@pytest.mark.once
@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ({"grid": 1, "launch_dims": 8}, "both launch_dims and grid .*KB1101"),
        ({"grid": 1, "block": 8, "threads_per_block": 64}, "both block and .*=64 .*KB1101"),
        ({"launch_dims": 8, "block": 8, "threads_per_block": "auto"}, "both block and .*KB1101"),
        ({"grid": lambda a: 1}, "only one of them is given .KB1101"),
        ({"launch_dims": 8, "block": (4, 2)}, r"block \(4, 2, 1\) has more .* \(8,\); .*KB1102"),
        ({"launch_dims": 8, "block": 0}, r"block is \(0, 1, 1\), which launches no thread.*KB1102"),
        ({"grid": 1, "block": 0}, r"block is \(0, 1, 1\), which launches no thread, .*KB1102"),
        ({"grid": 0, "block": 8}, r"grid is \(0,\), which launches no thread, but no .*KB1102"),
        ({"launch_dims": lambda a: a.shape[0] - 20}, r"launch_dims is \(0,\), which .*KB1102"),
        ({"launch_dims": 8, "threads_per_block": (32, 64)}, "threads_per_block .* 2048 .*KB1102"),
        ({"launch_dims": 8, "threads_per_block": (1.5,)}, "threads_per_block contains 1.5.*1102"),
        ({"grid": lambda a: a.shape[0] / 8, "block": 8}, "grid contains 2.5, .*KB1102"),
        ({"grid": lambda a: 1, "block": lambda a: 2048}, "block .* 2048 threads, .*KB1102"),
        ({"grid": lambda a: (1, 65536), "block": 8}, "65536 blocks along y, .*KB1102"),
        ({"grid": lambda a: 3, "block": 8, "cluster": 2}, r"cluster \(2, 1, 1\) does not divide"),
        ({"launch_dims": 24, "block": 8, "cluster": 2}, r"cluster .* does not divide grid \(3, "),
        ({"grid": (lambda a: 1, 1), "block": 8}, "grid contains <function .*one function that"),
        ({"grid": lambda a, b: 1, "block": 8}, "but `grid` is a function of .a, b.: .*KB2004"),
    ],
)
def test_wrong_launches_are_refused(launch, message):
    with pytest.raises((TypeError, ValueError), match=rf"numba_cuda_kernel 'doubled': .*{message}"):
        jax.eval_shape(kernbridge.numba_cuda_kernel(doubled, same, **launch), A)
    with pytest.raises((TypeError, ValueError), match=rf"cuda_kernel 'f': .*{message}"):
        jax.eval_shape(kernbridge.cuda_kernel(SOURCE, "f", same, **launch), A)


@pytest.mark.once
def test_a_wrong_launch_is_refused_before_anything_else(monkeypatch):
    """As by BrainEvent, whose tests need no Numba-CUDA for that, nor a kernel."""
    wrong = ({}, {"grid": 1}, {"block": 8}, {"grid": 1, "launch_dims": 8}, {"launch_dims": -1})
    wrong += ({"launch_dims": (1, 2, 3, 4)}, {"launch_dims": 8, "threads_per_block": 0})

    def refused_launches(kernel):
        for launch in wrong:
            with pytest.raises(ValueError, match=r"KB110[12]"):
                kernbridge.numba_cuda_kernel(kernel, same, **launch)

    def python_function(a, out):
        pass

    refused_launches(python_function)
    with pytest.raises(TypeError, match=r"expected a numba.cuda.jit kernel.*KB1001"):
        kernbridge.numba_cuda_kernel(python_function, same, launch_dims=8)
    with pytest.raises(TypeError, match=r"expected a numba.cuda.jit kernel.*KB1001"):
        kernbridge.numba_cuda_kernel(python_function, same, launch_dims="n")
    with pytest.raises(TypeError, match=r"launch_dims.*names of dimensions need signature=.*1102"):
        kernbridge.numba_cuda_kernel(doubled, same, launch_dims="n")
    found = importlib.util.find_spec
    missing = lambda name, *more: None if name == "numba_cuda" else found(name, *more)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", missing)
    refused_launches(doubled)
    with pytest.raises(ImportError, match="KB4016"):
        kernbridge.numba_cuda_kernel(doubled, same, launch_dims=8)


@pytest.mark.once
@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ({"grid": 1, "block": lambda a: a.shape[0]}, "block is .n,., expected numbers"),
        ({"grid": lambda a: a.shape[0] // 8, "block": 8}, "grid has the symbolic extent floordiv"),
    ],
)
def test_symbolic_numbers_that_a_launch_cannot_have(launch, message):
    (n,) = jax.export.symbolic_shape("n")
    op = kernbridge.numba_cuda_kernel(doubled, same, **launch)
    with pytest.raises(ValueError, match=rf"{message}.*\[KB1102\]"):
        jax.export.export(jax.jit(op))(S((n, 4), A.dtype))
