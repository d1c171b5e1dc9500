"""`signature=` and `inplace=`: what follows from them, and what is refused."""

import inspect
import re

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from jax import export
from numba import cuda

S = jax.ShapeDtypeStruct


@numba.njit
def step(v, spiked, leak, out):
    for i in range(out.size):
        out[i] = 0.0 if spiked[i] else v[i] * leak


STEP = "v: f32[n], spiked: bool[n], leak: f32 -> f32[n]"
V, SPIKED = np.arange(4, dtype=np.float32), np.array([0, 1, 0, 1], bool)


def test_a_signature_gives_outputs_names_and_numbers():
    op = kernbridge.numba_kernel(step, signature=STEP)
    want = np.where(SPIKED, 0, V * np.float32(0.5))
    for got in (
        op(V, SPIKED, 0.5),
        op(V, leak=0.5, spiked=SPIKED),
        jax.jit(op)(V, SPIKED, 0.5),
        jax.jit(lambda v: op(v, SPIKED, np.float32(0.5)))(V),
    ):
        np.testing.assert_array_equal(got, want)
    many = jax.vmap(op, (0, None, 0))(jnp.stack([V, 2 * V]), SPIKED, jnp.array([0.5, 2.0]))
    np.testing.assert_array_equal(many, [want, np.where(SPIKED, 0, 4 * V)])
    assert repr(op) == f"<numba_kernel 'step': {STEP.replace('-> ', '-> out: ')}>"
    assert list(inspect.signature(op).parameters) == ["v", "spiked", "leak"]
    assert "mul" in op.inspect(V, SPIKED, leak=0.5)[0].llvm_ir


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: [a[0][:3], *a[1:]], "'spiked' is bool.4., .* n is 3, as dimension 0 of input 0"),
        (lambda a: [a[0].astype(int), *a[1:]], "'v' is i32.4., .* convert it to float32"),
        (lambda a: [a[0][None], *a[1:]], "'v' .* number of dimensions differs"),
        (lambda a: [*a[:2], jnp.ones(3)], "'leak' is f32.3., but is declared as f32"),
        (lambda a: a[:2], "missing .* 'leak'; the call has 2 arguments, expected .v: f32.n., "),
        (lambda a: [*a, 1.0], "too many positional arguments"),
        (lambda a: [jnp.stack([a[0]] * 2), *a[1:]], "differs; use jax.vmap for a batch"),
    ],
)
def test_calls_that_do_not_fit(change, message):
    op = kernbridge.numba_kernel(step, signature=STEP)
    with pytest.raises(TypeError, match=message):
        jax.eval_shape(op, *change([V, SPIKED, 0.5]))


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("v: f32[n] -> f32[n]", "does not describe the parameter 'leak'.*give it a default"),
        ("f32[n], bool[n], f32", 'write "->" once'),
        ("q: f32[n], bool[n], f32 -> f32[n]", "none is 'q'"),
        ("f32[n], bool[n], f32 -> f32[m]", "no input has the dimension or dtype 'm'"),
        ("f32[n], bool[n], f32 -> T[n]", "no input has the dimension or dtype 'T'"),
        ("f32[n], bool[n], f32 -> f32", r"write f32\[\]"),
        ("f32[n], bool[n], f32 -> any", "has no dtype"),
        ("f99[n], bool[n], f32 -> f32[n]", "'f99' is no dtype"),
        ("Float64[n], bool[n], f32 -> f32[n]", "'Float64' is no dtype; write float64, or T"),
        ("f32[n/2], bool[n], f32 -> f32[n]", "'n/2' in .* is no dimension"),
        ("v: f32[n], v: bool[n], f32 -> f32[n]", "'v' stands twice"),
        ("v: f32[n], bool[n], f32, f32[n] -> v: f64[n]", "keeps its type"),
        ("f32[n], bool[n], leak: f32, f32[n] -> leak", "a number, which no call can change"),
        ("f32[n], bool[n], leak -> f32[n]", "'leak' has no type"),
        ("f32[n], bool[n], f32, f32[n], f32 -> ", "more inputs and outputs than parameters"),
    ],
)
def test_signatures_that_are_refused(signature, message):
    with pytest.raises(ValueError, match=rf"{message}.*\[KB1010\]"):
        kernbridge.numba_kernel(step, signature=signature)


