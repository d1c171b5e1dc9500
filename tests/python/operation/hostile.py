"""Calls of kernbridge's targets by hand, and programs with changed bytes, drawn from a seed.

`write` exports programs in one process, and `calls` and `blobs` run changed ones in another, which
knows none of the kernels. A changed call or program must fail, or give what a kernel gives.
"""

import pickle
import random

import jax
import jax.numpy as jnp
import numpy as np

N = 8
FORMULAS = {"axpy": lambda x, y: 2 * x + y, "add": lambda x, y: x + y, "neg": lambda x: -x}
TARGETS = [
    *("kernbridge.host", "kernbridge.host.carrier", "kernbridge.cuda.host"),
    *("kernbridge.cuda.host.carrier", "kernbridge.absent", "kernbridge.cuda"),
    *("kernbridge.cuda.graph", "kernbridge.cuda.carrier", "kernbridge.host.split"),
]
DTYPES = ["float32"] * 6 + ["int32", "float16", "bfloat16", "int8", "bool", "uint8"]


def write(path):
    """Export programs; a file has them, and the attributes of their calls."""
    import kernbridge
    import numba

    @numba.njit
    def axpy(x, y, out):
        for i in range(out.size):
            out[i] = 2 * x[i] + y[i]

    @numba.njit
    def neg(x, out):
        for i in range(out.size):
            out[i] = -x[i]

    row = jax.ShapeDtypeStruct((N,), jnp.float32)
    operations = {
        "axpy": kernbridge.numba_kernel(axpy, row),
        "neg": kernbridge.numba_kernel(neg, row),
        "add": _on_the_gpu(row),
    }
    written, seen = [], []
    lowering = jax.ffi.ffi_lowering

    def recording(target, **options):
        rule = lowering(target, **options)

        def record(ctx, *operands, **attributes):
            seen.append((target, attributes))
            return rule(ctx, *operands, **attributes)

        return record

    jax.ffi.ffi_lowering = recording
    for name, operation in operations.items():
        if operation is None:
            continue
        rows = jax.ShapeDtypeStruct((3, N), jnp.float32)
        for batched, type_ in ((False, row), (True, rows)):
            seen.clear()
            f = jax.jit(jax.vmap(operation) if batched else operation)
            types = [type_] * FORMULAS[name].__code__.co_argcount
            blob = jax.export.export(f)(*types).serialize()
            written.append((name, bytes(blob), [t.shape for t in types], list(seen)))
    with open(path, "wb") as file:
        pickle.dump(written, file)


