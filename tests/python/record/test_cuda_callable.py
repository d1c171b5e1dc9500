"""`numba_cuda_callable` on the fake driver: what is recorded, what a plan does, what is refused."""

import gc
import inspect

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")

from cuda_kernels import add, plus_z  # noqa: E402

pytestmark = pytest.mark.usefixtures("gpu")
S = jax.ShapeDtypeStruct
F32 = jnp.float32


@cuda.jit
def scale(x, out, factor, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = x[i] * factor


@cuda.jit
def add_2d(x, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] += x[i, j]


def wrap(function, outs, **options):
    return kernbridge.numba_cuda_callable(function, outs, record="always", **options)


def steps(op, *avals):
    return [str(s).split("(")[0].split("[")[0] for s in op.plan(*avals).steps]


def add_then_scale(x, y, out, stream):
    n = x.shape[0]
    temporary = cuda.device_array(n, dtype=x.dtype)
    add[(n + 31) // 32, 32, stream](x, y, temporary)
    scale[(n + 31) // 32, 32, stream](temporary, out, 2.0, n)


def test_two_kernels_and_a_temporary(gpu):
    op = wrap(add_then_scale, S((40,), F32))
    x = jnp.arange(40, dtype=F32)
    before = kernbridge._core.python_entries()
    np.testing.assert_array_equal(jax.jit(op)(x, x), 4 * np.arange(40))
    assert kernbridge._core.python_entries() == before
    assert [tuple(launch.grid) for launch in gpu.launches] == [(2, 1, 1), (2, 1, 1)]
    assert "hidden temporary 0, f32[1d]" in str(op.plan(x, x))


def test_vmap_runs_step_by_step(gpu):
    op = wrap(add_then_scale, S((3,), F32))
    x = jnp.arange(15, dtype=F32).reshape(5, 3)
    np.testing.assert_array_equal(jax.vmap(op)(x, x), 4 * np.asarray(x))
    assert [tuple(launch.grid) for launch in gpu.launches] == [(1, 1, 5)] * 2
    y = jnp.arange(3, dtype=F32)
    np.testing.assert_array_equal(
        jax.vmap(jax.vmap(op, (0, None)), (None, 0))(x, jnp.stack([y, y])),
        2 * np.broadcast_to(np.asarray(x) + np.asarray(y), (2, 5, 3)),
    )


def test_vmap_of_a_kernel_that_uses_z_loops_over_that_step_alone(gpu):
    def mixed(x, out, stream):
        temporary = cuda.device_array_like(x)
        plus_z[1, 4, stream](x, temporary)
        scale[1, 4, stream](temporary, out, 3.0, 4)

    x = jnp.arange(12, dtype=F32).reshape(3, 4)
    np.testing.assert_array_equal(jax.vmap(wrap(mixed, S((4,), F32)))(x), 3 * np.asarray(x))
    assert [launch.grid[2] for launch in gpu.launches] == [1, 1, 1, 3]


@pytest.mark.exhaustive
def test_fills_copies_and_views():
    def views(x, out, total, stream):
        total[:] = 0
        out[:] = x
        add_2d[(1, 1), (8, 8), stream](x.T[1:3], total.reshape(2, 3))
        out[0].copy_to_device(x[1], stream=stream)
        out[1][1:] = 7.0

    x = jnp.arange(9, dtype=F32).reshape(3, 3)
    op = wrap(views, [S((3, 3), F32), S((6,), F32)])
    out, total = op(x)
    expected = np.array(x)
    expected[0], expected[1, 1:] = expected[1].copy(), 7
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(total.reshape(2, 3), np.asarray(x).T[1:3])
    assert steps(op, x) == ["fill b2+0: 6 x 4 B of 0x0", "copy 36 B: b1+0 <- b0+0",
                            "launch transpose", "launch add_2d", "copy 12 B: b1+0 <- b0+12",
                            "fill b1+16: 2 x 4 B of 0x40e00000"]  # fmt: skip
    batch = jnp.stack([x, 2 * x])
    outs, totals = jax.vmap(op)(batch)
    np.testing.assert_array_equal(totals[1].reshape(2, 3), 2 * np.asarray(x).T[1:3])
    np.testing.assert_array_equal(outs[0], expected)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(3, np.int8), (-2, np.int16), (5, np.int64), (2.5, np.float64), (1 + 2j, np.complex128),
     (True, np.bool_), (-1.5, np.complex64)],
)  # fmt: skip
@pytest.mark.usefixtures("x64")
def test_fills_of_every_width(value, dtype):
    def fill(out, stream):
        out[:] = value
        out[1:2] = 0

    result = wrap(fill, S((5,), dtype))()
    np.testing.assert_array_equal(result, np.array([value, 0, value, value, value], dtype))


@pytest.mark.usefixtures("x64")
def test_scalars_of_every_kind():
    @cuda.jit
    def store(out, a, b, c, d, e, f):
        out[0], out[1], out[2], out[3], out[4], out[5] = a, b, c, d, e.real + e.imag, f

    def scalars(out, stream):
        store[1, 1, stream](out, 3, -2.5, True, np.float32(0.5), 1 + 2j, np.int8(-7))

    np.testing.assert_array_equal(wrap(scalars, S((6,), jnp.float64))(), [3, -2.5, 1, 0.5, 3, -7])


def test_keyword_scalars_go_to_kernels():
    def scaled(x, factor, out, stream):
        scale[1, 8, stream](x, out, factor, x.size)

    op = wrap(scaled, S((5,), F32))
    x = jnp.arange(5, dtype=F32)
    for factor in (2.0, 3.0):
        np.testing.assert_array_equal(op(x, factor=F32(factor)), factor * np.arange(5))
    np.testing.assert_array_equal(
        jax.vmap(lambda f: op(x, factor=f))(jnp.arange(3.0)), np.outer(np.arange(3), np.arange(5))
    )

    def branching(x, factor, out, stream):
        if factor > 1:
            scale[1, 8, stream](x, out, factor, x.size)

    with pytest.raises(kernbridge.KernelError, match=r"'factor'.*\[KB4012\]"):
        wrap(branching, S((5,), F32))(x, factor=2.0)


def test_loops_branches_helpers_and_forall(gpu):
    def step(a, b, stream):
        scale.forall(a.size, stream=stream)(a, b, 2.0, a.size)

    def ping_pong(x, out, stream):
        a, b = cuda.device_array_like(x), cuda.device_array_like(x)
        a.copy_to_device(x)
        for _ in range(4 if x.size > 2 else 2):
            step(a, b, stream)
            a, b = b, a
        out[:] = a

    np.testing.assert_array_equal(wrap(ping_pong, S((3,), F32))(jnp.ones(3)), np.full(3, 16))
    np.testing.assert_array_equal(wrap(ping_pong, S((2,), F32))(jnp.ones(2)), np.full(2, 4))
    assert len(gpu.launches) == 6
    assert tuple(gpu.launches[0].block) == (256, 1, 1)


def test_alias_and_protection_of_inputs():
    def in_place(x, out, stream):
        scale[1, 8, stream](x, x, 2.0, x.size)

    x = jnp.arange(4, dtype=F32)
    op = wrap(in_place, S((4,), F32), input_output_aliases={0: 0})
    np.testing.assert_array_equal(op(x), 2 * np.arange(4))
    np.testing.assert_array_equal(x, np.arange(4))

    def writes(x, out, stream):
        temporary = cuda.device_array_like(x)
        scale[1, 8, stream](x, x, 2.0, x.size)
        x[3:] = 0
        temporary[:] = x
        out[:] = temporary

    with pytest.warns(kernbridge.KernbridgeWarning, match=r"\[KB4003\]"):
        result = wrap(writes, S((4,), F32))(x)
    np.testing.assert_array_equal(result, [0, 2, 4, 0])
    np.testing.assert_array_equal(x, np.arange(4))


def test_empty_arrays_and_launches_of_nothing(gpu):
    def nothing(x, out, empty, stream):
        scale[0, 8, stream](x, empty, 2.0, 0)
        empty[:] = 1
        out[:] = x

    out, empty = wrap(nothing, [S((4,), F32), S((0,), F32)])(jnp.ones(4))
    assert empty.shape == (0,)
    np.testing.assert_array_equal(out, np.ones(4))
    assert gpu.launches == []


def host_read(x, out, stream):
    values = x.copy_to_host()
    out[:] = values[0]


def element(x, out, stream):
    if x[0] > 0:
        add[1, 8, stream](x, x, out)


def as_numpy(x, out, stream):
    np.asarray(x)


def from_host(x, out, stream):
    cuda.to_device(np.arange(3.0))


def event(x, out, stream):
    cuda.event()


def interface(x, out, stream):
    x.__cuda_array_interface__  # noqa: B018


def truth(x, out, stream):
    if x:
        pass


def iterate(x, out, stream):
    for value in x:
        print(value)


def unknown_argument(x, out, stream):
    add[1, 8, stream](x, "y", out)


def swallowed(x, out, stream):
    try:
        x.copy_to_host()
    except Exception:
        out[:] = 0


REFUSED = [host_read, element, as_numpy, from_host, event, interface, truth, iterate,
           unknown_argument, swallowed]  # fmt: skip


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_cannot_be_recorded_names_its_line(function):
    _, first = inspect.getsourcelines(function)
    bad = {"swallowed": 2}.get(function.__name__, 1)
    with pytest.raises(
        kernbridge.KernelError,
        match=rf"'{function.__name__}' cannot be recorded: .* at .*{__name__}.py:{first + bad} ",
    ):
        wrap(function, S((4,), F32))(jnp.ones(4))


def test_an_array_kept_from_another_recording_is_refused():
    kept = []

    def keeps(x, out, stream):
        kept.append(x)
        add[1, 8, stream](kept[0], x, out)

    with pytest.raises(kernbridge.KernelError, match=r"another.*\[KB4012\]"):
        wrap(keeps, S((4,), F32))(jnp.ones(4))


def test_an_exception_of_the_function_is_its_own():
    def wrong(x, out, stream):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        wrap(wrong, S((4,), F32))(jnp.ones(4))


def test_auto_warns_once_and_takes_the_slow_path():
    op = kernbridge.numba_cuda_callable(host_read, S((4,), F32))
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"copy_to_host.*\[KB4013\]"):
        lowered = jax.jit(op).lower(S((4,), F32))
    text = lowered.as_text()
    assert 'kernbridge.cuda"' in text or "@kernbridge.cuda(" in text
    assert "call Python" in str(op.plan(S((4,), F32)))
    check = jax.export.DisabledSafetyCheck.custom_call("kernbridge.cuda")
    with pytest.raises(ValueError, match=r"\[KB6101\]"):
        jax.export.export(jax.jit(op), disabled_checks=[check])(S((4,), F32))


