"""A cache that another thread or process clears between the build of a library and its use."""

import shutil

import jax
import kernbridge
import numpy as np
import pytest
from kernbridge._src.toolchain import build

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here"),
    pytest.mark.usefixtures("root"),
]
SOURCE = """
#include "kernbridge/kernbridge.hpp"
// @BE doubled arg ret
void doubled(const kernbridge::Tensor x, kernbridge::Tensor out) {
    for (int64_t i = 0; i < x.numel(); i++) out.data_ptr<float>()[i] = 2 * x.data_ptr<float>()[i];
}
"""


@pytest.fixture
def cleared(monkeypatch):
    """Clears the cache behind builds; holds how many of them are left that are treated so."""
    left = [1]
    find = build.build

    def build_and_clear(request):
        built = find(request)
        left[0] -= 1
        if left[0] >= 0:
            kernbridge.cache.clear_cache()
        return built

    monkeypatch.setattr(build, "build", build_and_clear)
    return left


@pytest.mark.brief
@pytest.mark.parametrize("carry", [False, True])
def test_the_library_is_built_again(carry, cleared):
    module = kernbridge.load_cpp_inline("cleared", SOURCE, carry=carry, force_rebuild=True)
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(
        module.doubled(x, outs=jax.ShapeDtypeStruct(x.shape, x.dtype)), 2 * x
    )


@pytest.mark.brief
@pytest.mark.parametrize("carry", [False, True])
def test_a_library_that_goes_again_and_again_is_an_error(carry, cleared):
    cleared[0] = 9
    with pytest.raises(
        kernbridge.KernelLoadError, match=r"There is no such file: correct the path.*\[KB5102\]"
    ):
        kernbridge.load_cpp_inline("cleared", SOURCE, carry=carry)
    assert cleared[0] == 6