def test_what_else_is_refused_when_a_kernel_is_wrapped():
    with pytest.raises(TypeError, match="KB1002"):
        kernbridge.numba_kernel(step)
    with pytest.raises(ValueError, match=r"pass signature=, or a rule .*KB6001"):
        kernbridge.numba_kernel(step, S((4,), "float32"), sharding_rule=True)
    with pytest.raises(ValueError, match=r"leave it out.*KB6001"):
        kernbridge.elementwise(lambda x: -x, sharding_rule=True)
    with pytest.raises(ValueError, match="KB1010"):
        kernbridge.numba_kernel(step, inplace="u")
    with pytest.raises(ValueError, match=r"inplace names 'v' twice; write it once .KB1010"):
        kernbridge.numba_kernel(step, signature=STEP, inplace="v, v")
    with pytest.raises(TypeError, match="KB1010"):
        kernbridge.numba_kernel(step, signature=3)
    with pytest.raises(TypeError, match=r"inplace= without .*leave it out, or .*KB1010"):
        kernbridge.numba_kernel(step, S((4,), "float32"), inplace="v")
    with pytest.raises(TypeError, match=r"static is 'leak', expected a dict.*KB1103"):
        kernbridge.numba_kernel(step, S((4,), "float32"), static="leak")
    fixed = kernbridge.numba_kernel(step, lambda v, s: v, static={"leak": 0.5})
    with pytest.raises(TypeError, match=r"'leak', .*; static= has its value: leave it out.*2001"):
        jax.eval_shape(fixed, V, SPIKED, leak=0.5)
    op = kernbridge.numba_kernel(step, signature=STEP)
    with pytest.raises(TypeError, match=r"it has no input 'lake'; .* leak: f32\) .KB2001"):
        jax.eval_shape(op, V, SPIKED, lake=0.5)
    shorter = kernbridge.numba_kernel(step, signature="f32[n], bool[n], f32 -> f32[n-5]")
    with pytest.raises(ValueError, match=r"'step': the extent n - 5 of the output .* is -1"):
        jax.eval_shape(shorter, V, SPIKED, 0.5)
    with jax.enable_x64(True), pytest.raises(TypeError, match=rf"pass np.uint64\({2**63}\)"):
        op(V, SPIKED, 2**63)
    twice = kernbridge.numba_kernel(step, lambda v, s, leak: (v, v), signature=STEP)
    with pytest.raises(ValueError, match="KB1010"):
        jax.eval_shape(twice, V, SPIKED, 0.5)
    other = kernbridge.numba_kernel(step, S((5,), "float32"), signature=STEP)
    with pytest.raises(TypeError, match="KB2007"):
        jax.eval_shape(other, V, SPIKED, 0.5)


@numba.njit
def relax(dt, v, w, current):
    for k in range(v.size):
        v[k] += dt * (current[k] - w[k])
        w[k] *= 0.5


GIVEN = 0.1, V, np.ones(4, np.float32), np.full(4, 2, np.float32)


def relaxed(dt, v, w, current):
    return v + dt * (current - w), 0.5 * w