def test_recording_leaves_numba_as_it_is_for_others():
    names = {n: getattr(cuda, n) for n in ("device_array", "to_device", "synchronize", "stream")}

    def run(x, out, stream):
        out[:] = x

    wrap(run, S((4,), F32))(jnp.ones(4))
    for name, function in names.items():
        assert getattr(function, "__wrapped__", function).__module__.startswith("numba")
        assert name in dir(cuda)


def test_a_function_is_recorded_anew_for_every_lowering():
    factor = [2.0]

    def scaled(x, out, stream):
        scale[1, 8, stream](x, out, factor[0], x.size)

    op = wrap(scaled, S((3,), F32))
    np.testing.assert_array_equal(jax.jit(lambda x: op(x))(jnp.ones(3)), np.full(3, 2))
    factor[0] = 5.0
    np.testing.assert_array_equal(jax.jit(lambda x: op(x) + 0)(jnp.ones(3)), np.full(3, 5))


@pytest.mark.exhaustive
def test_wrapping_and_tracing_again_add_nothing():
    op = wrap(add_then_scale, S((40,), F32))
    x = S((40,), F32)
    jax.jit(lambda a, b: op(a, b)).lower(x, x)
    before = kernbridge._core.registry_stats(), kernbridge._core.function_stats()
    for _ in range(1000):
        assert wrap(add_then_scale, S((40,), F32)) is op
    for _ in range(50):
        jax.jit(lambda a, b: op(a, b)).lower(x, x)
    gc.collect()
    assert (kernbridge._core.registry_stats(), kernbridge._core.function_stats()) == before


