"""Functions whose name or parameters the macros of their own source make."""

import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from kernbridge._src.toolchain import programs

pytestmark = pytest.mark.once

SCALES = """
#include "brainevent/common.h"
#ifndef PARAMETERS
#error the flags define it
#endif
#define DEFINE_SCALE(SUFFIX, T, FACTOR)                                     \\
  void scale##SUFFIX(PARAMETERS) {                                          \\
    for (int64_t i = 0; i < x.numel(); i++)                                 \\
      out.data_ptr<T>()[i] = k * x.data_ptr<T>()[i] * FACTOR; /* a comment */ \\
  }
// @BE scale_twice
DEFINE_SCALE(_twice, float, 2)
#ifdef MORE
// @BE scale_thrice arg ret attr.k
DEFINE_SCALE(_thrice, float, 3)
#endif
"""
FLAGS = ["-DPARAMETERS=const BE::Tensor x, BE::Tensor out, int k"]


def test_functions_are_found_with_their_parameters():
    module = kernbridge.load_cpp_inline("made", SCALES, extra_cflags=[*FLAGS, "-D", "MORE"])
    assert module.function_names == ["scale_twice", "scale_thrice"]
    x = jnp.arange(3, dtype=jnp.float32)
    np.testing.assert_array_equal(module.scale_twice(x, outs=x, k=5), 10 * x)
    np.testing.assert_array_equal(module.scale_thrice(x, outs=x, k=np.int32(1)), 3 * x)
    fewer = kernbridge.load_cpp_inline("fewer", SCALES, extra_cflags=FLAGS)
    assert fewer.function_names == ["scale_twice"]


def test_messages_name_the_place_in_the_source():
    text = SCALES.replace("attr.k", "attr.k:float64")
    with pytest.raises(kernbridge.errors.KernelError) as e:
        kernbridge.load_cpp_inline("told", text, extra_cflags=[*FLAGS, "-DMORE"])
    line = text[: text.index("// @BE scale_thrice")].count("\n") + 1
    assert f"told.cpp:{line}: scale_thrice: parameter 3 'k' is `int`" in str(e.value)


def test_what_a_header_makes_is_written_out(tmp_path):
    (tmp_path / "made.h").write_text(
        '#include "brainevent/common.h"\n'
        "#define DEFINE(NAME) void NAME(const BE::Tensor x, BE::Tensor out) { \\\n"
        "  out.data_ptr<float>()[0] = 7; }\n"
    )
    text = '#include "made.h"\n// @BE seven %s\nDEFINE(seven)\n'
    paths = [str(tmp_path)]
    with pytest.raises(kernbridge.errors.KernelError, match=r"\[KB4007\]") as e:
        kernbridge.load_cpp_inline("header", text % "", extra_include_paths=paths)
    assert "header.cpp:2:8" in str(e.value)
    module = kernbridge.load_cpp_inline("header", text % "arg ret", extra_include_paths=paths)
    x = jnp.zeros(1, jnp.float32)
    np.testing.assert_array_equal(module.seven(x, outs=x), [7])


def test_named_functions_are_compared_as_annotations_are():
    text = (
        '#include "brainevent/common.h"\n'
        "void f(const BE::Tensor x, BE::Tensor out, int a, int b) {}\n"
    )
    tokens = {"f": "arg ret attr.b attr.a"}
    with pytest.raises(kernbridge.KernelError, match=r"tokens in the order.*\[KB4007\]"):
        kernbridge.load_cpp_inline("named", text, tokens)
    with pytest.raises(kernbridge.KernelError, match=r"describes 3 parameters, and C\+\+ has 4"):
        kernbridge.load_cpp_inline("named", text, {"f": "arg ret attr.b"})


def test_without_a_preprocessor_the_first_error_stands(monkeypatch):
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(kernbridge.errors.KernelError, match=r"\[KB4007\]"):
        kernbridge.load_cpp_inline("nothing", SCALES, extra_cflags=FLAGS)


def test_a_second_process_starts_no_preprocessor(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(tmp_path))
    first = kernbridge.load_cpp_inline("again", SCALES, extra_cflags=FLAGS)

    def run(command, **_):
        raise AssertionError(command)

    monkeypatch.setattr(programs, "run", run)
    again = kernbridge.load_cpp_inline("again", SCALES, extra_cflags=FLAGS)
    assert again.content_hash == first.content_hash
    assert again.scale_twice.tokens == first.scale_twice.tokens == "arg ret attr.k:int32"
    with pytest.raises(AssertionError, match="-E"):
        kernbridge.load_cpp_inline("again", SCALES, extra_cflags=[*FLAGS, "-DMORE"])
