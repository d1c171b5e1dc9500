"""Outputs that are given as a dict reach the parameters of their names."""

from collections import OrderedDict, namedtuple

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest

N = 4
FLAT = jax.ShapeDtypeStruct((N,), jnp.float32)
V = np.arange(N, dtype=np.float32)
I = np.full(N, 2, np.float32)  # noqa: E741


@numba.njit
def lif(v, i, v_out, spikes):
    for k in range(v.size):
        v_out[k] = v[k] + 10 * i[k]
        spikes[k] = v[k] > 1


def _check(result, v=V):
    np.testing.assert_array_equal(result["v_out"], v + 20)
    np.testing.assert_array_equal(result["spikes"], (v > 1).astype(np.float32))


@pytest.mark.brief
@pytest.mark.parametrize("kind", [dict, OrderedDict])
@pytest.mark.parametrize("keys", [("v_out", "spikes"), ("spikes", "v_out")])
@pytest.mark.parametrize("as_function", [False, True])
def test_dict_is_matched_by_name(kind, keys, as_function):
    outs = kind((key, FLAT) for key in keys)
    op = kernbridge.numba_kernel(lif, (lambda v, i: outs) if as_function else outs)
    result = op(V, I)
    assert type(result) is kind
    _check(result)
    _check(jax.jit(op)(V, I))
    many = np.stack([V, V + 1, V - 1])
    batched = jax.vmap(op, in_axes=(0, None))(many, I)
    for row, v in enumerate(many):
        _check({key: value[row] for key, value in batched.items()}, v)


@pytest.mark.once
def test_nested_dicts_are_matched_by_name():
    @numba.njit
    def kernel(x, z, a, m):
        z[:], a[:], m[:] = x, 2 * x, 3 * x

    op = kernbridge.numba_kernel(kernel, {"q": {"z": FLAT, "m": FLAT}, "p": [{"a": FLAT}]})
    found = op(V)
    np.testing.assert_array_equal(found["q"]["z"], V)
    np.testing.assert_array_equal(found["p"][0]["a"], 2 * V)
    np.testing.assert_array_equal(found["q"]["m"], 3 * V)


def test_named_tuple_is_matched_by_name():
    Result = namedtuple("Result", "spikes v_out")
    found = kernbridge.numba_kernel(lif, Result(FLAT, FLAT))(V, I)
    assert type(found) is Result
    _check(found._asdict())


def test_named_tuple_of_other_names_is_matched_by_place():
    Result = namedtuple("Result", "first another")
    found = kernbridge.numba_kernel(lif, Result(FLAT, FLAT))(V, I)
    _check({"v_out": found.first, "spikes": found.another})


def test_keyword_scalars_are_no_outputs():
    @numba.njit
    def kernel(x, z, gain, a):
        z[:], a[:] = gain * x, x

    op = kernbridge.numba_kernel(kernel, {"z": FLAT, "a": FLAT})
    found = op(V, gain=np.float32(3))
    np.testing.assert_array_equal(found["z"], 3 * V)
    np.testing.assert_array_equal(found["a"], V)


def test_dtypes_and_shapes_go_with_the_names():
    @numba.njit
    def kernel(x, total, count):
        total[0], count[0, 0] = x.sum(), x.size

    outs = {
        "total": jax.ShapeDtypeStruct((1,), jnp.float32),
        "count": jax.ShapeDtypeStruct((1, 1), jnp.int32),
    }
    op = kernbridge.numba_kernel(kernel, outs)
    assert jax.eval_shape(op, V) == outs
    found = op(V)
    assert (found["total"][0], found["count"][0, 0]) == (V.sum(), N)


def test_other_names_in_another_order_are_refused_when_wrapped():
    with pytest.raises(ValueError, match=r"\[KB1003\]") as e:
        kernbridge.numba_kernel(lif, {"voltage": FLAT, "fired": FLAT})
    for part in ("'voltage', 'fired'", "sorted keys, 'fired', 'voltage'", "v_out", "pass a tuple"):
        assert part in str(e.value)


def test_other_names_in_another_order_are_refused_when_traced():
    op = kernbridge.numba_kernel(lif, lambda v, i: {"voltage": FLAT, "fired": FLAT})
    with pytest.raises(ValueError, match=r"\[KB1003\]"):
        op(V, I)


def test_other_names_in_sorted_order_are_matched_by_place():
    found = kernbridge.numba_kernel(lif, {"a": FLAT, "b": FLAT})(V, I)
    _check({"v_out": found["a"], "spikes": found["b"]})


def test_names_of_inputs_are_no_names_of_outputs():
    """Whose order is wrong is known only when the inputs are; the sorted one is as before."""

    @numba.njit
    def step(w, v, w_new, v_new):
        w_new[:], v_new[:] = w + 1, v + 2

    with pytest.raises(ValueError, match=r"\[KB1003\]"):
        kernbridge.numba_kernel(step, {"w": FLAT, "v": FLAT})(V, I)
    found = kernbridge.numba_kernel(step, {"v": FLAT, "w": FLAT})(V, I)
    np.testing.assert_array_equal(found["v"], V + 1)


def test_one_wrapping_does_not_excuse_the_next():
    @numba.njit
    def step(b, a, b_new, a_new):
        b_new[:], a_new[:] = b, a

    kernbridge.numba_kernel(step, {"a": FLAT, "b": FLAT})(V, I)
    with pytest.raises(ValueError, match=r"\[KB1003\]"):
        kernbridge.numba_kernel(step, {"b": FLAT, "a": FLAT})(V, I)


