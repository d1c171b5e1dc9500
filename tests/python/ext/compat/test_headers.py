"""BrainEvent's C++ headers, as sources that were written for it include and use them."""

import shutil
import subprocess

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from c_flags import c_flags
from kernbridge import config
from kernbridge._src.toolchain.nvcc import find_nvcc
from kernbridge.compat import brainevent as compat

pytestmark = pytest.mark.once

HEADERS = ("common", "dtypes", "tensor", "check", "dispatch", "ffi_compat")
S = jax.ShapeDtypeStruct
Error = jax.errors.JaxRuntimeError


def nvcc() -> str:
    try:
        return find_nvcc().path
    except kernbridge.KernelToolchainError as e:
        pytest.skip(f"no nvcc: {str(e).splitlines()[0]}")


COMPILERS = {
    "g++": lambda: ["g++", "-x", "c++"],
    "clang++": lambda: ["clang++", "-x", "c++"],
    "nvcc": lambda: [nvcc(), "-x", "cu"],
}


def alone():
    """Each compiler and header; nvcc takes a second for each, and one shows that it works."""
    for compiler in COMPILERS:
        for header in HEADERS:
            rare = compiler == "nvcc" and header != "tensor"
            yield pytest.param(compiler, header, marks=[pytest.mark.exhaustive] * rare)


