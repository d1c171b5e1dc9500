"""C++ modules built with check=True: an index out of bounds is an error, not a wrong number."""

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytestmark = pytest.mark.once

FLAT = jax.ShapeDtypeStruct((4,), jnp.float32)
X = np.arange(4, dtype=np.float32)
SOURCE = """
#include <algorithm>
#include <vector>
#include "kernbridge/kernbridge.hpp"

// @BE reads arg ret attr.n:int64
void reads(const kernbridge::Tensor x, kernbridge::Tensor y, int64_t n) {
    auto from = x.data_ptr<float>();
    for (int64_t i = 0; i < n; i++)
        y.data_ptr<float>()[0] += from[i];
}

// @BE walks arg ret attr.n:int64
void walks(const kernbridge::Tensor x, kernbridge::Tensor y, int64_t n) {
    auto to = y.data_ptr<float>();
    std::fill(to, to + 4, 1.0f);
    auto last = to + 3;
    *(last - n) = 5.0f;
    kernbridge::parallel_for(n, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++)
            to[i] = x.data_ptr<float>()[i];
    });
}

// @BE library arg ret attr.n:int64
void library(const kernbridge::Tensor x, kernbridge::Tensor y, int64_t n) {
    std::vector<float> values(4, 2.0f);
    const float *plain = x.data_ptr<float>();
    y.data_ptr<float>()[0] = values[n] + plain[0];
}

// @BE in_threads arg ret attr.n:int64
void in_threads(const kernbridge::Tensor x, kernbridge::Tensor y, int64_t n) {
    std::vector<float> values(4, 2.0f);
    kernbridge::parallel_for(n, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++)
            y.data_ptr<float>()[i % 4] = values[i];
    });
}
"""


@pytest.fixture(scope="module")
def module():
    with pytest.warns(
        kernbridge.KernbridgeWarning, match=r"which checked_module\.cpp:28 take from"
    ):
        return kernbridge.load_cpp_inline("checked_module", SOURCE, check=True)


def fails(function, n):
    with pytest.raises(jax.errors.JaxRuntimeError) as e:
        jax.block_until_ready(function(X, outs=FLAT, n=n))
    return str(e.value)


def test_reads(module):
    message = fails(module.reads, 5)
    assert (
        "load_cpp_inline 'checked_module.reads': element 4 is out of bounds for the tensor 'x' of "
        "4 elements (data_ptr at checked_module.cpp:8)" in message
    )
    module.reads(X, outs=FLAT, n=4)


def test_iterators_arithmetic_and_threads(module):
    assert "element -1 is out of bounds for the tensor 'y'" in fails(module.walks, 4)
    assert "element -2 is out of bounds for the tensor 'y'" in fails(module.walks, 5)
    np.testing.assert_array_equal(module.walks(X, outs=FLAT, n=2), [0, 1, 1, 1])


def test_assertions_of_the_library(module):
    for function in (module.library, module.in_threads):
        message = fails(function, 9)
        assert "an assertion of the C++ library failed: __n < this->size() in" in message
        assert "vector" in message
    assert module.library(X, outs=FLAT, n=3)[0] == 2


def test_unchecked_modules_have_plain_pointers():
    source = """
    #include "kernbridge/kernbridge.hpp"
    // @BE copy arg ret
    void copy(const kernbridge::Tensor x, kernbridge::Tensor y) {
        static_assert(sizeof(x.data_ptr<float>()) == sizeof(float *), "");
        *y.data_ptr<float>() = *x.data_ptr<float>();
    }
    """
    kernbridge.load_cpp_inline("unchecked_module", source)


def test_c_has_no_checks():
    with pytest.raises(TypeError, match=r"load_c_inline.*'check'.*\[KB5105\]"):
        kernbridge.load_c_inline("c_module", "", check=True)
