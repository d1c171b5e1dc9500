"""Functions whose plan may not be replayed for ever: they draw, count, or read clocks."""

import datetime
import inspect
import itertools
import random
import re
import time
import uuid

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")

S = jax.ShapeDtypeStruct
OUT = S((3,), jnp.float32)
ones = jnp.ones(3)


@cuda.jit
def scale(x, out, factor):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * factor


class Counter:
    n = 0
    calls = ()


counter, drawn, numbers = Counter(), [], np.random.default_rng(1)
steps, total, table = itertools.count(), 0, {}


def draws(x, out, stream):
    scale[1, 4, stream](x, out, random.random())  # line 1


def draws_numpy(x, out, stream):
    factor = np.random.rand()
    scale[1, 4, stream](x, out, factor)  # line 2


def draws_generator(x, out, stream):
    scale[1, 4, stream](x, out, numbers.normal())  # line 1


def draws_a_coin(x, out, stream):
    scale[1, 4, stream](x, out, 2.0 if random.random() < 2 else 1.0)


def draws_numpys_coin(x, out, stream):
    scale[1, 4, stream](x, out, 2.0 if np.random.rand() < 2 else 1.0)


def counts(x, out, stream):
    counter.n += 1
    scale[1, 4, stream](x, out, counter.n)  # line 2


def counts_silently(x, out, stream):
    counter.calls += (x.shape,)
    scale[1, 4, stream](x, out, 2.0)


def appends(x, out, stream):
    drawn.append(x.shape)
    scale[1, 4, stream](x, out, 2.0)


def counts_by_global(x, out, stream):
    global total
    total += 1
    scale[1, 4, stream](x, out, 2.0)


def reads_clock(x, out, stream):
    scale[1, 4, stream](x, out, time.time())  # line 1


def decides_by_clock(x, out, stream):
    late = time.monotonic() > 0  # line 1
    scale[1, 4, stream](x, out, 2.0 if late else 1.0)


def decides_by_date(x, out, stream):
    late = datetime.datetime.now().year > 1  # line 1
    scale[1, 4, stream](x, out, 2.0 if late else 1.0)


def next_of(x, out, stream):
    scale[1, 4, stream](x, out, next(steps))  # line 1


def unique(x, out, stream):
    scale[1, 4, stream](x, out, uuid.uuid4().int % 2**31)  # line 1


def more_each_time(x, out, stream):
    drawn.append(0)
    for _ in drawn:
        scale[1, 4, stream](x, out, 2.0)  # line 3


def fills(x, out, stream):
    out[:] = random.random()  # line 1


def other_grid(x, out, stream):
    scale[random.getrandbits(20), 4, stream](x, out, 2.0)  # line 1


REFUSED = {
    draws: "argument 2 of the launch of scale is 0",
    draws_numpy: "argument 2 of the launch of scale is 0",
    draws_generator: "argument 2 of the launch of scale is",
    draws_a_coin: "draws random numbers from 'random.random'",
    draws_numpys_coin: "draws random numbers from 'np.random.rand",
    counts: r"argument 2 of the launch of scale is \d+ the first time and \d+ the second",
    counts_silently: "changes 'counter.calls",
    appends: "changes 'drawn",
    counts_by_global: "changes 'total'",
    reads_clock: "argument 2 of the launch of scale",
    decides_by_clock: "reads a clock, time.monotonic",
    decides_by_date: r"reads a clock, datetime.datetime.now",
    next_of: "argument 2 of the launch of scale",
    unique: "argument 2 of the launch of scale",
    more_each_time: "launches, fills and copies the first time and",
    fills: "the value of the fill is",
    other_grid: "the grid of the launch of scale",
}


@pytest.mark.once
@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
@pytest.mark.usefixtures("gpu")
def test_what_differs_is_named_with_its_line(function):
    op = kernbridge.numba_cuda_callable(function, OUT, record="always")
    with pytest.raises(kernbridge.KernelError, match=r"\[KB4012\]") as caught:
        op(ones)
    text = str(caught.value)
    assert re.search(REFUSED[function], text), text
    lines, first = inspect.getsourcelines(function)
    line = next((int(m[1]) for text in lines if (m := re.search("# line (.)", text))), 0)
    assert f"{__file__}:{first + line}" in text


@pytest.mark.usefixtures("gpu")
def test_such_a_function_runs_as_python_and_a_warning_says_why():
    op = kernbridge.numba_cuda_callable(draws, OUT)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"argument 2.*\[KB4013\]"):
        plan = op.plan(OUT)
    assert "call Python" in str(plan)


@pytest.mark.exhaustive
@pytest.mark.once
def test_on_a_cpu_such_a_function_runs_as_python(run_python):
    program = (
        "import kernbridge, test_function_state as t\n"
        "op = kernbridge.numba_cuda_callable(t.draws, t.OUT)\n"
        "first, second = op(t.ones), op(t.ones)\n"
        "print((0 < first).all(), (first == first[0]).all(), (first != second).all())\n"
        "try:\n"
        "    kernbridge.numba_cuda_callable(t.draws, t.OUT, record='always')(t.ones)\n"
        "except Exception as e:\n"
        "    print(type(e).__name__, e)\n"
    )
    printed = run_python(program)
    assert printed.startswith("True True True\nKernelError numba_cuda_callable 'draws'")
    assert "behaves differently each time it runs: argument 2 of the launch of scale" in printed


@pytest.mark.usefixtures("gpu")
def test_what_a_function_fills_once_may_be_recorded():
    def kernel_of(size):
        if size not in table:
            table[size] = float(len(table) + 2)
        return table[size]

    def caches(x, out, stream):
        scale[1, 4, stream](x, out, kernel_of(x.size))

    op = kernbridge.numba_cuda_callable(caches, OUT, record="always")
    np.testing.assert_array_equal(op(ones), np.full(3, 2))
    np.testing.assert_array_equal(jax.jit(lambda x: op(x) + 1)(ones), np.full(3, 3))