@pytest.mark.brief
@pytest.mark.parametrize(("compiler", "header"), list(alone()))
def test_each_header_is_enough_by_itself(compiler, header, tmp_path):
    command = COMPILERS[compiler]()
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {compiler}")
    source = tmp_path / "alone.cpp"
    source.write_text(f'#include "brainevent/{header}.h"\nBE::DType of_a_tensor;\n')
    command += ["-std=c++17", c_flags()[0], f"{c_flags()[0]}/ext/compat", "-c"]
    command += [str(source), "-o", str(tmp_path / "alone.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


MACROS = r"""
#include "brainevent/common.h"

#define PUT(value) do { *at++ = static_cast<int32_t>(value); } while (0)
#define PUT_SIZE_OF(tensor) BE_DISPATCH_ALL((tensor).dtype(), of_all, { PUT(sizeof(of_all)); })

// @BE sizes
void sizes(const BE::Tensor index, const BE::Tensor offset, const BE::Tensor x, BE::Tensor out) {
    int32_t *at = out.data_ptr<int32_t>();
    BE_DISPATCH_SIGNED_INDEX_PAIR(index.dtype(), offset.dtype(), I, P, {
        PUT(sizeof(I));
        PUT(sizeof(P));
        BE_DISPATCH_CSR_INDPTR(offset.dtype(), Q, {
            PUT((std::is_same_v<P, Q>));
            if (sizeof(Q) == 8)
                return;  // leaves this body, not the one around it
            PUT(-1);
        });
        PUT(-2);
        BE_DISPATCH_SIGNED_INDEX_PAIR(offset.dtype(), index.dtype(), J, K, {
            PUT(sizeof(J) * 10 + sizeof(K));
        });
    });
    PUT_SIZE_OF(x);
    BE_DISPATCH_ALL_TYPES(index.dtype(), T, PUT(T(7.5)));
    if (x.ndim() == 1)
        BE_DISPATCH_FLOATING(x.dtype(), T, {
            BE_DISPATCH_FLOATING(x.dtype(), U, { PUT(sizeof(T) + sizeof(U)); });
        });
    else
        BE_CHECK_CSR_INDICES_INT32(index);
    BE_CHECK(out.numel() < 10) << "out has " << out.numel() << " elements, " << sizeof(int) << 2.5;
    PUT(99);
}

// @BE turned
void turned(const BE::Tensor x, BE::Tensor out) {
    BE_DISPATCH_COMPLEX(x.dtype(), T, {
        for (int64_t i = 0; i < x.numel(); i++)
            out.data_ptr<T>()[i] = x.data_ptr<T>()[i] * T(0, 1);
    });
}
"""


def test_macros_have_the_arguments_and_the_meaning_of_brainevents(x64):
    module = compat.load_cpp_inline(
        "compat_macros", "#include <type_traits>\n" + MACROS, auto_register=False
    )

    def sizes(index, offset, x, n=8):
        operation = module["sizes"].operation(S((n,), jnp.int32))
        return np.asarray(operation(jnp.zeros(1, index), jnp.zeros(1, offset), x)).tolist()

    x = jnp.ones(1, jnp.float32)
    assert sizes("int32", "int64", x) == [4, 8, 1, -2, 84, 4, 7, 8]
    assert sizes("int64", "int32", x, 9)[:6] == [8, 4, 1, -1, -2, 48]
    with pytest.raises(Error, match=r"a tensor of int8, expected one of int32, int64.*\[KB3005\]"):
        sizes("int8", "int64", x)
    with pytest.raises(
        Error, match=r"a tensor of float32, expected one of int32, int64.*\[KB3005\]"
    ):
        sizes("int32", "float32", x)
    with pytest.raises(
        Error, match=r"a tensor of int32, expected one of float32, float64.*\[KB3005\]"
    ):
        sizes("int32", "int64", jnp.ones(1, jnp.int32))
    with pytest.raises(Error, match=r"CSR indices must be int32, and are int64.*\[KB3005\]"):
        sizes("int64", "int32", jnp.ones((1, 1)))
    with pytest.raises(
        Error, match=r"check failed: \(out.numel\(\) < 10\) out has 12 elements, 42.5.*\[KB3005\]"
    ):
        sizes("int32", "int64", x, 12)
    z = np.array([1 + 2j, 3 - 1j])
    for dtype in (np.complex64, np.complex128):
        got = module["turned"].operation(S((2,), dtype))(z.astype(dtype))
        np.testing.assert_array_equal(got, (z * 1j).astype(dtype))


def test_a_value_returned_from_a_body_is_refused():
    """It would not be returned from the function around it."""
    source = """
#include "brainevent/common.h"
int size_of(BE::DType dtype) { BE_DISPATCH_FLOATING(dtype, T, { return sizeof(T); }); return 0; }
// @BE f
void f(BE::Tensor out) { *out.data_ptr<int32_t>() = size_of(out.dtype()); }
"""
    with pytest.raises(
        kernbridge.CompilationError, match=r"(?s)\[KB4006\].*return-statement with a value"
    ):
        compat.load_cpp_inline("compat_returns", source, auto_register=False)


def test_what_brainevents_headers_include_is_there():
    source = """
#include "brainevent/common.h"
// @BE f
void f(BE::Tensor out) {
    if (out.numel() > INT_MAX)
        abort();
    std::string text = "a";
    assert(text.size() < SIZE_MAX);
    throw std::runtime_error(text + std::to_string(out.numel()));
}
"""
    module = compat.load_cpp_inline("compat_included", source, auto_register=False)
    with pytest.raises(Error, match=r"a1.*\[KB3005\]"):
        module["f"].operation(S((1,), jnp.float32))()


USES_A_HEADER = """
#include "brainevent/common.h"
#include "number.h"
// @BE fill
void fill(BE::Tensor out) { *out.data_ptr<float>() = NUMBER; }
"""


DECLARES_A_FOLDER = f"""
from pathlib import Path
import jax, jax.numpy as jnp, kernbridge
from kernbridge import config
from kernbridge.compat import brainevent as compat

def define(folder, number):
    Path(folder).mkdir(exist_ok=True)
    Path(folder, "number.h").write_text(f"#define NUMBER {{number}}\\n")

def filled(**options):
    options["auto_register"] = False
    module = compat.load_cpp_inline("compat_declared", {USES_A_HEADER!r}, **options)
    return float(module["fill"].operation(jax.ShapeDtypeStruct((), jnp.float32))())

define("include", 3)
try:
    filled()
except kernbridge.CompilationError as e:
    assert "number.h" in str(e)
    config.add_include_path(Path("include").absolute())
compat.config.add_include_path(str(Path("include").absolute()))
assert config.get_include_paths() == [str(Path("include").absolute())]
print(filled())
define("include", 4)
print(filled())
define("before", 5)
print(filled(extra_include_paths=["before"]))
"""


@pytest.mark.exhaustive
def test_a_folder_of_headers_is_declared_once(run_python):
    assert run_python(DECLARES_A_FOLDER).split() == ["3.0", "4.0", "5.0"]


def test_a_folder_of_headers_must_be_there(tmp_path):
    with pytest.raises(NotADirectoryError, match=r"add_include_path.*\[KB8001\]"):
        config.add_include_path(tmp_path / "absent")
    with pytest.raises(TypeError, match=r"add_include_path.*is 3.*\[KB8001\]"):
        config.add_include_path(3)
    assert config.get_include_paths() == []