def test_a_name_at_the_place_of_another_is_refused():
    with pytest.raises(ValueError, match=r"'spikes'.*'v_out'.*\[KB1003\]"):
        kernbridge.numba_kernel(lif, OrderedDict(spikes=FLAT, other=FLAT))(V, I)


def test_keys_that_are_no_texts():
    with pytest.raises(ValueError, match=r"'2'.*'1'.*\[KB1003\]"):
        kernbridge.numba_kernel(lif, {2: FLAT, 1: FLAT})
    found = kernbridge.numba_kernel(lif, {1: FLAT, 2: FLAT})(V, I)
    _check({"v_out": found[1], "spikes": found[2]})


def test_aliases_count_outputs_as_the_kernel_does():
    @numba.njit
    def in_place(v, i, v_out, spikes):
        for k in range(v.size):
            spikes[k] = v_out[k] > 1  # v_out is v's memory
            v_out[k] += 10 * i[k]

    _check(
        kernbridge.numba_kernel(
            in_place, {"v_out": FLAT, "spikes": FLAT}, input_output_aliases={0: 0}
        )(V, I)
    )


@pytest.mark.exhaustive
def test_rules_get_and_give_the_dict():
    @numba.njit
    def kernel(x, z, a):
        z[:], a[:] = 2 * x, 3 * x

    def jvp(inputs, outputs, tangents):
        assert set(outputs) == {"z", "a"}
        return {"z": 2 * tangents[0], "a": 3 * tangents[0]}

    def vjp(inputs, outputs, cotangents):
        return (2 * cotangents["z"] + 3 * cotangents["a"],)

    outs = {"z": FLAT, "a": FLAT}
    both = kernbridge.numba_kernel(kernel, outs, jvp=jvp, vjp=vjp)
    tangents = jax.jvp(both, (V,), (np.ones(N, np.float32),))[1]
    np.testing.assert_array_equal(tangents["z"], np.full(N, 2))
    np.testing.assert_array_equal(tangents["a"], np.full(N, 3))
    for rules in ({"jvp": jvp}, {"vjp": vjp}, {"jvp": jvp, "vjp": vjp}):
        op = kernbridge.numba_kernel(kernel, outs, **rules)
        for key, slope in (("z", 2), ("a", 3)):
            gradient = jax.grad(lambda x, op=op, key=key: op(x)[key].sum())(V)
            np.testing.assert_array_equal(gradient, np.full(N, slope))
    np.testing.assert_array_equal(
        jax.vmap(jax.grad(lambda x: both(x)["z"].sum()))(np.stack([V, V])), np.full((2, N), 2)
    )


def test_functions_of_a_module():
    module = kernbridge.load_cpp_inline(
        "named_outputs",
        """
        #include "kernbridge/kernbridge.hpp"
        void f(const kernbridge::Tensor x, kernbridge::Tensor z, kernbridge::Tensor a) {
            for (int64_t i = 0; i < x.numel(); i++) {
                z.data_ptr<float>()[i] = 2 * x.data_ptr<float>()[i];
                a.data_ptr<float>()[i] = 3 * x.data_ptr<float>()[i];
            }
        }
        """,
        functions={"f": ["arg", "ret", "ret"]},
    )
    found = module.f(V, outs={"z": FLAT, "a": FLAT})
    np.testing.assert_array_equal(found["z"], 2 * V)
    np.testing.assert_array_equal(found["a"], 3 * V)
    with pytest.raises(ValueError, match=r"'z'.*'a'.*\[KB1003\]"):
        module.f(V, outs={"second": FLAT, "first": FLAT})


def test_custom_kernel_refuses_what_jax_reorders():
    op = kernbridge.XLACustomKernel("named_outputs_custom")
    op.def_numba_kernel(lambda outs, **_: kernbridge.numba_kernel(lif, outs))
    with pytest.raises(ValueError, match=r"\[KB1003\]"):
        op(V, I, outs={"v_out": FLAT, "spikes": FLAT})
    found = op(V, I, outs={"a": FLAT, "b": FLAT})
    _check({"v_out": found["a"], "spikes": found["b"]})


def test_cuda_kernels_and_callables():
    from numba import cuda

    @cuda.jit
    def kernel(x, z, a):
        i = cuda.grid(1)
        if i < x.size:
            z[i], a[i] = 2 * x[i], 3 * x[i]

    def function(x, z, a, stream):
        kernel[1, 32, stream](x, z, a)

    outs = {"z": FLAT, "a": FLAT}
    for op in (
        kernbridge.numba_cuda_kernel(kernel, outs, launch_dims=N),
        kernbridge.numba_cuda_callable(function, outs),
    ):
        found = op(V)
        np.testing.assert_array_equal(found["z"], 2 * V)
        np.testing.assert_array_equal(found["a"], 3 * V)
    for wrap in (
        lambda outs: kernbridge.numba_cuda_kernel(kernel, outs, launch_dims=N),
        lambda outs: kernbridge.numba_cuda_callable(function, outs),
        lambda outs: kernbridge.cuda_kernel(
            "__global__ void f(const float *x, float *z, float *a) {}", "f", outs, launch_dims=N
        ),
    ):
        with pytest.raises(ValueError, match=r"\[KB1003\]"):
            wrap({"second": FLAT, "first": FLAT})