def test_launches_configured_before_and_copies_by_the_driver():
    from numba.cuda.cudadrv import driver

    configured = add[1, 8]

    def run(x, out, stream):
        temporary = cuda.device_array_like(x)
        configured(x, x, temporary)
        driver.device_to_device(out, temporary, 12, stream=stream)
        driver.device_memset(out[3:], 0, 4, stream=stream)

    np.testing.assert_array_equal(wrap(run, S((4,), F32))(jnp.ones(4)), [2, 2, 2, 0])


def test_arguments_of_launches_by_name():
    configured = scale[1, 8]

    @cuda.jit
    def shift(x, out, by=3):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + by

    def run(x, out, stream):
        temporary = cuda.device_array_like(x)
        scale[1, 8, stream](x, n=4, factor=3.0, out=temporary)
        configured(temporary, factor=0.5, n=4, out=temporary)
        shift[1, 8, stream](out=out, x=temporary)
        shift.forall(4, stream=stream)(out, by=2, out=out)

    x = jnp.arange(4, dtype=F32)
    np.testing.assert_array_equal(wrap(run, S((4,), F32))(x), 1.5 * x + 5)
    for names, says in (
        (("out", "b"), "unexpected keyword argument 'b'"),
        (("by",), "missing .*'out'"),
    ):
        with pytest.raises(TypeError, match=says):
            wrap(
                lambda x, out, stream, names=names: shift[1, 4](x, **dict.fromkeys(names, out)), x
            )(x)


def test_an_output_that_the_function_does_not_use_is_refused(gpu):
    def f(x, out, other, stream):
        add[1, 32, stream](x, x, out)
        other = other * 2 if x.ndim > 1 else x

    x = jnp.arange(3, dtype=F32)
    op = wrap(f, (S((3,), F32), S((3,), F32)))
    with pytest.raises(
        kernbridge.KernelError, match=r"the output 'other' to no kernel.*\[KB1008\]"
    ):
        op(x)

    def mended(x, out, other, stream):
        add[1, 32, stream](x, x, out)
        other[:] = 0

    out, other = wrap(mended, (S((3,), F32), S((3,), F32)))(x)
    np.testing.assert_array_equal(out, [0, 2, 4])
    np.testing.assert_array_equal(other, [0, 0, 0])


def test_an_output_without_elements_or_of_an_input_needs_no_step(gpu):
    x = jnp.arange(3, dtype=F32)
    op = wrap(
        lambda x, same, none, stream: None,
        (S((3,), F32), S((0, 3), F32)),
        input_output_aliases={0: 0},
    )
    same, none = op(x)
    np.testing.assert_array_equal(same, [0, 1, 2])
    assert none.shape == (0, 3)
