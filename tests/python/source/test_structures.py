"""Functions in C and C++ that take structures, whose members a signature names as fields."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("x64")]


class Matrix(NamedTuple):
    data: jax.Array
    indices: jax.Array
    ends: jax.Array


class Neuron(NamedTuple):
    v: jax.Array
    tau: float


# The members are in another order than in the signatures. Two are pointers of the same type.
SOURCE = r"""
#include "kernbridge/kernbridge.h"
struct matrix {
    const int32_t *ends, *indices;
    const double *data;
};
#define PRODUCT(m, dot)                                                                            \
    for (int r = 0; r < rows; r++) {                                                               \
        y[r] = 0;                                                                                  \
        for (int k = m dot ends[r]; k < m dot ends[r + 1]; k++)                                    \
            y[r] += m dot data[k] * x[m dot indices[k]];                                           \
    }
// @BE by_value FIELDS
void by_value(struct matrix m, const double *x, int rows, double *y) { PRODUCT(m, .) }
// @BE by_address FIELDS
void by_address(const double *x, const struct matrix *m, int rows, double *y) { PRODUCT(m, ->) }

typedef struct {
    double *v;
    int64_t n;
    double tau;
    int times, last;
} neuron;
// @BE decayed DECAYED
void decayed(neuron neuron, int times, double *v)
{
    for (int64_t i = 0; i < neuron.n; i++)
        neuron.v[i] = neuron.v[i] * neuron.tau + neuron.times * times; /* of a copy */
    *v = neuron.v[neuron.last];
}
// @BE changed a.w: f64[k], a.v: f32[n] -> a.w
typedef struct { const float *const v; double *w; } pair;
void changed(const pair *a) { a->w[0] += a->v[1]; }
"""
IN_CPP = r"""
// @BE by_reference FIELDS
void by_reference(const matrix &m, const double *x, const int &rows, double *y) { PRODUCT(m, .) }
// @BE by_own_reference FIELDS
void by_own_reference(matrix &m, const double *x, int rows, double *y) { PRODUCT(m, .) }
"""
DECAYED = "neuron.v: f64[k], times: i32, neuron.tau: f64, neuron.n = k, neuron.times = 2, "
DECAYED += "neuron.last = k - 1 -> v: f64[]"
FIELDS = (
    "m.data: f64[nnz], m.indices: i32[nnz], m.ends: i32[rows + 1], x: f64[n], rows -> f64[rows]"
)


@pytest.fixture(scope="module")
def loaded():
    c, cpp = (
        source.replace("FIELDS", FIELDS).replace("DECAYED", DECAYED)
        for source in (SOURCE, f"{SOURCE}{IN_CPP}".replace("*const v", "*v"))
    )
    return {
        "c": kernbridge.load_c_inline("structures", c, carry=True),
        "c++": kernbridge.load_cpp_inline("structures_cpp", cpp),
    }


both = pytest.mark.parametrize("language", ["c", "c++"])


def drawn():
    rng = np.random.default_rng(1)
    dense = rng.normal(size=(4, 6)) * (rng.random((4, 6)) < 0.5)
    ends = np.append(0, (dense != 0).sum(1).cumsum())
    parts = dense[dense != 0], np.int32(dense.nonzero()[1]), np.int32(ends)
    return dense, Matrix(*map(jnp.asarray, parts)), jnp.asarray(rng.normal(size=6))


@pytest.mark.brief
@both
def test_members_are_filled_by_name(loaded, language):
    dense, m, x = drawn()
    for name in loaded[language].function_names:
        if name.startswith("by"):
            op = loaded[language][name]
            np.testing.assert_allclose(jax.jit(op)(m=m, x=x), dense @ x, rtol=1e-14)
    many = jnp.stack([m.data, 3 * m.data])
    found = jax.vmap(lambda data: op(m._replace(data=data), x))(many)
    np.testing.assert_allclose(found, np.stack([dense @ x, 3 * dense @ x]), rtol=1e-14)
    declared = op.operation(outs=jax.ShapeDtypeStruct((4,), jnp.float64))
    np.testing.assert_allclose(declared(m, x), dense @ x, rtol=1e-14)


@pytest.mark.brief
@both
def test_numbers_extents_and_changed_members(loaded, language):
    v, w = jnp.arange(3.0), jnp.ones(5)
    assert loaded[language].decayed(Neuron(v, 0.5), 4) == 0.5 * 2 + 8
    np.testing.assert_array_equal(v, [0, 1, 2])

    class Pair(NamedTuple):
        v: jax.Array
        w: jax.Array

    changed = loaded[language].changed(Pair(jnp.float32([7, 8]), w))
    np.testing.assert_array_equal(changed, [9, 1, 1, 1, 1])
    np.testing.assert_array_equal(w, 1)


@pytest.mark.exhaustive
def test_rules_by_name_and_linear_members(loaded):
    dense, m, x = drawn()
    rows = np.repeat(np.arange(4), np.diff(m.ends))

    def vjp(ct, *, m_data, m_indices, m_ends, x):
        of_x = jnp.zeros_like(x).at[m_indices].add(ct[rows] * m_data)
        return {"m_data": ct[rows] * x[m_indices], "x": of_x}

    op = loaded["c"].by_value.operation(vjp=vjp, linear="m.data")
    found = jax.grad(lambda m, x: jnp.sum(op(m, x) ** 2), (0, 1), allow_int=True)(m, x)
    of_dense, of_x = jax.grad(lambda d, x: jnp.sum((d @ x) ** 2), (0, 1))(jnp.asarray(dense), x)
    assert jax.tree.structure(found[0]) == jax.tree.structure(m)
    np.testing.assert_allclose(found[0].data, of_dense[dense != 0], rtol=1e-12)
    np.testing.assert_allclose(found[1], of_x, rtol=1e-12)
    transposed = jax.linear_transpose(lambda data: op(m._replace(data=data), x), m.data)
    np.testing.assert_allclose(transposed(jnp.ones(4))[0], x[m.indices], rtol=1e-14)


@pytest.mark.exhaustive
def test_an_exported_program(loaded):
    dense, m, x = drawn()
    exported = jax.export.export(jax.jit(lambda *m: loaded["c"].by_address(Matrix(*m), x)))(*m)
    found = jax.export.deserialize(exported.serialize()).call(*m)
    np.testing.assert_allclose(found, dense @ x, rtol=1e-14)


PAIR = "const double *a; const int *b;"
OF_MEMBER = "parameter 1, `m.b`, is missing, or of another type"
OF_WHOLE = r"parameter 1, `.*m`, has other members than a, b, or bytes between them; name all"
REFUSED = {
    "a member is left out": (f"{PAIR} int *c;", "struct s m", OF_WHOLE),
    "a number is left out": (f"int64_t n; {PAIR}", "struct s *m", OF_WHOLE),
    "bytes between": ("const double *a; _Alignas(16) const int *b;", "struct s m", OF_WHOLE),
    "members overlap": (
        "union { const int *b; const double *a; }; int *c;",
        "struct s m",
        OF_WHOLE,
    ),
    "another type": ("const double *a; const float *b;", "struct s m", OF_MEMBER),
    "a value": ("const double *a; int64_t b;", "const struct s *m", OF_MEMBER),
    "a tensor": ("const double *a; const kb_tensor *b;", "struct s m", OF_MEMBER),
    "no such member": ("const double *a; const int *c;", "struct s m", "parameter 1, "),
    "no structure": (PAIR, "const int *m", "parameter 1, "),
}


@pytest.mark.brief
@pytest.mark.parametrize(("members", "parameter", "why"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("load", [kernbridge.load_c_inline, kernbridge.load_cpp_inline])
def test_other_structures_are_refused(load, members, parameter, why):
    alignas = "alignas" if load is kernbridge.load_cpp_inline else "_Alignas"
    source = f'#include "kernbridge/kernbridge.h"\nstruct s {{ {members} }};\n'
    source += "// @BE f m.a: f64[n], m.b: i32[k] -> f64[n]\n"
    source += f"void f({parameter}, double *y) {{}}\n"
    with pytest.raises(kernbridge.CompilationError, match=rf"f: {why}.*\[KB4007\]"):
        load("refused", source.replace("_Alignas", alignas))


@pytest.mark.parametrize(
    ("signature", "members", "why"),
    [
        ("m.a: f64[n] -> m.a", "const double *a;", "is the output m.a: f64.n., and must not be c"),
        ("m.a: f64[n], m.n = n -> f64[n]", "const double *a; int *n;", "it must be an integer"),
        ("m.a: f64[n], m.k: f64 -> f64[n]", "double *a, *k;", "cannot be m.k: f64"),
        ("m.a: T[n] -> f64[n]", "double *a;", "'m.a' needs a dtype, since C has no variables"),
    ],
)
def test_members_that_a_signature_cannot_describe(signature, members, why):
    result = "" if signature.endswith("m.a") else ", double *y"
    source = f"struct s {{ {members} }};\n// @BE f {signature}\nvoid f(struct s m{result}) {{}}\n"
    with pytest.raises(kernbridge.KernelError, match=rf"{why}[^[]*\[KB4007\]"):
        kernbridge.load_c_inline("refused", source)
