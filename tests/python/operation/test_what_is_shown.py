"""What operations, modules, plans, explanations and measurements look like, and what is logged."""

import functools
import logging
import pydoc
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from jax.experimental import checkify
from numba import cuda

pytestmark = pytest.mark.once
X = jnp.arange(4.0)


@numba.njit
def shift(x, by, out):
    for i in range(x.size):
        out[i] = x[i] + by


def halves(x, n=2):
    return x / n, x // n


def help_of(op):
    said = pydoc.render_doc(op, renderer=pydoc.plaintext)
    return "\n".join(map(str.rstrip, said.split("\n")))  # Python 3.12 indents no empty lines


def line_of(function):
    return f"{__file__}:{function.__code__.co_firstlineno}"


def test_help_says_what_an_operation_without_a_docstring_calls():
    op = kernbridge.numba_kernel(shift, signature="x: f32[n], by: f32 -> f32[n]")
    said = help_of(op)
    assert f"calls shift(x, by, out) at {line_of(shift.py_func)}." in said
    assert "numba_kernel 'shift'\n      signature: x: f32[n], by: f32 -> out: f32[n]" in said
    assert "spec: 'OperationSpec'" not in said  # of the class, which nobody calls
    said = help_of(kernbridge.elementwise(halves))
    assert f"calls halves(x, n) at {line_of(halves)}." in said
    assert "outs: what the function returns" in said


def test_specifications_show_the_options_that_were_chosen():
    outs = {"sum": jax.ShapeDtypeStruct((), jnp.float32), "out": X, "n": np.zeros((2, 3), int)}

    def sums(x, out, sum, n):
        out[:], sum[()], n[:] = x, x.sum(), x.size

    op = kernbridge.numba_kernel(numba.njit(sums), outs, vmap_threads=False, jvp=halves_rule)
    assert repr(op.spec).splitlines() == [
        "numba_kernel 'sums'",
        "  outs: n: i64[2,3], out: f32[4], sum: f32[]",
        f"  jvp: halves_rule at {line_of(halves_rule)}",
        "  vmap_threads: False",
    ]
    rule = kernbridge.ShardingRule("i, -> i")
    op = kernbridge.numba_kernel(shift, lambda x, by: x, sharding_rule=rule)
    assert str(op.spec).splitlines()[1:] == [
        f"  outs: <lambda> at {line_of(op.spec.outs)}",
        f"  sharding_rule: {rule}",
    ]


def halves_rule(inputs, outputs, tangents):
    return outputs


def test_operations_in_notebooks():
    op = kernbridge.numba_kernel(shift, signature="x: f32[n], by: f32 -> f32[n]")
    shown = op._repr_html_()
    assert "numba_kernel &#x27;shift&#x27;" in shown
    assert "<td>output</td><td>out</td><td>f32[n]</td>" in shown
    explanation = kernbridge.explain(jax.jit(op), X, 1.0)
    assert "nothing is copied" in explanation._repr_html_()


def test_modules_and_plans():
    module = kernbridge.load_cpp_inline(
        "shown",
        """#include "kernbridge/kernbridge.hpp"
        // @BE twice arg:f32[n] ret:f32[n]
        void twice(kernbridge::Tensor x, kernbridge::Tensor out) {
            for (size_t i = 0; i < x.numel(); i++)
                out.data_ptr<float>()[i] = 2 * x.data_ptr<float>()[i];
        }""",
    )
    assert repr(module) == f"<module 'shown': {module.path}>\n  twice(arg:f32[n] ret:f32[n])"
    assert "<td>twice</td><td>arg:f32[n] ret:f32[n]</td>" in module._repr_html_()
    calls = "A JAX operation that calls twice at shown.cpp:3.\n"
    assert f"{calls}\n    arg:f32[n] ret:f32[n]\n" in help_of(module.twice)

    @kernbridge.kernel("x: f32[n] -> f32[n]", launch_dims="n")
    @cuda.jit
    def copied(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i]

    plan = copied.plan(X)
    assert "b0: input x, f32[1d]" in repr(plan)
    assert "<td>b0:</td><td>input x, f32[1d]</td>" in plan._repr_html_()


