"""Forward mode of Numba kernels on CPUs: one call makes results and tangents, where that is right.

JAX transforms this call in many ways. The referee is JAX's own derivative of the same function.
"""

import math

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import kernel, load_cpp_inline, numba_kernel
from needs_enzyme import assert_same, needs_enzyme

pytestmark = needs_enzyme
S = jax.ShapeDtypeStruct


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


@kernel(
    "x: f64[n], m: c128[2, n], k: i32[3] -> y: f64[n], z: c128[2], count: i32[1]",
    derivatives="enzyme",
)
@numba.njit
def mixed(x, m, k, y, z, count):
    count[0] = 0
    z[:] = 0
    for i in range(x.size):
        y[i] = math.sin(x[i]) * m[0, i].real + k[1]
        if y[i] > 0:
            count[0] += 1
        for j in range(2):
            z[j] += m[j, i] * x[i] * x[0]


def mixed_by_jax(x, m, k):
    y = jnp.sin(x) * m[0].real + k[1]
    return y, (m * x * x[0]).sum(1), jnp.sum(y > 0, dtype=np.int32)[None]


def given():
    rng = np.random.default_rng(0)
    x, dx = rng.normal(size=(2, 5))
    m, dm = rng.normal(size=(2, 2, 5)) + 1j * rng.normal(size=(2, 2, 5))
    return jnp.asarray(x), jnp.asarray(m), jnp.asarray(dx), jnp.asarray(dm)


K = np.array([4, -1, 2], np.int32)
with jax.enable_x64(True):
    X, M, DX, DM = given()
    MANY = jnp.stack([X, DX, 2 * X])


def reals(f):
    """The results of real numbers, as a function of the arguments that are."""
    return lambda x, m=M: f(x, m, K)[:2]


def total(f):
    return lambda x: sum(jnp.sum(jnp.abs(y) ** 2) for y in reals(f)(x))


def pushed(f, x, m=M, dx=DX, dm=DM):
    return jax.jvp(reals(f), (x, m), (dx, dm))


def of_one(f, x, dx=DX):
    return jax.jvp(reals(f), (x,), (dx,))


def again(f, x):
    return jnp.cos(f(f(x, M, K)[0], M, K)[0])


def loop(f, x):
    return jax.lax.scan(lambda c, _: (reals(f)(c)[0], jnp.sum(c)), x, None, length=3)


def of_branch(f):
    return lambda x: jax.lax.cond(x[0] > 0, lambda x: total(f)(x), lambda x: total(f)(2 * x), x)


def by_hand(f):
    """A function whose rule for tangents is made of this one, for reverse mode, too."""
    function = jax.custom_jvp(reals(f))
    function.defjvp(lambda given, dots: jax.jvp(reals(f), given, dots))
    return function


