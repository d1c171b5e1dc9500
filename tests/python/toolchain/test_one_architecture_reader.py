"""Every front end compiles for the same GPUs, whichever variable names them."""

import re

import kernbridge
import kernbridge._core as _core
import pytest
from kernbridge import config
from kernbridge._src.plan import targets
from kernbridge.errors import CompilationError, UnsupportedArchError

pytestmark = pytest.mark.once

VARIABLES = (
    "KERNBRIDGE_CUDA_ARCHS",
    "KERNBRIDGE_COMPUTE_CAPABILITIES",
    "BRAINEVENT_COMPUTE_CAPABILITIES",
)
SOURCE = "// @BE f arg ret stream\nvoid f(BE::Tensor x, BE::Tensor out, int64_t stream) {}\n"


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    config.set_cuda_architectures(None)


def of_numba():
    """What Numba-CUDA and NVRTC compile for."""
    return targets.of_platform("cuda").architectures


@pytest.fixture
def of_nvcc(root, tmp_path, monkeypatch):
    """What nvcc is asked for; this one only writes down its command."""
    nvcc, log = tmp_path / "bin" / "nvcc", tmp_path / "log"
    nvcc.parent.mkdir()
    version = "echo Cuda compilation tools, release 13.0, V13.0.88"
    nvcc.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {version} && exit\necho "$@" > {log}\nexit 1\n'
    )
    nvcc.chmod(0o755)
    monkeypatch.setenv("KERNBRIDGE_NVCC_PATH", str(nvcc))

    def flags(architectures=None):
        with pytest.raises(CompilationError):
            kernbridge.load_cuda_inline("m", SOURCE, compute_capability=architectures)
        return re.findall(r"-arch=\S+|(?<=-gencode arch=)\S+", log.read_text())

    return flags


def gencode(*names):
    """Machine code for each, and PTX of the last."""
    virtual = [name.replace("sm_", "compute_") for name in names]
    *first, last = (f"{v},code={n}" for v, n in zip(virtual, names, strict=True))
    return [*first, f"{virtual[-1]},code=[{names[-1]},{virtual[-1]}]"] if last else []


@pytest.mark.parametrize("name", VARIABLES)
def test_each_variable_reaches_every_front_end(monkeypatch, of_nvcc, name):
    monkeypatch.setenv(name, "8.6, sm_90")
    assert of_numba() == ((8, 6), (9, 0))
    assert of_nvcc() == gencode("sm_86", "sm_90")


@pytest.mark.parametrize("first", range(len(VARIABLES)))
def test_one_precedence(monkeypatch, of_nvcc, first):
    for i, name in enumerate(VARIABLES[first:]):
        monkeypatch.setenv(name, f"{7 + i}.5")
    assert of_numba() == ((7, 5),)
    assert of_nvcc() == gencode("sm_75")
    config.set_cuda_architectures("12.0")
    assert of_numba() == ((12, 0),)
    assert of_nvcc() == gencode("sm_120")
    assert of_nvcc("9.0a") == gencode("sm_90a")  # the argument of a load is stronger


@pytest.mark.parametrize("name", VARIABLES)
def test_an_empty_variable_is_none(monkeypatch, name):
    monkeypatch.setenv(VARIABLES[-1], "8.0")
    if name != VARIABLES[-1]:
        monkeypatch.setenv(name, " ")
        assert of_numba() == ((8, 0),)


def test_the_same_errors(monkeypatch, of_nvcc):
    for reader in (of_numba, of_nvcc):
        monkeypatch.setenv(VARIABLES[0], "sm_x")
        with pytest.raises(ValueError, match=r"KERNBRIDGE_CUDA_ARCHS: 'sm_x' .*\[KB8002\]"):
            reader()
        monkeypatch.setenv(VARIABLES[0], "3.5")
        with pytest.raises(UnsupportedArchError, match=r"KERNBRIDGE_CUDA_ARCHS: .*\[KB4009\]"):
            reader()


def test_suffixes_are_for_cuda_sources(monkeypatch, of_nvcc):
    monkeypatch.setenv(VARIABLES[0], "9.0a,9.0")
    assert of_numba() == ((9, 0),)
    assert of_nvcc() == gencode("sm_90", "sm_90a")


def test_the_gpus_of_this_machine(monkeypatch, of_nvcc):
    monkeypatch.setattr(_core, "device_count", lambda: (0, "none"))
    assert of_numba() == ((8, 0), (9, 0), (10, 0), (12, 0))
    assert of_nvcc() == ["-arch=all-major"]
    monkeypatch.setattr(_core, "device_count", lambda: (3, ""))
    monkeypatch.setattr(_core, "compute_capability", lambda i: [(9, 0), (8, 0), (9, 0)][i])
    assert of_numba() == ((8, 0), (9, 0))
    assert of_nvcc() == gencode("sm_80", "sm_90")


def test_the_settings_are_one(of_nvcc):
    config.set_compute_capability(["9.0a"])
    assert of_nvcc() == gencode("sm_90a")
    assert config.get_compute_capability() == ["sm_90a"]
    assert config.get_cuda_architectures() == ((9, 0),)
    config.set_cuda_architectures("8.0")
    assert config.get_compute_capability() == ["sm_80"]
    config.set_compute_capability(None)
    assert config.get_compute_capability() is None


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        (8.6, ["sm_86"]),
        (10.0, ["sm_100"]),
        ("8.6", ["sm_86"]),
        (86, ["sm_86"]),
        (120, ["sm_120"]),
        ("sm_86", ["sm_86"]),
        ("compute_100", ["sm_100"]),
        ("9.0a", ["sm_90a"]),
        ("sm_100f", ["sm_100f"]),
        (["9.0", 80, "sm_90"], ["sm_90", "sm_80"]),
        ("9.0, 8.0;7.5", ["sm_90", "sm_80", "sm_75"]),
    ],
)
def test_spellings_of_architectures(spelling, expected):
    config.set_compute_capability(spelling)
    assert config.get_compute_capability() == expected


@pytest.mark.parametrize("spelling", ["", "nine", [], [[]], "9.0b", "sm_9", True, "9.0,,8", 8.65])
def test_what_is_no_architecture(spelling):
    with pytest.raises(ValueError, match=r"\[KB8001\]"):
        config.set_compute_capability(spelling)


def test_architectures_that_are_too_old():
    for spelling in ("3.5", 20, 12):
        with pytest.raises(UnsupportedArchError, match=r"\[KB4009\]"):
            config.set_compute_capability(spelling)
