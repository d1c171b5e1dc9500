"""kernbridge.explain: copies, gathers and donations of compiled programs."""

import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from kernels import double

HERE = Path(__file__).name
SHAPE = jax.ShapeDtypeStruct((256,), jnp.float32)
SHAPE_TURNED = jax.ShapeDtypeStruct((4, 8), jnp.float32)
MATRIX = jax.ShapeDtypeStruct((8, 4), jnp.float32)


@numba.njit
def increment(_x, x):
    for i in range(x.size):
        x[i] += 1


@numba.njit
def double_matrix(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = 2 * x[i, j]


in_place = kernbridge.numba_kernel(increment, SHAPE, input_output_aliases={0: 0})
apart = kernbridge.numba_kernel(double, SHAPE)
matrices = kernbridge.numba_kernel(double_matrix, MATRIX)


def kinds(explanation):
    return [finding.kind for finding in explanation.findings]


def line_of(text):
    lines = Path(__file__).read_text().splitlines()
    return f"{HERE}:{1 + next(i for i, line in enumerate(lines) if text in line)}"


def test_a_loop_of_unknown_length_makes_the_executions_unknown():
    def until(x):
        return jax.lax.while_loop(lambda x: x[0] < 5, lambda x: in_place(x) + x, x)  # the loop

    (finding,) = kernbridge.explain(jax.jit(until, donate_argnums=0), SHAPE).findings
    assert (finding.kind, finding.executions) == ("copy", None)
    assert finding.where == line_of("# the loop") or "kernbridge_call" in finding.where  # JAX 0.8
    assert "(an unknown number of times)" in str(finding)


def test_calls_in_branches_are_seen():
    def either(x):
        return jax.lax.cond(x[0] > 0, apart, lambda x: apart(in_place(x)) + x, x)

    assert kinds(kernbridge.explain(jax.jit(either), SHAPE)) == ["copy"]


def test_a_copy_before_a_call_in_place_goes_away_by_donation():
    found = kernbridge.explain(jax.jit(in_place), SHAPE)
    (finding,) = found.findings
    assert (finding.kind, finding.n_bytes, finding.executions) == ("copy", 1024, 1)
    assert "copies input 0 of numba_kernel 'increment', f32[256] (1,024 bytes)" in finding.text
    assert "the caller keeps the argument" in finding.text
    assert "Donate the argument" in finding.remedy
    assert not kernbridge.explain(jax.jit(in_place, donate_argnums=0), SHAPE).findings


def test_a_copy_in_every_turn_of_a_loop_counts_its_turns():
    def loop(x):
        return jax.lax.fori_loop(0, 50, lambda i, x: in_place(x) + x, x)

    found = kernbridge.explain(jax.jit(loop, donate_argnums=0), SHAPE)
    (finding,) = found.findings
    assert (finding.kind, finding.executions) == ("copy", 50)
    assert "the state of the loop is used again" in finding.text
    assert "(50 times)" in str(found)


def test_a_constant_is_copied():
    constant = np.random.default_rng(0).random(256, np.float32)
    (finding,) = kernbridge.explain(jax.jit(lambda: in_place(constant))).findings
    assert (finding.kind, finding.n_bytes) == ("copy", 1024)
    assert "in place on a constant" in finding.text


def test_transposes_on_both_sides_are_found():
    def transposed(x):
        return matrices(x.T).T

    found = kernbridge.explain(jax.jit(transposed), jax.ShapeDtypeStruct((4, 8), jnp.float32))
    assert kinds(found) == ["transpose", "transpose"]
    assert {f.n_bytes for f in found.findings} == {128}
    text = str(found)
    text = " ".join(text.split())
    assert "input 0 of numba_kernel 'double_matrix', f32[8,4] (128 bytes)" in text
    assert "a result of numba_kernel 'double_matrix'" in text


def test_donations_without_effect_are_findings_and_no_warnings():
    def both(state, y):
        return apart(state["x"]), y.sum()

    jitted = jax.jit(both, donate_argnums=(0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = kernbridge.explain(jitted, {"x": SHAPE}, jax.ShapeDtypeStruct((4,), jnp.float32))
    (finding,) = found.findings
    assert finding.kind == "donation"
    assert "The donated argument args[1], f32[4], is not reused" in finding.text


def test_donations_of_unused_arguments_are_found():
    def first(x, unused, y):
        return apart(x), y.sum()

    jitted = jax.jit(first, donate_argnums=(0, 1))
    found = kernbridge.explain(jitted, SHAPE, jax.ShapeDtypeStruct((7,), jnp.int32), SHAPE)
    (finding,) = found.findings
    assert "args[1], i32[7]" in finding.text


def test_gathers_are_findings_and_no_warnings():
    mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
    x = jax.device_put(jnp.ones(256), NamedSharding(mesh, PartitionSpec("d")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = kernbridge.explain(jax.jit(apart), x)
    (finding,) = found.findings
    assert finding.kind == "gather"
    assert "gathers input 0 of numba_kernel 'double', f32[256]" in finding.text
    assert "sharding_rule=" in finding.remedy
    declared = kernbridge.numba_kernel(double, SHAPE, sharding_rule="i -> i")
    found = kernbridge.explain(jax.jit(declared), x)
    assert not found.findings


def test_nothing_of_kernbridge_is_nothing_to_report():
    found = kernbridge.explain(jax.jit(lambda x: x + 1), SHAPE)
    assert found.findings == ()
    assert (
        repr(found)
        == str(found)
        == ("<lambda>:\n- nothing is copied, transposed or gathered next to a kernel")
    )


def test_what_cannot_be_lowered_raises_its_own_error():
    with pytest.raises(TypeError, match=r"\[KB2001\]"):
        kernbridge.explain(jax.jit(apart), SHAPE, SHAPE)


def test_what_an_operation_of_several_backends_calls_is_seen():
    several = kernbridge.XLACustomKernel("explained")
    several.def_numba_kernel(lambda outs: kernbridge.numba_kernel(double_matrix, outs))
    found = kernbridge.explain(jax.jit(lambda x: several(x.T, outs=MATRIX)), SHAPE_TURNED)
    assert kinds(found) == ["transpose"]
    assert "input 0 of numba_kernel 'double_matrix'" in found.findings[0].text