@pytest.mark.parametrize(
    ("median", "iqr", "text"),
    [
        (73.2e-6, 4.4e-6, "73 us +- 2"),
        (73.2e-6, 0.1e-6, "73.20 us +- 0.05"),
        (1.5, 0.0, "1.50 s +- 0.00"),
        (2.5e-3, 9e-3, "2 ms +- 4"),
        (412e-9, 60e-9, "412 ns +- 30"),
    ],
)
def test_measurements(median, iqr, text):
    figures = {"mean": 0, "std": 0, "min": 0, "max": 0, "quartiles": (0, 0)}
    assert (
        repr(
            kernbridge.benchmark.Measurement((median,), 1, None, median=median, iqr=iqr, **figures)
        )
        == text
    )


def test_records():
    record = kernbridge.BenchmarkRecord("cpu", "numba", "n8", median_ms=0.073, iqr_ms=0.004)
    assert repr(record) == "n8, numba on cpu: 73 us +- 2"
    shown = kernbridge.BenchmarkResult([record], "sin")._repr_html_()
    assert "<caption>sin</caption>" in shown
    assert "<td>73 us +- 2</td>" in shown
    assert repr(kernbridge.benchmark.measure(jnp.sin, data=(X,), n_runs=3)).count(" +- ") == 1


def test_the_log(caplog):
    caplog.set_level(logging.DEBUG, logger="kernbridge")

    def make(factor):
        @numba.njit
        def scaled(x, out):
            for i in range(x.size):
                out[i] = x[i] * factor

        return kernbridge.numba_kernel(scaled, signature="x: f32[n] -> f32[n]")

    factor = float(np.random.default_rng().random())
    make(factor)(X)
    said = caplog.text
    assert "compiled numba_kernel 'scaled' with Numba in " in said
    assert "kept numba_kernel 'scaled'" in said
    assert not [r for r in caplog.records if r.levelno > logging.INFO]


def test_only_classes_of_kernbridge_get_its_name():
    assert Iterable.__module__ == "collections.abc"  # by which typing recognises it
    assert kernbridge.KernelError.__module__ == "kernbridge"


# The names of kernels in JAX's programs, profiles and errors.


@numba.njit
def logs(x, out):
    for i in range(x.size):
        out[i] = np.log(x[i])


@functools.cache
def of_logs():
    custom = kernbridge.XLACustomKernel("of_logs")
    custom.def_numba_kernel(lambda **_: kernbridge.numba_kernel(logs, X))
    return custom


def ops_of_logs():
    like = jax.ShapeDtypeStruct((4,), jnp.float32)
    rule = {"vjp": lambda xs, _, cts: cts[0] / xs[0]}
    custom = of_logs()
    return {
        "logs": kernbridge.numba_kernel(logs, like, **rule),
        "of_numbers": kernbridge.elementwise(lambda x: np.log(x), name="of_numbers", **rule),
        "of_logs": lambda x: custom(x, outs=[like])[0],
    }


@pytest.mark.parametrize("name", ["logs", "of_numbers", "of_logs"])
def test_programs_have_the_names_of_kernels(name):
    op = ops_of_logs()[name]
    assert f" = {name}[" in str(jax.make_jaxpr(op)(X))
    text = jax.jit(lambda x: 2 * op(x)).lower(X).compile().as_text()
    kernel = "logs" if name == "of_logs" else name
    assert f"%{kernel}" in text  # the instruction, as profiles show it
    assert f'/{kernel}"' in text  # the end of its path


@pytest.mark.parametrize("name", ["logs", "of_numbers", "of_logs"])
def test_checks_of_nans_name_the_kernel(name):
    op = ops_of_logs()[name]
    checked = checkify.checkify(jax.jit(lambda x: op(x) > 0), checkify.float_checks)
    assert checked(X + 1)[0].get() is None
    assert f"nan generated by primitive: {name}" in checked(X - 1)[0].get()
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match=rf"in {name}\b"):
        jax.block_until_ready(op(X - 1))
