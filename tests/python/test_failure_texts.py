"""The text of a failure arrives whatever its bytes are: what is not UTF-8 is written as \\xNN."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel

SOURCE = r"""
#include <kernbridge/kernbridge.hpp>
#include <stdexcept>
#include <string>

// @BE fails ret attr.how
int fails(kernbridge::Tensor out, int how) {
    const kb_call *call = kernbridge::detail::current();
    std::string many(3000, 'x');
    for (size_t i = 1; i + 1 < many.size(); i += 2)
        many[i] = '\xc3', many[i + 1] = '\xa9';
    switch (how) {
    case 0: throw std::runtime_error("latin-1: caf\xe9, done");
    case 1: throw kernbridge::Error("cut: \xe2\x82", KB_NOT_FOUND);
    case 2: return kb_fail(call, KB_INTERNAL, "zero '%c' one '\x01' caf%c", 0, 0xe9);
    case 3: throw std::runtime_error(many);
    case 4: KB_CHECK(false) << "zero '" << '\0' << "', " << many.c_str(); return 0;
    default: throw std::runtime_error("surrogate \xed\xa0\x80, overlong \xc0\x80, ok \xe2\x82\xac");
    }
}
"""

HOW = [
    r"latin-1: caf\xe9, done",
    r"cut: \xe2\x82",
    "zero '\\x00' one '\x01' caf\\xe9",
    "xéé",
    r"zero '\x00', xéé",
    r"surrogate \xed\xa0\x80, overlong \xc0\x80, ok €",
]


@pytest.mark.parametrize("how", range(len(HOW)))
def test_a_function_of_a_module(how):
    module = kernbridge.load_cpp_inline("test_failure_texts", SOURCE)
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(module.fails(outs=jax.ShapeDtypeStruct((), jnp.int32), how=how))
    text = str(caught.value)
    assert "fails" in text
    assert HOW[how] in text
    if "xéé" in HOW[how]:  # it is cut between two characters
        assert set(text.split("xéé")[1].split("\n")[0].removesuffix(" [KB3005]")) == {"é"}


@numba.njit
def surrogate(x, out):
    if x[0] > 0:
        raise ValueError("name \udce9 and \0 zero, €")
    out[0] = x[0]


@numba.njit
def in_object_mode(x, out):
    with numba.objmode():
        raise_at_run_time()
    out[0] = x[0]


def raise_at_run_time():
    raise ValueError("name " + bytes([0xE9]).decode("utf-8", "surrogateescape") + " and \0 zero, €")


@pytest.mark.parametrize("kernel", [surrogate, in_object_mode])
def test_a_numba_kernel(kernel):
    op = numba_kernel(kernel, jax.ShapeDtypeStruct((1,), jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(op(jnp.ones(1)))
    assert "ValueError: name \\udce9 and \\x00 zero, €" in str(caught.value)


def test_success_is_as_before():
    op = numba_kernel(surrogate, jax.ShapeDtypeStruct((1,), jnp.float32))
    np.testing.assert_array_equal(op(-jnp.ones(1)), [-1])