POLICIES = {
    "default": None,
    "everything": jax.checkpoint_policies.everything_saveable,
    "nothing": jax.checkpoint_policies.nothing_saveable,
}
PROGRAMS = {
    "jvp": lambda f: pushed(f, X),
    "jvp with integers": lambda f: jax.jvp(lambda x: f(x, M, K), (X,), (DX,))[0],
    "jit": lambda f: jax.jit(lambda *given: pushed(f, *given))(X, M, DX, DM),
    "about one argument": lambda f: of_one(f, X),
    "tangents alone": lambda f: jax.jit(lambda x, dx: of_one(f, x, dx)[1])(X, DX),
    "results alone": lambda f: jax.jit(lambda x, dx: of_one(f, x, dx)[0])(X, DX),
    "one of each": lambda f: jax.jit(lambda x, dx: (lambda y, d: (y[1], d[0]))(*of_one(f, x, dx)))(
        X, DX
    ),
    "jacfwd": lambda f: jax.jacfwd(lambda x: reals(f)(x)[0])(X),
    "jacfwd of vmap": lambda f: jax.jacfwd(jax.vmap(lambda x: reals(f)(x)[0]))(MANY),
    "vmap of jacfwd": lambda f: jax.jit(jax.vmap(jax.jacfwd(lambda x: reals(f)(x)[0])))(MANY),
    "vmap": lambda f: jax.vmap(lambda x, dx: of_one(f, x, dx))(MANY, MANY[::-1]),
    "vmap of inputs": lambda f: jax.vmap(lambda x: pushed(f, x))(MANY),
    "vmap of tangents": lambda f: jax.vmap(lambda dx: pushed(f, X, M, dx), out_axes=(None, 0))(
        MANY
    ),
    "vmap of one tangent, twice": lambda f: jax.vmap(
        lambda dm: jax.vmap(lambda dx: pushed(f, X, M, dx, dm))(MANY)
    )(jnp.stack([DM, M])),
    "vmap along the last axis": lambda f: jax.vmap(
        lambda dx: of_one(f, X, dx)[1], in_axes=1, out_axes=1
    )(MANY.T),
    "of vmap": lambda f: jax.jvp(jax.vmap(lambda x: reals(f)(x)), (MANY,), (MANY[::-1],)),
    "grad": lambda f: jax.value_and_grad(total(f))(X),
    "grad of jit": lambda f: jax.value_and_grad(jax.jit(total(f)))(X),
    "jacrev": lambda f: jax.jacrev(lambda x: reals(f)(x)[0])(X),
    "linearize": lambda f: (lambda y, push: (y, push(DX)))(*jax.linearize(reals(f), X)),
    "hessian": lambda f: jax.hessian(total(f))(X),
    "forward over forward": lambda f: jax.jvp(lambda x: of_one(f, x), (X,), (2 * X,)),
    "reverse over forward": lambda f: jax.grad(
        lambda x: sum(jnp.sum(jnp.abs(y) ** 2) for y in jax.tree.leaves(pushed(f, x)))
    )(X),
    "forward over reverse": lambda f: jax.jvp(jax.grad(total(f)), (X,), (DX,)),
    **{
        f"checkpoint, {name}": lambda f, policy=policy: jax.jit(
            jax.value_and_grad(
                lambda x: jnp.sum(jax.checkpoint(lambda x: again(f, x), policy=policy)(x) ** 2)
            )
        )(X)
        for name, policy in POLICIES.items()
    },
    "checkpoint of jvp": lambda f: jax.grad(
        lambda x: jnp.sum(jax.checkpoint(lambda x: jnp.cos(of_one(f, x)[1][0]))(x))
    )(X),
    "jvp of checkpoint": lambda f: jax.jvp(jax.checkpoint(reals(f)), (X,), (DX,)),
    "scan": lambda f: jax.jvp(lambda x: loop(f, x), (X,), (DX,)),
    "grad of scan": lambda f: jax.value_and_grad(lambda x: jnp.sum(loop(f, x)[1]))(X),
    "cond": lambda f: jax.jvp(of_branch(f), (X,), (DX,)),
    "grad of cond": lambda f: jax.value_and_grad(of_branch(f))(X),
    "while": lambda f: jax.jvp(
        lambda x: jax.lax.while_loop(
            lambda c: c[1] < 3, lambda c: (reals(f)(c[0])[0], c[1] + 1), (x, 0)
        )[0],
        (X,),
        (DX,),
    ),
    "custom_jvp": lambda f: jax.value_and_grad(lambda x: jnp.sum(by_hand(f)(x)[0]))(X),
    "transpose": lambda f: jax.linear_transpose(lambda dx: of_one(f, X, dx)[1][0], DX)(X),
    "transpose of jit": lambda f: jax.linear_transpose(
        jax.jit(lambda dx: (lambda y, d: d[0] * jnp.cos(y[0]))(*of_one(f, X, dx))), DX
    )(X),
    "solver": lambda f: jax.grad(
        lambda b: jnp.sum(
            jax.scipy.sparse.linalg.gmres(
                lambda dx: of_one(f, X, dx)[1][0] + 5 * dx, b, tol=1e-14, atol=1e-14
            )[0]
        )
    )(X),
}


@pytest.mark.brief
@pytest.mark.parametrize("name", PROGRAMS)
def test_jax_transforms_a_call_that_makes_both(name):
    assert_same(PROGRAMS[name](mixed), PROGRAMS[name](mixed_by_jax), name)


def test_exported_programs_hold_it():
    push = jax.jit(lambda *given: pushed(mixed, *given))
    exported = jax.export.export(push)(X, M, DX, DM)
    again = jax.export.deserialize(exported.serialize())
    assert_same(again.call(X, M, DX, DM), pushed(mixed_by_jax, X), "exported")


def test_shards_hold_it():
    @kernel("x: f64[n], w: f64[n] -> f64[n]", derivatives="enzyme", sharding_rule="n, n -> n")
    @numba.njit
    def product(x, w, out):
        for i in range(x.size):
            out[i] = x[i] * x[i] * w[i]

    mesh = jax.make_mesh((len(jax.devices()),), ("d",))
    where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    x, w = (jax.device_put(jnp.arange(8.0) + k, where) for k in (1, 2))
    y, dy = jax.jit(lambda x, w: jax.jvp(product, (x, w), (w, x)))(x, w)
    assert_same([y, dy], [x * x * w, 2 * x * w * w + x**3], "sharded")


# How often programs call kernels.


def calls(function, *given):
    """The calls of kernels in a compiled program."""
    text = jax.jit(function).lower(*given).compile().as_text()
    return sum(
        "custom-call(" in line and 'target="kernbridge' in line and "carrier" not in line
        for line in text.splitlines()
    )


