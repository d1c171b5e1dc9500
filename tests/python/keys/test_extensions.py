"""What users teach Numba is part of the identity of the kernels that it is found for."""

import pytest

pytestmark = pytest.mark.once

HEAD = """
import math, operator, jax, numpy as np, kernbridge as kb
from numba import njit, types
from numba.experimental import structref
from numba.extending import (intrinsic, lower_builtin, models, overload, overload_attribute,
    overload_classmethod, overload_method, register_model, type_callable, typeof_impl)
"""
# What teaches Numba the number V, and how a kernel finds it.
TAUGHT = {
    "method": ("@overload_method(types.Array, 'told')\ndef _(a): return lambda a: V", "x.told()"),
    "attribute": ("@overload_attribute(types.Array, 'said')\ndef _(a): return lambda a: V",
                  "x.said"),
    "class method": ("@overload_classmethod(types.Array, 'made')\ndef _(c): return lambda c: V",
                     "types.Array.made()"),
    "function of NumPy": ("@overload(np.bartlett)\ndef _(M):\n"
                          " if isinstance(M, types.Float): return lambda M: V",
                          "np.bartlett(2.5)"),
    "function under another name": ("@overload(math.fsum)\ndef _(a): return lambda a: V\n"
                                    "total = math.fsum", "total(x)"),
    "operator": ("@overload(operator.matmul)\ndef _(a, b):\n"
                 " if isinstance(b, types.Integer): return lambda a, b: V", "x @ 2"),
    "comparison": ("@overload(operator.lt)\ndef _(a, b):\n"
                   " if isinstance(a, types.UnicodeType) and isinstance(b, types.Integer):"
                   " return lambda a, b: V", "'' < 1"),
    "typing and lowering": ("@type_callable(math.dist)\ndef _(c): return lambda a: types.float64\n"
                            "@lower_builtin(math.dist, types.Any)\n"
                            "def _(c, b, s, a): return c.get_constant(types.float64, V)",
                            "math.dist(x)"),
    "class that typing reads": ("class Settings: value = V\ndef read(): pass\n@overload(read)\n"
                                "def _():\n value = Settings.value\n return lambda: value",
                                "read()"),
    "structure": ("@structref.register\nclass PairType(types.StructRef): pass\n"
                  "class Pair(structref.StructRefProxy): pass\n"
                  "structref.define_constructor(Pair, PairType, ['a'])\n"
                  "@overload_method(PairType, 'sum')\ndef _(p): return lambda p: p.a + V",
                  "Pair(0.0).sum()"),
    "constructor": ("class Made: pass\n@overload(Made)\ndef _(): return lambda: V", "Made()"),
    "intrinsic": ("@intrinsic\ndef told(t):\n return types.float64(), "
                  "lambda c, b, s, a: c.get_constant(types.float64, V)", "told()"),
}  # fmt: skip
KERNELS = "".join(
    f"{teaching}\n@njit\ndef k{i}(x, out): out[0] = {found}\n"
    for i, (teaching, found) in enumerate(TAUGHT.values())
)
RUN = f"""
ops = [kb.numba_kernel(getattr(taught, f"k{{i}}"), outs) for i in range({len(TAUGHT)})]
print(*[r[0] for r in jax.jit(lambda x: [op(x) for op in ops])(np.ones(1, np.float32))])
"""
START = "import taught, jax, numpy as np, kernbridge as kb\nouts = lambda x: x\n"


def written(tmp_path, value, text):
    (tmp_path / "taught.py").write_text(HEAD + f"V = {value}\n" + text)


@pytest.mark.exhaustive
def test_another_process_notices_that_it_was_edited(tmp_path, run_python):
    for value in (2.0, 3.0):
        written(tmp_path, value, KERNELS)
        printed = run_python(START + RUN, KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"))
        found = dict(zip(TAUGHT, map(float, printed.split()), strict=True))
        assert found == dict.fromkeys(TAUGHT, value)


CELL = """
V = {value}
@overload_method(types.Array, "told")
def _(a): return lambda a: V
@overload_attribute(types.Array, "said")
def _(a): return lambda a: V
def f(x, out): out[0] = x.told() + 10 * x.said
out = np.zeros(1, np.float32)
njit(f)(out, out)
print(out[0], *kb.numba_kernel(njit(f), outs)(np.ones(1, np.float32)))
print(fingerprint.take(plain).digest == before)
"""


@pytest.mark.exhaustive
def test_another_cell_of_a_notebook_has_what_numba_has(run_python):
    """The identity of a kernel that uses none of it stays the same."""
    begin = HEAD + "from kernbridge._src.keys import fingerprint\n" \
        "outs = lambda x: x\n" \
        "@njit\ndef plain(x, out): out[0] = x.sum() + np.cos(x[0])\n" \
        "before = fingerprint.take(plain).digest\n"  # fmt: skip
    printed = run_python(begin + CELL.format(value=2.0) + CELL.format(value=3.0))
    assert printed.split() == ["22.0", "22.0", "True", "33.0", "33.0", "True"]


OF_CUDA = """
from numba import cuda
from numba.cuda import types
from numba.cuda.extending import overload, overload_attribute, overload_method
@overload_method(types.Array, "told", target="cuda")
def _(a): return lambda a: V
@overload_attribute(types.Array, "said", target="cuda")
def _(a): return lambda a: V
@overload(math.fsum, target="cuda")
def _(a): return lambda a: V
@cuda.jit
def k(x, out): out[0] = x.told() + 10 * x.said + 100 * math.fsum(x)
def launch(x, out, stream): k[1, 1, stream](x, out)
"""
RUN_CUDA = """
kernel = kb.numba_cuda_kernel(taught.k, outs, grid=1, block=1)
function = kb.numba_cuda_callable(taught.launch, outs)
print(*[op(np.ones(1, np.float32))[0] for op in (kernel, function)])
"""


@pytest.mark.exhaustive
def test_another_process_notices_it_in_cuda_kernels(tmp_path, run_python):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    for value in (2.0, 3.0):
        written(tmp_path, value, OF_CUDA)
        printed = run_python(START + RUN_CUDA, KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"))
        assert printed.split() == [str(111 * value)] * 2
