"""`cuda_kernel` with structures of pointers, whose members a signature names as fields."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from kernbridge._ext.nvrtc import nvrtc

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:.*KB7002")]


class Pair(NamedTuple):
    v: jax.Array
    w: jax.Array


class Matrix(NamedTuple):
    data: jax.Array
    columns: jax.Array
    ends: jax.Array


# The members are in another order than in the signature. Two are pointers of the same type.
STRUCTURE = "template <typename T> struct csr { const int *ends, *columns; const T *data; };\n"
SOURCE = f"""{STRUCTURE}
template <typename T> __global__ void product(const T *x, const csr<T> m, int rows, T *y) {{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    y[r] = 0;
    for (int k = m.ends[r]; k < m.ends[r + 1]; k++) y[r] += m.data[k] * x[m.columns[k]];
}}
"""
SIGNATURE = "m.data: T[nnz], m.columns: i32[nnz], m.ends: i32[rows + 1], x: T[n] -> T[rows]"


def kernel(source=SOURCE, signature=SIGNATURE, name="product<float>", **options):
    options = {"launch_dims": "rows", "threads_per_block": 32, **options}
    return kernbridge.cuda_kernel(source, name, signature=signature, **options)


def drawn():
    rng = np.random.default_rng(2)
    dense = np.float32(rng.normal(size=(4, 6)) * (rng.random((4, 6)) < 0.5))
    ends = np.append(0, (dense != 0).sum(1).cumsum())
    parts = dense[dense != 0], np.int32(dense.nonzero()[1]), np.int32(ends)
    return dense, Matrix(*map(jnp.asarray, parts)), jnp.asarray(rng.normal(size=6), jnp.float32)


@pytest.mark.usefixtures("without_fake_gpu")
def test_members_are_filled_by_name():
    dense, m, x = drawn()
    op = kernel()
    np.testing.assert_allclose(jax.jit(op)(m=m, x=x), dense @ x, rtol=1e-5)
    many = jnp.stack([m.data, 3 * m.data])
    found = jax.vmap(lambda data: op(m._replace(data=data), x))(many)
    np.testing.assert_allclose(found, np.stack([dense @ x, 3 * dense @ x]), rtol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("without_fake_gpu")
def test_checks_and_exports():
    dense, m, x = drawn()
    np.testing.assert_allclose(kernel(check=True)(m, x), dense @ x, rtol=1e-5)
    exported = jax.export.export(jax.jit(lambda *m: kernel()(Matrix(*m), x)))(*m)
    found = jax.export.deserialize(exported.serialize()).call(*m)
    np.testing.assert_allclose(found, dense @ x, rtol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("without_fake_gpu")
def test_members_that_the_kernel_changes():
    source = "struct pair { float *v; const double *w; };\n"
    source += "__global__ void add(pair p, int n, float *last) {\n"
    source += "    int i = threadIdx.x;\n    if (i < n) p.v[i] += p.w[i];\n"
    source += "    if (i == n - 1) *last = p.v[i];\n}\n"
    signature = "p.w: f64[n], p.v: f32[n] -> p.v, last: f32[]"
    with jax.enable_x64(True):
        v = jnp.arange(3, dtype=jnp.float32)
        made = kernel(source, signature, "add", launch_dims="n")
        changed, last = made(Pair(v, jnp.array([5.0, 6.0, 7.0])))
    np.testing.assert_array_equal(changed, [5, 7, 9])
    assert last == 9
    np.testing.assert_array_equal(v, [0, 1, 2])


WHOLE = "'const csr<T> m' has other members than those"
REFUSED = {
    "a pointer is left out": (("const T *data;", "const T *data; int *more;"), WHOLE),
    "a number is left out": (("const T *data;", "const T *data; char more;"), WHOLE),
    "another type": (("const T *data", "const double *data"), "csr<T>::data, expected float64"),
    "a value": (("const T *data", "T data"), "'arg' takes a pointer"),
    "no such member": (("*columns", "*columns_"), "compilation failed|does not report the types"),
}


@pytest.fixture(params=["cpu", "nvrtc"])
def planned(request):
    """What lowers a kernel, by the host's compiler or by NVRTC."""
    request.getfixturevalue("without_fake_gpu" if request.param == "cpu" else "gpu")
    if request.param == "nvrtc":
        try:
            nvrtc.library()
        except kernbridge.KernelToolchainError as e:
            pytest.skip(str(e))
    _, m, x = drawn()
    return lambda op: op.plan(m, x)


@pytest.mark.brief
@pytest.mark.parametrize(("change", "why"), REFUSED.values(), ids=REFUSED)
def test_other_structures_are_refused(planned, change, why):
    source = f"{STRUCTURE.replace(*change)}template <typename T> __global__ "
    source += "void product(const T *x, const csr<T> m, int rows, T *y) {}"
    with pytest.raises((kernbridge.KernelError, TypeError), match=why):
        planned(kernel(source))


def test_words_of_a_launch(planned):
    step = planned(kernel()).steps[-1]
    places = [word.buffer for word in step.words if word.kind == "address"]
    assert places == [3, 2, 1, 0, 4]  # x, the members in memory, y
    assert [word.kind for word in step.words] == [*["address"] * 4, "constant", "address"]


def test_what_is_no_structure_of_pointers_by_value():
    pointer = SOURCE.replace("const csr<T> m", "const csr<T> *m")
    for source, signature in (
        (pointer, SIGNATURE),
        (SOURCE, SIGNATURE.replace("m.data: T[nnz]", "m.data: f32")),
    ):
        with pytest.raises(ValueError, match=r"expected a structure by value.*\[KB1010\]"):
            kernel(source, signature)
