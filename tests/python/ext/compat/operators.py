"""What BrainEvent's operators compute for the data that they are benchmarked with.

Run as ``python operators.py (own | kernbridge) results.npz N``: with BrainEvent's own bridge or
with kernbridge in its place, for one of N of the data. Each operator is called on the CPU with each
of its backends, eagerly, under `jax.jit`, under `jax.vmap`, and differentiated.
"""

import sys

which, results, every = sys.argv[1], sys.argv[2], int(sys.argv[3])
if which == "kernbridge":
    import kernbridge.compat.brainevent

    kernbridge.compat.brainevent.install()

import brainevent  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402


def forms(op, config, backend):
    """Yield the name of each way to call an operator, and a function that does."""
    arrays = [i for i, a in enumerate(config.args) if isinstance(a, jax.Array)]
    floats = [i for i in arrays if jnp.issubdtype(config.args[i].dtype, jnp.floating)]

    def call(*given):
        args = list(config.args)
        for i, value in zip(arrays, given, strict=True):
            args[i] = value
        return op.call(*args, **config.kernel_kwargs, backend=backend)

    def total(*given):
        outputs = jax.tree.leaves(call(*given))
        return sum(jnp.sum(o * o) for o in outputs if jnp.issubdtype(o.dtype, jnp.floating))

    inputs = [config.args[i] for i in arrays]
    yield "eager", lambda: call(*inputs)
    yield "jit", lambda: jax.jit(call)(*inputs)
    mapped = [0 if i in floats else None for i in arrays]
    if floats:
        both = [jnp.stack([a, 2 * a]) if m == 0 else a for a, m in zip(inputs, mapped, strict=True)]
        yield "vmap", lambda: jax.vmap(call, tuple(mapped))(*both)
        wanted = tuple(arrays.index(i) for i in floats)
        yield "grad", lambda: jax.grad(total, wanted)(*inputs)


def main():
    found = {}
    count = 0
    for name, op in sorted(brainevent.get_registry().items()):
        if op._benchmark_data_fn is None:
            continue
        np.random.seed(0)
        for config in list(op._benchmark_data_fn(platform="cpu")):
            for backend in op.available_backends("cpu"):
                count += 1
                if count % every:
                    continue
                for form, run in forms(op, config, backend):
                    key = f"{name} {config.name} {backend} {form}"
                    try:
                        values = jax.tree.leaves(run())
                    except Exception as e:  # a bridge may raise a more special type
                        builtin = next(c for c in type(e).__mro__ if c.__module__ == "builtins")
                        found[f"{key}: {builtin.__name__}"] = np.zeros(0)
                        continue
                    for i, value in enumerate(values):
                        if value.dtype == jax.dtypes.float0:
                            value = np.zeros(value.shape, bool)
                        found[f"{key} {i}"] = np.asarray(value)
    np.savez(results, **found)
    print(len(found))


main()