def _on_the_gpu(row):
    """A CUDA kernel whose program has code for the CPU; None without Numba-CUDA."""
    try:
        from numba import cuda
    except ImportError:
        return None
    import kernbridge

    @cuda.jit
    def add(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    return kernbridge.numba_cuda_kernel(add, row, launch_dims=N)


def _changed_bytes(r, data):
    data = bytearray(data)
    what = r.random()
    if what < 0.7 and data:
        for _ in range(r.choice([1, 1, 2, 8])):
            data[r.randrange(len(data))] ^= 1 << r.randrange(8)
    elif what < 0.85:
        del data[r.randrange(len(data) + 1) :]
    else:
        data += r.randbytes(r.choice([1, 8, 1000, 1 << 14]))
    return bytes(data)


def _other_value(r, value):
    """A changed value of an attribute, or one of another type."""
    kind = value.dtype if isinstance(value, np.ndarray) else None
    if kind in (np.uint8, np.int64) and r.random() < 0.8:
        if kind == np.uint8:
            return np.frombuffer(_changed_bytes(r, value.tobytes()), np.uint8)
        words = value.tolist()
        at = r.randrange(len(words) + 1)
        word = r.choice([0, 1, 2, 3, -1, 255, 256, 257, 512, 768, 1 << 40, -(1 << 63), 1 << 62])
        words[at : at + r.randrange(2)] = [word] * r.randrange(4)
        return np.array(words, kind)
    if isinstance(value, str) and r.random() < 0.8:
        if r.random() < 0.2:
            return r.choice(["", "{}", "[]", "3", "[" * 5_000, '{"format":2}', "\0", "\u20ac" * 9])
        return _changed_bytes(r, value.encode()).decode("latin-1")
    return r.choice(
        [
            *("text", 1.5, True, np.int32(3), np.int64(1 << 40), np.zeros(0, np.int64)),
            *(np.zeros(32, np.uint8), np.arange(4.0), np.zeros(32, np.int8), np.zeros(1 << 12)),
        ]
    )


def _changed_attributes(r, attributes, others):
    attributes = dict(attributes)
    for _ in range(r.choice([0, 1, 1, 1, 2, 3])):
        what, name = r.random(), r.choice([*attributes, "elsewhere"])
        if what < 0.2:
            attributes.pop(name, None)
        elif what < 0.3:
            attributes[r.choice(["a", "zz", "sharding", "elsewhere"])] = _other_value(r, 0)
        elif what < 0.4 and name in (other := r.choice(others)):
            attributes[name] = other[name]
        else:
            attributes[name] = _other_value(r, attributes.get(name, True))
    return attributes


def _array(r, shape):
    dtype = jnp.dtype(r.choice(DTYPES))
    if r.random() < 0.2:
        shape = r.choice([(), (N,), (1, N), (3, N), (3, 1, N), (0, N)])
    return np.random.default_rng(r.randrange(99)).integers(-9, 9, shape).astype(dtype)


def _is_right(arguments, results):
    """Whether the results are those of one of the kernels, if there are any."""
    if not results:
        return True
    for formula in FORMULAS.values():
        if formula.__code__.co_argcount == len(arguments):
            expected = formula(*(np.asarray(a, np.float32) for a in arguments))
            for got in results:
                if got.shape == expected.shape and np.array_equal(np.asarray(got), expected):
                    return True
    return all(got.size == 0 for got in results)


def _tell(index, outcome, counts):
    counts[outcome] = counts.get(outcome, 0) + 1
    if outcome == "WRONG":
        print("WRONG", index, flush=True)


def calls(path, seed, n):
    """Make calls by hand; print how they ended, and the last one if the process ends."""
    with open(path, "rb") as file:
        programs = pickle.load(file)
    known = [(t, a, shapes) for _, _, shapes, seen in programs for t, a in seen]
    others, counts = [a for _, a, _ in known], {}
    for index in range(n):
        r = random.Random(f"{seed} {index}")
        with open(f"{path}.at", "w") as at:
            at.write(f"calls: seed {seed}, index {index}")
        target, attributes, shapes = r.choice(known)
        if r.random() < 0.2:
            target = r.choice(TARGETS)
        arguments = [_array(r, shape) for shape in shapes]
        if r.random() < 0.1:
            arguments = arguments[1:] if r.random() < 0.5 else [*arguments, arguments[0]]
        out = jax.ShapeDtypeStruct(shapes[0], jnp.float32)
        if r.random() < 0.1:
            out = jax.ShapeDtypeStruct(r.choice([(), (N,), (3, N)]), jnp.dtype(r.choice(DTYPES)))
        outs = r.choice([[out]] * 9 + [[], [out, out]])
        changed = _changed_attributes(r, attributes, others)
        try:
            call = jax.ffi.ffi_call(target, outs, has_side_effect=True)
            results = jax.jit(lambda *a, c=call, k=changed: c(*a, **k))(*arguments)
            jax.block_until_ready(results)
        except Exception as e:
            _tell(index, "refused" if str(e) else "WRONG", counts)
        else:
            _tell(index, "right" if _is_right(arguments, results) else "WRONG", counts)
    print(sorted(counts))


def flips(path, seed, n):
    """Flip bits of machine code and digests in programs, then run the programs as they are."""
    with open(path, "rb") as file:
        programs = pickle.load(file)
    counts = {}
    for index in range(n + len(programs)):
        r = random.Random(f"{seed} {index}")
        _, blob, shapes, seen = programs[index % len(programs) if index >= n else r.randrange(6)]
        data = bytearray(blob)
        if index < n:
            with open(f"{path}.at", "w") as at:
                at.write(f"flips: seed {seed}, index {index}")
            parts = [v for _, a in seen for k, v in a.items() if k in ("digest", "program")]
            content = r.choice(parts).tobytes()
            begin = blob.index(content)
            data[begin + r.randrange(len(content))] ^= 1 << r.randrange(8)
        arguments = [_array(random.Random(3), shape) for shape in shapes]
        try:
            results = jax.export.deserialize(data).call(*arguments)
            jax.block_until_ready(results)
        except Exception as e:
            _tell(index, "refused" if index < n else "WRONG", counts)
            if index >= n:
                print(e)
        else:
            right = _is_right(arguments, [results]) and index >= n
            _tell(index, "right" if right else "WRONG", counts)
    print(sorted(counts))