def square(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i]


def of_square(*, function=square, compiled=None, **options):
    like = S((5,), jnp.float64)
    options = {"outs": like, "derivatives": "enzyme"} | options
    return numba_kernel(numba.njit(function, **(compiled or {})), **options)


@pytest.mark.brief
def test_a_program_calls_a_kernel_once():
    def push(x, dx):
        return jax.jvp(of_square(), (x,), (dx,))

    assert calls(push, X, DX) == 1
    assert calls(lambda x, dx: push(x, dx)[0], X, DX) == 1
    assert calls(lambda x, dx: push(x, dx)[1], X, DX) == 1
    assert calls(jax.jacfwd(of_square()), X) == 1  # without the results
    assert calls(lambda x: jax.vmap(lambda dx: push(x, dx))(MANY), X) == 2
    assert calls(jax.vmap(push), MANY, MANY) == 1


def on_cores(x, out):
    for i in numba.prange(x.size):
        out[i] = x[i] * x[i]


@numba.njit
def returned(x):
    return x * x


@numba.njit
def squares(x, out):  # of arrays with any leading axes
    for i in np.ndindex(x.shape):
        out[i] = x[i] * x[i]


SQUARE_IN_CPP = """
#include "kernbridge/kernbridge.hpp"
// @BE square arg ret
void square(const kernbridge::Tensor x, kernbridge::Tensor out)
{
    const double *from = x.data_ptr<double>();
    for (int64_t i = 0; i < x.numel(); i++)
        out.data_ptr<double>()[i] = from[i] * from[i];
}
"""
APART = {
    "loops on several cores": lambda: of_square(function=on_cores, compiled={"parallel": True}),
    "in place": lambda: of_square(input_output_aliases={0: 0}),
    "with a side effect": lambda: of_square(has_side_effect=True),
    "a batch for the kernel": lambda: numba_kernel(
        squares, lambda x: S(x.shape, x.dtype), derivatives="enzyme", vmap_method="broadcast_all"
    ),
    "results of any shape": lambda: kernel("x: f64[n] -> f64[n]", derivatives="enzyme")(returned),
    "another compiler": lambda: load_cpp_inline("square_apart", SQUARE_IN_CPP).square.operation(
        S((5,), jnp.float64), derivatives="enzyme"
    ),
    "a rule of the user": lambda: of_square(
        derivatives=None, vjp="enzyme", jvp=lambda xs, ys, dots: 2 * xs[0] * dots[0]
    ),
}


@pytest.mark.parametrize("name", APART)
def test_calls_that_stay_two(name):
    op = APART[name]()
    y, dy = jax.jvp(op, (X,), (DX,))
    assert_same([y, dy], [X * X, 2 * X * DX], name)
    assert calls(lambda x, dx: jax.jvp(op, (x,), (dx,)), X, DX) == 2 - ("rule" in name)


def test_halves_stay_two_calls():
    x = X.astype(jnp.bfloat16)
    op = of_square(outs=S((5,), jnp.bfloat16))
    y, dy = jax.jvp(op, (x,), (x,))
    assert_same([y, dy], [x * x, 2 * x * x], "bfloat16")


OUTSIDE = """
import jax, numba
import jax.numpy as jnp
from kernbridge import numba_kernel

@numba.njit
def outside(x, out):
    for i in range(x.size):
        out[i] = x[i + 1]

x = jnp.arange(5.0)
op = numba_kernel(outside, x, derivatives="enzyme")
try:
    jax.block_until_ready(jax.jvp(op, (x,), (x,)))
except Exception as e:
    print(e)
"""


def test_indices_are_checked_where_everything_is(run_python):
    assert "IndexError" in run_python(OUTSIDE, KERNBRIDGE_DEBUG="check")


def test_a_scalar_of_python_stays_one():
    def powers(x, n, is_negative, out):
        for i in range(x.size):
            out[i] = -(x[i] ** n) if is_negative else x[i] ** n

    op = of_square(function=powers)
    push = jax.jit(lambda x: jax.jvp(jax.jit(lambda x: op(x, n=3, is_negative=True)), (x,), (x,)))
    assert_same(push(X), (-(X**3), -3 * X**3), "literals")


def test_an_exception_names_the_kernel():
    def refusing(x, out):
        for i in range(x.size):
            if x[i] > 1e6:
                raise ValueError("too large")
            out[i] = x[i] * x[i]

    op = of_square(function=refusing)
    assert_same(jax.jvp(op, (X,), (DX,)), (X * X, 2 * X * DX), "small")
    with pytest.raises(Exception, match=r"(?s)numba_kernel 'refusing'.*ValueError.*too large"):
        jax.block_until_ready(jax.jvp(op, (1e7 * abs(X),), (DX,)))
