"""What BrainEvent's data structures and functions compute for small data.

Run as ``python structures.py (own | kernbridge) results.npz``: with BrainEvent's own bridge or with
kernbridge in its place. Names that came with BrainEvent 0.3 are left out where they are absent.
"""

import sys

which, results = sys.argv[1:]
if which == "kernbridge":
    import kernbridge.compat.brainevent

    kernbridge.compat.brainevent.install()

import brainevent as be  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_enable_x64", True)  # TCSR needs it
N, M = 7, 5
rng = np.random.default_rng(0)
dense = np.where(rng.random((N, M)) < 0.4, rng.random((N, M)), 0).astype(np.float32)
row, column = (jnp.asarray(rng.random(n, np.float32)) for n in (N, M))
before, after = (vector > 0.5 for vector in (row, column))
conn = jnp.asarray(np.stack([rng.permutation(M)[:2] for _ in range(N)]), jnp.int32)
weights = jnp.asarray(rng.random((N, 2), np.float32))


def matrices():
    csr = be.CSR.fromdense(dense)
    yield "csr", csr
    yield "one weight", be.CSR((jnp.ones(1, jnp.float32), csr.indices, csr.indptr), shape=(N, M))
    yield "csc", csr.tocsc() if hasattr(csr, "tocsc") else be.CSC.fromdense(dense)
    yield "fixed", be.FixedNumPerPre((weights, conn), shape=(N, M))
    yield "fixed post", be.FixedNumPerPost((weights, conn), shape=(M, N)).T
    if hasattr(be, "TCSR"):
        yield "tcsr", be.TCSR.fromdense(dense)
    yield "scalar", be.JITCScalarR((1.5, 0.4, 3), shape=(N, M))
    if hasattr(be, "JITCNormalC"):
        yield "normal", be.JITCNormalC((1.5, 0.1, 0.4, 3), shape=(N, M))
        yield "uniform", be.JITCUniformR((0.5, 1.5, 0.4, 3), shape=(N, M))


def events(vector):
    """Yield what stands for spikes: those of a vector and of a matrix of which it is a column."""
    yield "floats", vector
    yield "spikes", be.BinaryArray(vector > 0.5)
    if hasattr(be, "WeightedArray"):
        yield "weighted", be.WeightedArray(jnp.where(vector > 0.5, vector, 0))


def products(matrix):
    for name, value in events(column):
        yield f"matrix @ {name}", lambda value=value: matrix @ value
        yield f"matrix @ {name}, jit", lambda value=value: jax.jit(lambda x: matrix @ x)(value)
    for name, value in events(row):
        yield f"{name} @ matrix", lambda value=value: value @ matrix
    stack = jnp.stack([column, 2 * column, column * column])
    yield "matrix @ stack", lambda: matrix @ stack.T
    yield "matrix @ spikes of a stack", lambda: matrix @ be.BinaryArray(stack.T > 0.5)
    yield "vmap", lambda: jax.vmap(lambda x: matrix @ be.BinaryArray(x > 0.5))(stack)
    yield "grad", lambda: jax.grad(lambda x: ((matrix @ x) ** 2).sum())(column)
    yield "grad of events", lambda: jax.grad(lambda x: (be.BinaryArray(x) @ matrix).sum())(row)


def functions():
    """Yield calls of what came with BrainEvent 0.3."""
    csr, csc = be.CSR.fromdense(dense), be.CSC.fromdense(dense)
    data, indices, indptr = csr.data, csr.indices, csr.indptr
    shape = {"shape": (N, M)}
    ring = jnp.zeros((4, M), jnp.float32)
    delays = jnp.asarray(rng.integers(1, 4, data.size), jnp.int32)
    spikes = be.BinaryArray(before)

    def delayed(data):
        return be.csr_delay_deliver(ring, spikes, data, indices, indptr, delays, 5, **shape)

    yield "delay", lambda: delayed(data)
    yield "delay, grad", lambda: jax.grad(lambda data: (delayed(data) ** 2).sum())(data)
    yield "slice", lambda: be.csr_slice_rows(data, indices, indptr, jnp.array([3, 1]), **shape)
    for transpose, y in ((False, row), (True, column)):
        given = (data, indices, indptr)
        kwargs = {**shape, "transpose": transpose}
        yield f"dt2t {transpose}", lambda g=given, y=y, k=kwargs: be.csrmv_dt2t(y, *g, **k)
        for law, parameters in (("s", (1.5,)), ("n", (1.5, 0.1)), ("u", (0.5, 1.5))):
            function = getattr(be, f"jit{law}mv_dt2t")
            yield (
                f"dt2t {law} {transpose}",
                lambda f=function, p=parameters, y=y, k=kwargs: f(*p, 0.4, y, 3, **k),
            )
    yield (
        "rule",
        lambda: be.csr_apply_on_pre(
            lambda edge, pre, post, _: edge + pre * post,
            *(data, indices, indptr, before),
            pre_vals=row,
            post_vals=column,
            **shape,
        ),
    )
    for axis in (0, 1):
        yield f"bits {axis}", lambda axis=axis: be.bitpack(dense > 0.5, axis)
    packed = be.BinaryArray(before).bitpack()
    yield "packed", lambda: [packed.value, *packed.packed]
    compact = be.CompactBinary.from_array(before)
    yield "compact", lambda: [compact.packed, compact.n_active, compact.active_ids[: before.sum()]]
    for name, matrix in (("csr", csr), ("csc", csc), *list(matrices())[3:5]):
        yield f"{name}, on pre", lambda m=matrix: m.update_on_pre(before, column).data
        yield f"{name}, on post", lambda m=matrix: m.update_on_post(row, after).data


def plasticity():
    on_pre, on_post = be.update_dense_on_binary_pre, be.update_dense_on_binary_post
    yield "dense, on pre", lambda: on_pre(jnp.asarray(dense), before, column, 0.0, 1.0)
    yield "dense, on post", lambda: on_post(jnp.asarray(dense), row, after, 0.0, 1.0)


def main():
    calls = [(f"{name}: {what}", run) for name, m in matrices() for what, run in products(m)]
    calls += plasticity()
    if hasattr(be, "csr_delay_deliver"):
        calls += functions()
    found = {}
    for name, run in calls:
        for i, value in enumerate(jax.tree.leaves(run())):
            found[f"{name} {i}"] = np.asarray(value)
    np.savez(results, **found)
    print(len(found))


main()
