"""Which compilers are found, in which order, and what a miss says."""

import os
import sys

import kernbridge._core as _core
import pytest
from kernbridge import config
from kernbridge._src.base.errors import (
    HostCompilerNotFoundError,
    KernelToolchainError,
    NvccNotFoundError,
    UnsupportedArchError,
)
from kernbridge._src.toolchain import architectures, compilers, nvcc

pytestmark = pytest.mark.once

VARIABLES = (
    *("CC", "CXX", "CONDA_PREFIX", "KERNBRIDGE_NVCC_PATH", "BRAINEVENT_NVCC_PATH", "CUDA_HOME"),
    *("CUDA_PATH", "KERNBRIDGE_NVCC_PREFER", "BRAINEVENT_NVCC_PREFER", *architectures.VARIABLES),
)


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """Nothing is chosen, and PATH has one folder."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])


def program(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_order_of_host_compilers(tmp_path, monkeypatch):
    with pytest.raises(HostCompilerNotFoundError):
        compilers.find_cxx()
    machine = os.uname().machine
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    conda = tmp_path / "conda" / "bin"
    for path in (
        tmp_path / "path" / "clang++",
        tmp_path / "path" / "c++",
        tmp_path / "path" / "g++",
        conda / "g++",
        conda / f"{machine}-conda-linux-gnu-g++",
    ):
        program(path)
        assert compilers.find_cxx().path == str(path)
    other = program(tmp_path / "other" / "icpx")
    monkeypatch.setenv("CXX", str(other))
    assert compilers.find_cxx().path == str(other)


def test_the_order_of_c_compilers(tmp_path, monkeypatch):
    for name in ("clang", "cc", "gcc"):
        path = program(tmp_path / "path" / name)
        assert compilers.find_c().path == str(path)
    monkeypatch.setenv("CC", "clang -m64")
    assert compilers.find_c().path == str(tmp_path / "path" / "clang")
    assert compilers.find_c().arguments == ("-m64",)


def test_launchers(tmp_path, monkeypatch):
    ccache, gxx = program(tmp_path / "path" / "ccache"), program(tmp_path / "path" / "g++")
    monkeypatch.setenv("CXX", "ccache g++ '-DA=b c'")
    found = compilers.find_cxx()
    assert found.command == (str(ccache), str(gxx), "-DA=b c")
    assert (found.path, found.arguments) == (str(gxx), ("-DA=b c",))
    assert found.tools == (str(ccache), str(gxx))
    links = tmp_path / "links"
    links.mkdir()
    (links / "g++").symlink_to(ccache)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", f"{links}{os.pathsep}{tmp_path / 'path'}")
    found = compilers.find_cxx()
    assert found.command == (str(links / "g++"),)
    assert found.tools == (str(ccache), str(gxx))  # a new g++ behind ccache is a new compiler


def test_host_compilers_that_are_missing(tmp_path, monkeypatch):
    program(tmp_path / "path" / "g++").chmod(0o644)
    (tmp_path / "path" / "c++").mkdir()
    with pytest.raises(HostCompilerNotFoundError) as caught:
        compilers.find_cxx()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("no C++ compiler")
    probes = [line.strip(" -") for line in lines if line.startswith("  - ")]
    assert [p.split()[0] for p in probes] == ["CXX:", "CONDA_PREFIX:", "g++", "c++", "clang++"]
    assert any(line.startswith("  1. ") for line in lines)
    program(tmp_path / "path" / "g++")
    assert compilers.find_cxx().path == str(tmp_path / "path" / "g++")  # a miss is not kept
    for value in ("/no/such/g++", "ccache /no/such/g++", "nothing"):
        monkeypatch.setenv("CXX", value)
        with pytest.raises(HostCompilerNotFoundError, match=f"CXX={value}".replace("+", r"\+")):
            compilers.find_cxx()
    monkeypatch.setenv("CXX", "")
    assert compilers.find_cxx().path == str(tmp_path / "path" / "g++")


def toolkit(root, *parts):
    for part in ("bin/nvcc", *parts):
        program(root / part)
    return str(root / "bin" / "nvcc")


def test_the_order_of_nvcc(tmp_path, monkeypatch):
    site = tmp_path / "site" / "nvidia"
    (tmp_path / "path").rmdir()
    toolkit(tmp_path / "system")
    (tmp_path / "path").symlink_to(tmp_path / "system" / "bin")
    on_path = str(tmp_path / "path" / "nvcc")
    assert nvcc.find_nvcc().path == on_path
    for name in ("cuda_nvcc", "cu13", "cu100"):
        path = toolkit(site / name)
        assert nvcc.find_nvcc().path == path
    config.prefer_system_nvcc(True)
    try:
        assert nvcc.find_nvcc().path == on_path
        monkeypatch.setenv("KERNBRIDGE_NVCC_PREFER", "pip")
        assert nvcc.find_nvcc().path == on_path  # the setting is stronger
    finally:
        config.prefer_system_nvcc(None)
    assert nvcc.find_nvcc().path != on_path
    monkeypatch.setenv("KERNBRIDGE_NVCC_PREFER", "system")
    assert nvcc.find_nvcc().path == on_path
    monkeypatch.setenv("KERNBRIDGE_NVCC_PREFER", "mine")
    with pytest.raises(ValueError, match="KERNBRIDGE_NVCC_PREFER is 'mine'"):
        nvcc.find_nvcc()
    monkeypatch.delenv("KERNBRIDGE_NVCC_PREFER")
    for name in ("CUDA_PATH", "CUDA_HOME"):
        path = toolkit(tmp_path / name)
        monkeypatch.setenv(name, str(tmp_path / name))
        assert nvcc.find_nvcc().path == path
    for name in ("BRAINEVENT_NVCC_PATH", "KERNBRIDGE_NVCC_PATH"):
        path = toolkit(tmp_path / name)
        monkeypatch.setenv(name, path)
        assert nvcc.find_nvcc().path == path


def test_nvcc_that_is_named_and_missing(tmp_path, monkeypatch):
    toolkit(tmp_path / "site" / "nvidia" / "cu13")
    for name in ("CUDA_PATH", "CUDA_HOME", "KERNBRIDGE_NVCC_PATH"):
        monkeypatch.setenv(name, "/no/such/place")
        with pytest.raises(NvccNotFoundError, match=f"{name}=/no/such/place"):
            nvcc.find_nvcc()


def test_nvcc_that_is_nowhere(monkeypatch):
    real = nvcc.is_program
    monkeypatch.setattr(
        nvcc, "is_program", lambda p: not p.startswith("/usr/local/cuda") and real(p)
    )
    with pytest.raises(NvccNotFoundError) as caught:
        nvcc.find_nvcc()
    text = str(caught.value)
    assert isinstance(caught.value, KernelToolchainError)
    wanted = [
        *("no CUDA compiler", "KERNBRIDGE_NVCC_PATH: not set", "BRAINEVENT_NVCC_PATH: not set"),
        *("CUDA_HOME: not set", "CUDA_PATH: not set", "wheels of NVIDIA", "nvcc on PATH"),
        *("/usr/local/cuda/bin/nvcc: no such program", "1. pip install", "4. set its path"),
    ]
    places = [text.index(part) for part in wanted]
    assert places == sorted(places)


def test_the_parts_of_a_toolkit(tmp_path, monkeypatch):
    root = tmp_path / "cuda-99"
    path = toolkit(root, "bin/ptxas", "bin/cudafe++", "nvvm/bin/cicc", "lib64/libcudart.so")
    (tmp_path / "cuda").symlink_to(root)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    found = nvcc.find_nvcc()
    assert found.path == str(tmp_path / "cuda" / "bin" / "nvcc")
    assert found.tools == (
        *(path, str(root / "bin" / "ptxas"), str(root / "bin" / "cudafe++")),
        str(root / "nvvm" / "bin" / "cicc"),
    )
    assert found.cudart == str(root / "lib64" / "libcudart.so")
    assert found.include_dirs == ()


def test_the_parts_of_wheels(tmp_path):
    site = tmp_path / "site" / "nvidia"
    toolkit(site / "cuda_nvcc", "include/x.h")
    program(site / "cuda_runtime" / "include" / "cuda_runtime.h")
    program(site / "cuda_cccl" / "include" / "x.h")
    cudart = program(site / "cuda_runtime" / "lib" / "libcudart.so.12")
    found = nvcc.find_nvcc()
    assert found.include_dirs == tuple(
        str(site / part / "include") for part in ("cuda_runtime", "cuda_nvcc", "cuda_cccl")
    )
    assert found.cudart == str(cudart)
    assert found.library_dirs == (str(cudart.parent),)


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        (8.6, [(8, 6, "")]),
        (10.0, [(10, 0, "")]),
        ("8.6", [(8, 6, "")]),
        (86, [(8, 6, "")]),
        (120, [(12, 0, "")]),
        ("sm_86", [(8, 6, "")]),
        ("compute_100", [(10, 0, "")]),
        ("9.0a", [(9, 0, "a")]),
        ("sm_100f", [(10, 0, "f")]),
        (["9.0", 80, "sm_90"], [(8, 0, ""), (9, 0, "")]),
        ("9.0, 8.0;7.5", [(7, 5, ""), (8, 0, ""), (9, 0, "")]),
    ],
)
def test_spellings_of_architectures(spelling, expected):
    assert architectures.cuda_architectures(spelling) == tuple(expected)


@pytest.mark.parametrize("spelling", ["", "nine", [], [[]], "9.0b", "sm_9", True, "9.0,,8", 8.65])
def test_what_is_no_architecture(spelling):
    with pytest.raises(ValueError, match=r"\[KB8001\]"):
        architectures.cuda_architectures(spelling)


def test_architectures_that_are_too_old():
    for spelling in ("3.5", 20, 12):
        with pytest.raises(UnsupportedArchError, match="older than"):
            architectures.cuda_architectures(spelling)


def test_who_chooses_the_architectures(monkeypatch):
    monkeypatch.setattr(_core, "device_count", lambda: (0, "none"))
    assert architectures.cuda_architectures() == ()
    monkeypatch.setattr(_core, "device_count", lambda: (3, ""))
    monkeypatch.setattr(_core, "compute_capability", lambda i: [(9, 0), (8, 0), (9, 0)][i])
    assert architectures.cuda_architectures() == ((8, 0, ""), (9, 0, ""))
    for name, text in zip(reversed(architectures.VARIABLES), ("7.5", "8.6", "8.9"), strict=True):
        monkeypatch.setenv(name, text)
        assert architectures.cuda_architectures() == architectures.cuda_architectures(text)
    config.set_compute_capability(["9.0a"])
    try:
        assert architectures.cuda_architectures() == ((9, 0, "a"),)
        assert architectures.cuda_architectures("12.0") == ((12, 0, ""),)
        assert config.get_compute_capability() == ["sm_90a"]
        assert config.get_cuda_architectures() == ((9, 0),)
        config.set_cuda_architectures("8.0")
        assert config.get_compute_capability() == ["sm_80"]
    finally:
        config.set_compute_capability(None)
    assert config.get_compute_capability() is None
    monkeypatch.setenv("KERNBRIDGE_CUDA_ARCHS", "nonsense")
    with pytest.raises(ValueError, match="KERNBRIDGE_CUDA_ARCHS: 'nonsense'"):
        architectures.cuda_architectures()


def test_flags_for_architectures():
    flags = architectures.flags
    assert flags(((9, 0, ""),)) == ("-gencode", "arch=compute_90,code=[sm_90,compute_90]")
    two = flags(((8, 0, ""), (9, 0, "a")))
    assert two[:2] == ("-gencode", "arch=compute_80,code=sm_80")
    assert two[2:4] == ("-gencode", "arch=compute_90a,code=[sm_90a,compute_90a]")
    assert "-arch=all-major" in flags(())
