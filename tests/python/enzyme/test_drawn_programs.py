"""Enzyme's derivatives of drawn programs, against JAX's own of the same programs."""

import jax
import numpy as np
import programs
import pytest
from kernbridge import numba_kernel
from needs_enzyme import assert_derivatives, needs_enzyme

pytestmark = [pytest.mark.once, needs_enzyme]
S = jax.ShapeDtypeStruct


def compare(seed, dtype):
    kernel, reference, source = programs.draw(seed)

    def outs(x, y, at):
        return S(x.shape, x.dtype), S((1,), x.dtype)

    op = numba_kernel(kernel, outs, derivatives="enzyme")
    try:
        with jax.enable_x64(True):
            assert_derivatives(op, reference, *programs.arguments(seed, dtype), seed=seed)
    except Exception as e:
        e.add_note(source)
        raise


@pytest.mark.parametrize("seed", range(3))
def test_a_program(seed):
    compare(seed, "float64")


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(20))
def test_a_thousand_programs(block):
    for seed in range(50 * block, 50 * block + 50):
        compare(seed, "float64" if np.random.default_rng(seed).random() < 0.8 else "float32")
