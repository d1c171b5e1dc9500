"""Enzyme's derivatives of C and C++ functions, against JAX's own of equal functions."""

import collections
import functools

import jax
import jax.numpy as jnp
import kernbridge as kb
import numpy as np
import pytest
from kernbridge.errors import NoDerivativeError
from needs_enzyme import assert_derivatives, needs_enzyme

pytestmark = [pytest.mark.once, needs_enzyme]
S = jax.ShapeDtypeStruct


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


def normal(*shape, seed=0, dtype="float64"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def like(x, *_):
    return S(x.shape, x.dtype)


CPP = r"""
#include "kernbridge/kernbridge.hpp"
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <vector>
#include <stdexcept>
#include <string>
using kernbridge::Tensor;

namespace {
template <typename T> void product(const Tensor &data, const Tensor &at, const Tensor &ends,
                                   const Tensor &v, Tensor &out)
{
    const T *d = data.data_ptr<T>(), *x = v.data_ptr<T>();
    const int32_t *columns = at.data_ptr<int32_t>(), *p = ends.data_ptr<int32_t>();
    T *o = out.data_ptr<T>();
    for (int64_t i = 0; i < out.numel(); i++) {
        T total = 0;
        for (int32_t k = p[i]; k < p[i + 1]; k++)
            total += d[k] * x[columns[k]];
        o[i] = total;
    }
}
} // namespace

// @BE csr arg arg arg arg ret
void csr(const Tensor data, const Tensor at, const Tensor ends, const Tensor v, Tensor out)
{
    if (v.dtype() == kernbridge::DType::Float32)
        product<float>(data, at, ends, v, out);
    else
        product<double>(data, at, ends, v, out);
}

// @BE neurons arg:f64[n] arg:f64[n] ret:f64[n] ret:i32[n] attr.tau attr.reset
void neurons(const Tensor v, const Tensor current, Tensor out, Tensor spikes, double tau,
             bool reset)
{
    auto u = v.data_ptr<double>(), c = current.data_ptr<double>(), o = out.data_ptr<double>();
    auto s = spikes.data_ptr<int32_t>();
    for (int64_t i = 0; i < v.numel(); i++) {
        double now = u[i] + (c[i] - u[i]) / tau;
        s[i] = now > 0.5;
        o[i] = reset && now > 0.5 ? 0.0 : now;
    }
}

// @BE sorted arg:f64[n] ret:f64[n]
void sorted(const Tensor x, Tensor out)
{
    std::vector<double> values(x.numel());
    for (size_t i = 0; i < values.size(); i++)
        values[i] = x.data_ptr<double>()[i] * 2;
    std::sort(values.begin(), values.end());
    std::copy(values.begin(), values.end(), out.data_ptr<double>());
}

// @BE temporaries arg:f64[n, 3] arg:bool[n] ret:f64[n]
void temporaries(const Tensor x, const Tensor on, Tensor out)
{
    std::vector<std::array<double, 3>> rows(x.size(0));
    const double *a = x.data_ptr<double>();
    for (size_t i = 0; i < rows.size(); i++)
        for (int k = 0; k < 3; k++)
            rows[i][k] = std::tanh(a[3 * i + k]);
    for (size_t i = 0; i < rows.size(); i++) {
        auto &row = rows[rows.size() - 1 - i];
        double norm = std::hypot(row[0], row[1]) + std::exp(row[2]);
        out.data_ptr<double>()[i] = on.data_ptr<bool>()[i] ? norm : row[0];
    }
}

// @BE multiply arg:c128[n] arg:c128[n] ret:c128[n]
void multiply(const Tensor x, const Tensor y, Tensor out)
{
    auto a = x.data_ptr<std::complex<double>>(), b = y.data_ptr<std::complex<double>>();
    auto o = out.data_ptr<std::complex<double>>();
    for (int64_t i = 0; i < x.numel(); i++)
        o[i] = a[i] * b[i] * a[i] + 2.0 * b[i] + a[i].real();
}

// @BE in_parts arg:f64[n] ret:f64[n]
void in_parts(const Tensor x, Tensor out)
{
    const double *a = x.data_ptr<double>();
    double *o = out.data_ptr<double>();
    double *squares = static_cast<double *>(kernbridge::scratch(x.nbytes()));
    kernbridge::parallel_for(x.numel(), [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++)
            squares[i] = a[i] * a[i];
    });
    for (int64_t i = 0; i < x.numel(); i++)
        o[i] = std::sin(squares[i]);
}

// @BE roots arg:f64[n] ret:f64[n]
void roots(const Tensor x, Tensor out)
{
    for (int64_t i = 0; i < x.numel(); i++) {
        double value = x.data_ptr<double>()[i];
        if (value < 0)
            throw std::domain_error("negative value in element " + std::to_string(i));
        out.data_ptr<double>()[i] = std::sqrt(value);
    }
}
"""

C = r"""
#include "kernbridge/kernbridge.h"
#include <complex.h>
#include <math.h>
#include <string.h>

// @BE relax arg:f64[n, n] arg:f64[n, n] ret:f64[n, n]
void relax(kb_tensor *given, const kb_tensor *weights, kb_tensor *out)
{
    double *x = out->data;
    const double *w = weights->data;
    int64_t n = out->shape[0];
    for (int sweep = 0; sweep < 4; sweep++)
        for (int64_t i = 1; i < n - 1; i++)
            for (int64_t j = 1; j < n - 1; j++) {
                double around = x[(i - 1) * n + j] + x[(i + 1) * n + j] + x[i * n + j - 1] +
                                x[i * n + j + 1];
                x[i * n + j] = 0.25 * around + w[i * n + j] * x[i * n + j];
            }
}

// @BE softplus arg:f32[...] ret:f32[...] attr.scale
void softplus(const kb_tensor *x, kb_tensor *out, float scale)
{
    const float *a = x->data;
    float *o = out->data;
    for (int64_t i = 0; i < x->size; i++)
        o[i] = scale * log1pf(expf(a[i]));
}

// @BE shift arg:f64[n] ret:f64[n]
void shift(const kb_tensor *x, kb_tensor *out)
{
    double *o = out->data;
    memcpy(o, x->data, x->size * sizeof *o);
    memmove(o, o + 1, (x->size - 1) * sizeof *o);
    for (int64_t i = 0; i < x->size; i++)
        o[i] *= o[i];
    memmove(o + 2, o, (x->size - 2) * sizeof *o);
}

// @BE whole any
int whole(const kb_call *call)
{
    const kb_tensor *x = &call->inputs[0];
    if (x->size > 8)
        return kb_fail(call, KB_INVALID_ARGUMENT, "%d elements are too many", (int)x->size);
    double *copy = kb_scratch(call, x->size * sizeof *copy), total = 0;
    for (int64_t i = 0; i < x->size; i++)
        copy[i] = cos(((const double *)x->data)[i]);
    for (int64_t i = 0; i < x->size; i++)
        total += copy[i] * copy[x->size - 1 - i];
    *(double *)call->outputs[0].data = total;
    return 0;
}

// @BE add_up arg:f64[n] arg:i32[n] ret:f64[m]
void add_up(const kb_tensor *x, const kb_tensor *at, kb_tensor *out)
{
    for (int64_t i = 0; i < x->size; i++)
        ((double *)out->data)[((int32_t *)at->data)[i]] += pow(((double *)x->data)[i], 2);
}

// @BE rotate arg:c64[n] ret:c64[n]
void rotate(const kb_tensor *x, kb_tensor *out)
{
    for (int64_t i = 0; i < x->size; i++) {
        float _Complex z = ((float _Complex *)x->data)[i];
        ((float _Complex *)out->data)[i] = z * z * I + conjf(z);
    }
}
"""


@functools.cache
def cpp():
    return kb.load_cpp_inline("functions", CPP)


@functools.cache
def c():
    return kb.load_c_inline("c_functions", C)


def by_enzyme(function, outs=like, **options):
    return function.operation(outs, derivatives="enzyme", **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_product_of_a_sparse_matrix(dtype):
    rng = np.random.default_rng(0)
    ends = np.concatenate([[0], np.cumsum(rng.integers(0, 5, 20))]).astype(np.int32)
    at = rng.integers(0, 15, ends[-1]).astype(np.int32)
    rows = np.repeat(np.arange(20), np.diff(ends))
    op = by_enzyme(cpp().csr, lambda d, i, p, v: S((p.shape[0] - 1,), v.dtype))
    given = normal(ends[-1], dtype=dtype), at, ends, normal(15, dtype=dtype)
    assert_derivatives(
        op, lambda d, at, ends, v: jax.ops.segment_sum(d * v[at], rows, 20), *given, second=True
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("reset", [True, False])
def test_neurons_with_attributes_and_an_output_of_integers(reset):
    def outs(v, _):
        return like(v), S(v.shape, jnp.int32)

    def reference(v, current):
        u = v + (current - v) / 2.5
        return jnp.where((u > 0.5) & reset, 0.0, u), (u > 0.5).astype(jnp.int32)

    op = by_enzyme(cpp().neurons, outs, attrs={"tau": 2.5, "reset": reset})
    assert_derivatives(op, reference, normal(9), 4 * normal(9, seed=1), batched=True)


@pytest.mark.exhaustive
def test_a_sort_of_a_vector():
    op = by_enzyme(cpp().sorted)
    assert_derivatives(op, lambda x: jnp.sort(2 * x), normal(40))
    assert_derivatives(op, lambda x: jnp.sort(2 * x), normal(0))


@pytest.mark.exhaustive
def test_temporaries():
    def reference(x, on):
        rows = jnp.tanh(x)[::-1]
        norm = jnp.hypot(rows[:, 0], rows[:, 1]) + jnp.exp(rows[:, 2])
        return jnp.where(on, norm, rows[:, 0])

    op = by_enzyme(cpp().temporaries, lambda x, on: S(x.shape[:1], x.dtype))
    assert_derivatives(op, reference, normal(7, 3), normal(7) > 0, second=True, batched=True)


@pytest.mark.exhaustive
def test_complex_numbers():
    def reference(x, y):
        return x * y * x + 2.0 * y + x.real

    x, y = (normal(5, seed=k) + 1j * normal(5, seed=k + 9) for k in range(2))
    assert_derivatives(by_enzyme(cpp().multiply), reference, x, y, second=True)
    z = (x + y).astype("complex64")
    assert_derivatives(by_enzyme(c().rotate), lambda z: z * z * 1j + jnp.conj(z), z)


@pytest.mark.exhaustive
def test_scratch_memory_and_a_parallel_loop():
    assert_derivatives(by_enzyme(cpp().in_parts), lambda x: jnp.sin(x * x), normal(7), second=True)


@pytest.mark.exhaustive
def test_a_function_in_place():
    def relaxed(x, w):
        n = x.shape[0] - 2

        def step(x, k):
            i, j = k // n % n + 1, k % n + 1
            around = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]
            return x.at[i, j].set(0.25 * around + w[i, j] * x[i, j]), None

        return jax.lax.scan(step, x, jnp.arange(4 * n * n))[0]

    op = by_enzyme(c().relax, input_output_aliases={0: 0})
    assert_derivatives(op, relaxed, normal(6, 6), normal(6, 6, seed=1), second=True, batched=True)


@pytest.mark.exhaustive
def test_data_that_moves_within_an_array():
    def reference(x):
        x = x.at[:-1].set(x[1:]) ** 2
        return x.at[2:].set(x[:-2])

    assert_derivatives(by_enzyme(c().shift), reference, normal(8), second=True)


@pytest.mark.exhaustive
def test_a_function_of_the_whole_call_that_may_fail():
    op = by_enzyme(c().whole, lambda x: S((), x.dtype))
    assert_derivatives(op, lambda x: (jnp.cos(x) * jnp.cos(x)[::-1]).sum(), normal(7), second=True)
    cotangent = jax.jit(lambda x, ct: jax.vjp(op, x)[1](ct)[0])
    with pytest.raises(Exception, match=r"c_functions.whole.*9 elements are too many.*KB3001"):
        cotangent(jnp.zeros(9), jnp.ones(()))


def test_outputs_that_begin_as_zeros():
    op = by_enzyme(c().add_up, lambda x, at: S((4,), x.dtype), zero_outputs=True)
    at = np.array([0, 3, 3, 1, 0, 0], np.int32)
    assert_derivatives(op, lambda x, at: jnp.zeros(4).at[at].add(x * x), normal(6), at)


@pytest.mark.exhaustive
def test_exceptions_of_the_function():
    op = by_enzyme(cpp().roots)
    assert_derivatives(op, jnp.sqrt, np.abs(normal(5)))
    cotangent = jax.jit(lambda x, ct: jax.vjp(op, x)[1](ct)[0])
    for _ in range(2):
        with pytest.raises(Exception, match=r"domain_error: negative value in element .*KB3001"):
            cotangent(jnp.array([4.0, -1.0]), jnp.ones(2))
    np.testing.assert_allclose(cotangent(jnp.array([4.0]), jnp.ones(1)), 0.25)


@pytest.mark.exhaustive
def test_transformations():
    op = by_enzyme(c().softplus, attrs={"scale": 1.5})

    def both(transform):
        found = [transform(f) for f in (op, lambda x: 1.5 * jnp.log1p(jnp.exp(x)))]
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), *found)

    x = jnp.asarray(normal(3, 4, dtype="float32"))
    both(lambda f: jax.jit(jax.value_and_grad(lambda x: (f(x) ** 2).sum()))(x))
    both(lambda f: jax.vmap(jax.grad(lambda x: f(x).sum()))(x))
    both(lambda f: jax.jacfwd(f)(x[0]))
    both(lambda f: jax.hessian(lambda x: f(x).sum())(x[0]))
    both(lambda f: jax.grad(jax.checkpoint(lambda x: f(x).sum()))(x))
    both(
        lambda f: jax.grad(lambda x: jax.lax.scan(lambda c, _: (f(c), 0), x, length=3)[0].sum())(x)
    )


