"""Enzyme's derivatives of drawn programs, against JAX's own of the same programs."""

import programs
import pytest
from needs_enzyme import needs_enzyme

pytestmark = needs_enzyme  # also with the oldest JAX and Numba


@pytest.mark.brief
@pytest.mark.parametrize("seed", range(4))
def test_a_program(seed):
    programs.compare(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(20))
def test_a_thousand_programs(block):
    for seed in range(50 * block, 50 * block + 50):
        programs.compare(seed)
