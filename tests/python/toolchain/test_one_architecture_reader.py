"""Every front end compiles for the same GPUs, whichever variable names them."""

import pytest
from kernbridge import config
from kernbridge._src.base.errors import UnsupportedArchError
from kernbridge._src.toolchain import architectures, cuda

pytestmark = pytest.mark.once

VARIABLES = (
    "KERNBRIDGE_CUDA_ARCHS",
    "KERNBRIDGE_COMPUTE_CAPABILITIES",
    "BRAINEVENT_COMPUTE_CAPABILITIES",
)


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    config.set_cuda_architectures(None)


def both():
    """What Numba-CUDA and NVRTC compile for, and what nvcc compiles for."""
    nvcc = architectures.cuda_architectures()
    return cuda.architectures(), tuple((major, minor) for major, minor, _ in nvcc)


@pytest.mark.parametrize("name", VARIABLES)
def test_each_variable_reaches_every_front_end(monkeypatch, name):
    monkeypatch.setenv(name, "8.6, sm_90")
    assert both() == (((8, 6), (9, 0)),) * 2
    assert architectures.chosen() == ((8, 6, ""), (9, 0, ""))


@pytest.mark.parametrize("first", range(len(VARIABLES)))
def test_one_precedence(monkeypatch, first):
    for i, name in enumerate(VARIABLES[first:]):
        monkeypatch.setenv(name, f"{7 + i}.0")
    assert both() == (((7, 0),),) * 2
    config.set_cuda_architectures("12.0")
    assert both() == (((12, 0),),) * 2


@pytest.mark.parametrize("name", VARIABLES)
def test_an_empty_variable_is_none(monkeypatch, name):
    monkeypatch.setenv(VARIABLES[-1], "8.0")
    if name != VARIABLES[-1]:
        monkeypatch.setenv(name, " ")
    assert both() == (((8, 0),),) * 2


@pytest.mark.parametrize("reader", [cuda.architectures, architectures.cuda_architectures])
def test_the_same_errors(monkeypatch, reader):
    monkeypatch.setenv(VARIABLES[0], "sm_x")
    with pytest.raises(
        ValueError, match="KERNBRIDGE_CUDA_ARCHS: 'sm_x' is not a compute capability"
    ):
        reader()
    monkeypatch.setenv(VARIABLES[0], "3.5")
    with pytest.raises(UnsupportedArchError, match=r"KERNBRIDGE_CUDA_ARCHS: .* 3\.5 is older"):
        reader()


def test_suffixes_are_for_cuda_sources(monkeypatch):
    monkeypatch.setenv(VARIABLES[0], "9.0a,9.0")
    assert cuda.architectures() == ((9, 0),)
    assert architectures.cuda_architectures() == ((9, 0, ""), (9, 0, "a"))