def test_sharded():
    mesh = jax.make_mesh((4,), ("d",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    op = by_enzyme(c().softplus, attrs={"scale": 2.0}, sharding_rule="i -> i")
    x = jax.device_put(jnp.asarray(normal(8, dtype="float32")), sharding)
    found = jax.jit(jax.grad(lambda x: op(x).sum()))(x)
    np.testing.assert_allclose(found, 2 * jax.nn.sigmoid(x), rtol=1e-5)
    assert found.sharding.is_equivalent_to(sharding, 1)


REFUSED = {
    "state": ("static double total; total += in[i]; o[i] = total;", "uses total, which is no"),
    "bits": (
        "union { double d; uint64_t u; } v; v.d = in[i]; v.u >>= 1; o[i] = v.d;",
        "bits of real numbers",
    ),
    "halves": ("o[i] = in[i] * ((const int32_t *)in)[2 * i + 1];", "bits of real numbers"),
    "assembly": ('double v = in[i]; __asm__("addsd %0, %0" : "+x"(v)); o[i] = v;', "assembly"),
    "unknown": ("o[i] = nowhere(in[i]);", "nowhere"),
    "pointer": ("o[i] = table[i % 2](in[i]);", "by its address"),
    "recursion": ("o[i] = power(in[i], i);", "power calls itself"),
    "random": ("o[i] = in[i] * rand();", "rand"),
}


@pytest.mark.brief
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    code, why = REFUSED[name]
    source = f"""
#include "kernbridge/kernbridge.h"
#include <math.h>
#include <stdlib.h>
extern double nowhere(double) __attribute__((weak));
__attribute__((noinline)) double power(double x, int64_t n) {{
    return n > 0 ? x * power(x * x + 1, n - 1) / (1 + power(x, n - 2)) : 1;
}}
double (*table[2])(double) = {{sin, cos}};
// @BE f arg:f64[n] ret:f64[n]
void f(const kb_tensor *x, kb_tensor *out) {{
    const double *in = x->data; double *o = out->data;
    for (int64_t i = 0; i < x->size; i++) {{
        {code}
    }}
}}
"""
    module = kb.load_c_inline(f"refused_{name}", source)
    op = by_enzyme(module.f)
    place = "" if name == "recursion" else rf"refused_{name}.c:14\)"
    with pytest.raises(NoDerivativeError, match=rf"{why}.*{place}.*KB2107"):
        jax.jit(jax.grad(lambda x: op(x).sum())).lower(jnp.ones(3))


def test_what_has_no_source_is_refused(tmp_path):
    with pytest.raises(NoDerivativeError, match=r"no source to differentiate.*KB2107"):
        by_enzyme(kb.load_binary(c().path).softplus, attrs={"scale": 1.0})


GUARDS = r"""
#include <cmath>
// @BE guards x: f64[n], n, w: f64[n] -> out: f64[n, 4]
void guards(const double *x, int n, const double *w, double *out)
{
    int k = 0;
    for (int i = 0; i < n; i++) {
        double v = x[i], b = w[i], *o = out + 4 * i;
        o[0] = v > 0 ? v * std::log(v) : 0;
        o[1] = v != 0 ? w[i] / v : 0;
        if (v > 0) o[2] = std::pow(v, 0.5);
        else o[2] = 0;
        for (int j = 0; j < 2; j++) { k++; b = b * b * 0.5; }
        double chosen;
        switch (k % 5) {
        case 1: case 3: case 4: chosen = b; break;
        default: chosen = v;
        }
        const double t[3] = {v, b, v};
        const double *row = k % 3 ? x : w;
        o[3] = t[k % 3] * b + chosen * row[i];
    }
}
"""


@pytest.mark.parametrize("second", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_guards_cases_and_chosen_arrays(second):
    op = kb.load_cpp_inline("guards", GUARDS).guards.operation(derivatives="enzyme")

    def reference(x, w):
        positive, nonzero = x > 0, x != 0
        v, u = jnp.where(positive, x, 1), jnp.where(nonzero, x, 1)
        b, k = (w * w * 0.5) ** 2 * 0.5, 2 * (jnp.arange(4) + 1)
        chosen = jnp.where((k % 5 == 1) | (k % 5 >= 3), b, x)
        last = jnp.where(k % 3 == 1, b, x) * b + chosen * jnp.where(k % 3 > 0, x, w)
        columns = [v * jnp.log(v), jnp.where(nonzero, w / u, 0), jnp.where(positive, v**0.5, 0)]
        return jnp.stack([*columns, last], axis=1)

    given = np.array([0.0, 1.37, -2.4, 2.7]), np.array([0.7, 1.9, 0.5, -0.4])
    assert_derivatives(op, reference, *given, second=second)
    for about in (0, 1):
        ours, theirs = (jax.jacfwd(f, about)(*map(jnp.asarray, given)) for f in (op, reference))
        np.testing.assert_allclose(ours, theirs)


STRUCTURE = r"""
#include "kernbridge/kernbridge.h"
struct csr { const int32_t *ends, *columns; const double *data; };
// @BE product m.data: f64[nnz], m.columns: i32[nnz], m.ends: i32[n + 1], x: f64[k], n -> f64[n]
void product(OF_CSR, const double *x, int n, double *out)
{
    for (int i = 0; i < n; i++) {
        out[i] = 0;
        for (int k = m TO ends[i]; k < m TO ends[i + 1]; k++)
            out[i] += m TO data[k] * m TO data[k] * x[m TO columns[k]];
    }
}
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("language", ["c", "cpp"])
@pytest.mark.parametrize("parameter", ["struct csr m", "const struct csr *m", "struct csr &m"])
def test_members_of_a_structure(language, parameter):
    if "&" in parameter and language == "c":
        pytest.skip("C has no references")
    source = STRUCTURE.replace("OF_CSR", parameter)
    source = source.replace(" TO ", "->" if "*" in parameter else ".")
    load = getattr(kb, f"load_{language}_inline")
    op = load("members", source, replace=True).product.operation(derivatives="enzyme")
    data, x, ends = normal(7), normal(4, seed=1), np.int32([0, 3, 3, 4, 7, 7])
    columns = np.int32([0, 2, 3, 1, 0, 1, 2])
    rows = np.repeat(np.arange(5), np.diff(ends))

    Csr = collections.namedtuple("Csr", ["data", "columns", "ends"])

    def by_jax(data, x):
        return jnp.zeros(5).at[rows].add(data**2 * x[columns])

    assert_derivatives(lambda d, x: op(Csr(d, columns, ends), x), by_jax, data, x, second=True)