@pytest.mark.brief
@pytest.mark.parametrize(
    "options",
    [
        {"inplace": "v, w"},
        {"signature": "dt: f32, v: f32[n], w: f32[n], current: f32[n] -> v, w"},
        {"signature": "dt: f32, v: f32[n], f32[n], f32[n] -> v: f32[n]", "inplace": "w"},
        {"inplace": "v, w", "zero_outputs": True},
    ],
)
def test_arrays_that_the_kernel_changes(options):
    op = kernbridge.numba_kernel(relax, **options)
    for got in (op(*GIVEN), jax.jit(op)(*GIVEN), op(v=V, w=GIVEN[2], dt=0.1, current=GIVEN[3])):
        for a, b in zip(got, relaxed(*GIVEN), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    np.testing.assert_array_equal(GIVEN[1], np.arange(4))
    batched = jax.vmap(op, (None, 0, None, 0))(0.1, jnp.stack([V, V]), *map(jnp.stack, (
        GIVEN[2], [GIVEN[3], GIVEN[3]])))  # fmt: skip
    np.testing.assert_allclose(batched[0][1], relaxed(*GIVEN)[0], rtol=1e-6)


@pytest.mark.exhaustive
def test_a_kernel_for_gpus_that_changes_its_input_with_a_launch_of_named_dimensions():
    @kernbridge.kernel("dt: f32, v: f32[rows, n] -> v", launch_dims=("rows", "2 * n"))
    @cuda.jit
    def grow(v, dt):
        i, j = cuda.grid(2)
        if i < v.shape[0] and j < v.shape[1]:
            v[i, j] += dt * v[i, j]

    v = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(grow(0.5, v), 1.5 * v)
    np.testing.assert_allclose(jax.vmap(grow, (0, None))(jnp.ones(2), v)[1], 2 * v)
    with pytest.raises(ValueError, match=r"launch_dims is 'q', .* which are n, rows \[KB1102\]"):
        kernbridge.numba_cuda_kernel(
            grow.__wrapped__, signature="f32[rows, n], f32 -> v", launch_dims="q"
        )


@kernbridge.kernel("data: T[nnz], indices: i32[nnz], indptr: i32[rows + 1], x: T[cols] -> T[rows]")
@numba.njit
def csr(out, data, indices, indptr, x):
    for r in range(out.size):
        total = 0.0
        for k in range(indptr[r], indptr[r + 1]):
            total += data[k] * x[indices[k]]
        out[r] = total


MATRIX = (
    np.arange(6, dtype=np.float32),
    np.array([0, 1, 2, 0, 1, 2], np.int32),
    np.array([0, 2, 4, 6], np.int32),
    np.ones(3, np.float32),
)


def test_sums_of_dimensions_variables_of_dtypes_and_an_output_that_comes_first():
    np.testing.assert_array_equal(csr(*MATRIX), [1, 5, 9])
    with jax.enable_x64(True):
        assert csr(MATRIX[0] * 1.0, *MATRIX[1:3], MATRIX[3]).dtype == "float32"
        double = csr(MATRIX[0].astype("f8"), *MATRIX[1:3], MATRIX[3].astype("f8"))
        assert double.dtype == "float64"
        with pytest.raises(TypeError, match=r"'x' is f32.*, in which T is float64, as .* 'data'"):
            csr(MATRIX[0].astype("f8"), *MATRIX[1:])
    with pytest.raises(TypeError, match=r"'indptr' is i32.0., .* which rows \+ 1 cannot be"):
        csr(*MATRIX[:2], MATRIX[2][:0], MATRIX[3])


def test_an_exported_program_finds_a_kernel_by_its_name_and_signature():
    exported = export.export(jax.jit(csr))(*MATRIX)
    loaded = export.deserialize(exported.serialize())
    np.testing.assert_array_equal(loaded.call(*MATRIX), [1, 5, 9])


def test_symbolic_extents():
    n, m = export.symbolic_shape("n, m")
    given = [S((n,), "f4"), S((n,), "i4"), S((m + 1,), "i4"), S((3,), "f4")]
    exported = export.export(jax.jit(csr))(*given)
    assert str(exported.out_avals[0].shape) == "(m,)"
    np.testing.assert_array_equal(exported.call(*MATRIX), [1, 5, 9])


@pytest.mark.exhaustive
def test_leading_dimensions_are_the_same_everywhere():
    @kernbridge.kernel("x: f32[..., 2], y: f32[...] -> f32[..., 3]", zero_outputs=True)
    @numba.njit
    def spread(x, y, out):
        out[..., 0] = y

    x, y = jnp.ones((4, 5, 2)), jnp.ones((4, 5))
    assert spread(x, y).shape == (4, 5, 3)
    with pytest.raises(TypeError, match=r"in which \.\.\. is \[4, 5\], as in input 0"):
        spread(x, y[0])


_DRAWN = "f32", "f64", "i32", "T", "U"


def drawn(seed):
    """A signature, arrays that fit it, the shape of its output, and what an array must not be."""
    rng = np.random.default_rng(seed)
    extents = {name: int(rng.integers(1, 6)) for name in "abc"}
    dtypes = {"T": "f32", "U": rng.choice(["f64", "i32"])}
    items, shapes = [], []

    def item(names):
        dims = []
        for _ in range(rng.integers(1, 4)):
            name, kind = str(rng.choice(list(names))), rng.integers(5)
            dims.append(str(extents[name]) if kind == 0 else name)
            if kind == 1:
                dims[-1] = f"{name} + {rng.integers(1, 4)}"
            elif kind == 2:
                dims[-1] = f"{rng.integers(2, 4)} * {name}"
        shape = [eval(d, dict(extents)) for d in dims]
        return dims, shape

    for name in "abc":  # each is determined
        dims, shape = item("abc")
        at = rng.integers(len(dims) + 1)
        dims.insert(at, name)
        shape.insert(at, extents[name])
        items.append((str(rng.choice(_DRAWN)), dims))
        shapes.append(shape)
    order = rng.permutation(3)
    items = [items[i] for i in order]
    shapes = [shapes[i] for i in order]
    known = [dtype for dtype, _ in items]
    dtype = str(rng.choice(known))
    dims, shape = item("abc")
    inputs = ", ".join(f"{d}[{', '.join(n)}]" for d, n in items)
    arrays = [
        np.zeros(s, _numpy(dtypes.get(d, d))) for (d, _), s in zip(items, shapes, strict=True)
    ]
    text = f"{inputs} -> {dtype}[{', '.join(dims)}]"
    return text, arrays, tuple(shape), _numpy(dtypes.get(dtype, dtype)), rng


def _numpy(dtype):
    return {"f32": "float32", "f64": "float64", "i32": "int32"}[dtype]


@numba.njit
def sizes(x, y, z, out):
    out[...] = x.size + 10 * y.size + 100 * z.size


@pytest.mark.parametrize(
    "seeds",
    [range(25), pytest.param(range(25, 1000), marks=pytest.mark.exhaustive)],
    ids=["some", "all"],
)
def test_drawn_signatures(seeds):
    with jax.enable_x64(True):
        for seed in seeds:
            text, arrays, shape, dtype, rng = drawn(seed)
            op = kernbridge.numba_kernel(sizes, signature=text)
            out = jax.eval_shape(op, *arrays)
            assert (out.shape, out.dtype) == (shape, dtype), text
            if seed % 10 == 0:
                n = [a.size for a in arrays]
                np.testing.assert_array_equal(
                    op(*arrays), np.full(shape, n[0] + 10 * n[1] + 100 * n[2], dtype)
                )
            wrong = int(rng.integers(3))
            array = arrays[wrong]
            axis = int(rng.integers(array.ndim))
            arrays[wrong] = np.concatenate([array, array], axis)
            name = text.split("->")[0].split("],")[wrong].split("[")[1].split(",")[axis].strip("] ")
            uses = re.findall(rf"[\[ ]({name})(?=[\],])", text.split("->")[0])
            if name.isidentifier() and len(uses) == 1 and text.split("->")[0].count(name) == 1:
                jax.eval_shape(op, *arrays)  # nothing else says what its extent is
            else:
                with pytest.raises(TypeError, match=r"is declared as .*dimension \d.*\[KB2007\]"):
                    jax.eval_shape(op, *arrays)


@pytest.mark.exhaustive
def test_a_function_that_returns_arrays():
    @kernbridge.kernel("x: f32[n], y: f32[m], k: f32 -> f32[n + m], f32, f32[n]")
    @numba.njit
    def joined(x, y, k):
        return np.concatenate((x, y)), x.sum() * k, x * k

    x, y = np.arange(3, dtype=np.float32), np.ones(2, np.float32)
    want = np.concatenate((x, y)), 6, 2 * x
    for got, expected in zip(jax.jit(joined)(x, y, 2.0), want, strict=True):
        np.testing.assert_array_equal(got, expected)
    with pytest.raises(TypeError, match=r"'x' is i32.3., but is declared as f32.n.*\[KB2007\]"):
        joined(x.astype(int), y, 2.0)
    for wrong in "x: f32[n] -> f32[n]", "f32[n], f32[m], f32 -> f32[q]":
        with pytest.raises(ValueError, match="KB1010"):
            kernbridge.kernel(wrong)(joined.__wrapped__)


def test_a_function_that_returns_an_array_has_parameters_with_defaults():
    @numba.njit
    def applied(x, w, k=3, f=None):
        out = np.empty(x.shape[0], np.float32)
        for i in range(x.shape[0]):
            out[i] = k * x[i].sum() * w[0] if f is None else f(k * x[i].sum() * w[0])
        return out

    x, w = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([2], np.int32)
    op = kernbridge.kernel("x: f32[n, m], w: i32[1] -> f32[n]")(applied)
    np.testing.assert_array_equal(op(x, w), 6 * x.sum(1))
    np.testing.assert_allclose(op(x, w, f=jnp.tanh), np.tanh(6 * x.sum(1)), rtol=1e-6)
    op = kernbridge.kernel("w: i32[1], k: i32, x: f32[n, m] -> f32[n]")(applied)
    np.testing.assert_array_equal(op(w, 5, x), 10 * x.sum(1))
    with pytest.raises(ValueError, match=r"parameter 'k', after which.*\[KB1010\]"):
        kernbridge.kernel("x: f32[n, m], w: i32[1], f: f32 -> f32[n]")(applied)


@numba.njit
def scaled_by(x, k, out):
    for i in range(x.size):
        out[i] = x[i] * k


@pytest.mark.parametrize("signature", ["x: i8[n], k: i8 -> i8[n]", "x: T[n], k: T -> T[n]"])
def test_numbers_that_a_dtype_does_not_hold(signature):
    op, x = kernbridge.numba_kernel(scaled_by, signature=signature), jnp.arange(3, dtype=jnp.int8)
    for made in (op(x, -2), op(x, k=-2), jax.jit(lambda x: op(x, -2))(x)):
        np.testing.assert_array_equal(made, np.array([0, -2, -4], np.int8))
    for call in (
        lambda: op(x, 300),
        lambda: op(k=-129, x=x),
        lambda: op(x, jnp.asarray(300)),
        lambda: jax.jit(op)(x, k=x[0]) + op(x, 128),
    ):
        with pytest.raises(
            TypeError, match=r"'k' is -?\d+, which is out of range for int8.*KB2007"
        ):
            call()


def test_a_traced_number_may_not_fit():
    op = kernbridge.numba_kernel(scaled_by, signature="x: i8[n], k: i8 -> i8[n]")
    with pytest.raises(TypeError, match=r"'k' is traced, and may be out of range for int8.*KB2007"):
        jax.jit(op)(jnp.ones(3, jnp.int8), 3)
    with pytest.raises(TypeError, match=r"'x' is i32.3., but is declared as i8.*KB2007"):
        op(jnp.full(3, 300), 3)


@pytest.mark.exhaustive
def test_numbers_have_the_dtype_of_the_arrays():
    op = kernbridge.numba_kernel(scaled_by, signature="x: T[n], k: T -> T[n]")
    for dtype in (jnp.float32, jnp.int16, jnp.complex64):
        x = jnp.arange(3, dtype=dtype)
        for made in (op(x, 2), jax.jit(op)(x, 2), jax.vmap(op, (0, None))(x[None], 2)[0]):
            assert made.dtype == dtype
            np.testing.assert_array_equal(made, 2 * np.arange(3))
    with pytest.raises(
        TypeError, match=r"'k' is f32\[\], but is declared as T\[\], in which T is int16"
    ):
        op(jnp.arange(3, dtype=jnp.int16), 2.5)
