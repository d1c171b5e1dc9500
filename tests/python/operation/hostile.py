"""Calls of kernbridge's targets by hand, and programs with changed bytes, drawn from a seed.

`write` exports programs in one process, and `calls`, `flips` and `edits` run changed ones in
another, which knows none of the kernels. A changed call or program must fail, or give what a kernel
gives.
"""

import dataclasses
import pickle
import random
import re

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.mlir.dialects import stablehlo

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
    _as_written(known, counts)
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


def _as_written(known, counts):
    """Make unchanged calls, which must be right, and a call of no target, which must be refused."""
    for target, attributes, shapes in [*known, ("kernbridge.absent", *known[0][1:])]:
        if target.endswith(".carrier") or "program" not in attributes:
            continue  # the one has no results, and the other needs the one
        arguments = [np.ones(shape, np.float32) for shape in shapes]
        call = jax.ffi.ffi_call(target, [jax.ShapeDtypeStruct(shapes[0], jnp.float32)])
        try:
            results = jax.block_until_ready(call(*arguments, **attributes))
        except Exception as e:
            refused = target == "kernbridge.absent"
            _tell(f"{target}: {e}", "refused" if refused else "WRONG", counts)
        else:
            right = _is_right(arguments, results) and target != "kernbridge.absent"
            _tell(target, "right" if right else "WRONG", counts)


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


CALL = re.compile(
    r"%(?P<id>\d+) = stablehlo\.custom_call @(?P<target>[\w.]+)\((?P<operands>[^)]*)\) "
    r"\{(?P<attributes>.*)\} : \((?P<types>[^)]*)\) -> (?P<result>tensor<[^>]*>|\(\))"
)
VALUES = [
    *("true", "7 : i32", "7 : i64", "1.5 : f32", '""', '"text"', "[]", "[1, 2]"),
    *("dense<> : tensor<0xui8>", "dense<1> : tensor<32xui8>", "dense<3> : tensor<1xi64>"),
    *("dense<-1> : tensor<6xi64>", "dense<1> : tensor<4xi32>", "dense<1.0> : tensor<4xf64>"),
    *("dense<true> : tensor<4xi1>", "dense<9223372036854775807> : tensor<3xi64>", "{a = 1 : i64}"),
]
TYPES = [
    "8xf32",
    "9xf32",
    "8xf64",
    "8xi32",
    "8xi1",
    "8xf16",
    "f32",
    "0xf32",
    "3x8xf32",
    "3x1x8xf32",
]
LAYOUTS = ["dense<[0, 1]> : tensor<2xindex>", "dense<[1, 0]> : tensor<2xindex>"]
LAYOUTS += ["dense<0> : tensor<1xindex>", "dense<> : tensor<0xindex>", "dense<7> : tensor<1xindex>"]
ALIAS = (
    "#stablehlo.output_operand_alias<output_tuple_indices = [{}], "
    "operand_index = {}, operand_tuple_indices = [{}]>"
)


def _split(text, by=", "):
    """Split at commas that are in no brackets and no string."""
    parts, depth, quoted, begin = [], 0, False, 0
    for i, c in enumerate(text):
        quoted ^= c == '"'
        depth += not quoted and (c in "([{<") - (c in ")]}>")
        if not depth and not quoted and text.startswith(by, i):
            parts.append(text[begin:i])
            begin = i + len(by)
    return [*parts, text[begin:]] if text else []


def _entries(text):
    return dict(part.split(" = ", 1) for part in _split(text))


def _text(call, attributes=None, target=None, operands=None, types=None, result=None, to=None):
    """Write a call of which some parts are others."""
    attributes = ", ".join(f"{k} = {v}" for k, v in (attributes or call["attributes"]).items())
    names = ", ".join(call["operands"] if operands is None else operands)
    kinds = ", ".join(call["types"] if types is None else types)
    head = f"%{to or call['id']} = stablehlo.custom_call @{target or call['target']}({names})"
    return f"{head} {{{attributes}}} : ({kinds}) -> {result or call['result']}"


def _others(values, name):
    """Dictionaries in which one value is gone, or another."""
    yield {k: v for k, v in values.items() if k != name}
    for value in VALUES:
        yield {**values, name: value}


def _edited_attributes(attributes):
    """Every edit of a call's attributes, kernbridge's and XLA's, but those of layouts."""
    outer = attributes
    inner = _entries(outer["mhlo.backend_config"][1:-1])
    for name in [*inner, "elsewhere"]:
        for edited in _others(inner, name):
            text = ", ".join(f"{k} = {v}" for k, v in edited.items())
            yield {**outer, "mhlo.backend_config": "{" + text + "}"}
    yield from _others(outer, "mhlo.backend_config")
    for places in [("", 0, ""), ("", 1, ""), ("", 9, ""), ("", -1, ""), (0, 0, ""), ("", 0, 0)]:
        aliases = ALIAS.format(*places)
        yield {**outer, "output_operand_aliases": f"[{aliases}]"}
        yield {**outer, "output_operand_aliases": f"[{aliases}, {aliases}]"}
    for version in range(6):
        yield {**outer, "api_version": f"{version} : i32"}
    yield {**outer, "has_side_effect": "true"}


def _edited_layouts(attributes):
    """Every edit of the layouts, in which XLA hands over the elements without telling the call."""
    outer = attributes
    for key in ("operand_layouts", "result_layouts"):
        given = _split(outer[key][1:-1])
        yield {k: v for k, v in outer.items() if k != key}
        for layouts in ([], given * 2, *([*given[:-1], layout] for layout in LAYOUTS)):
            yield {**outer, key: f"[{', '.join(layouts)}]"}


def _edited_types(call):
    """Every edit of the operands' types and of the result's: whether it must be refused, and it."""
    names, kinds = call["operands"], call["types"]
    outer = {k: v for k, v in call["attributes"].items() if not k.endswith("layouts")}
    outer["has_side_effect"] = "true"
    for other in TYPES:
        type_, refused = f"tensor<{other}>", not other.endswith("f32")
        one = "true" if other.endswith("i1") else "1.0" if "f" in other else "1"
        for i in range(len(names)):
            operands = [*names[:i], "%other", *names[i + 1 :]]
            types = [*kinds[:i], type_, *kinds[i + 1 :]]
            text = _text(call, outer, operands=operands, types=types)
            yield refused, f"%other = stablehlo.constant dense<{one}> : {type_}\n    {text}"
        text = _text(call, outer, result=type_, to="other")
        zeros = f"stablehlo.constant dense<0.0> : {call['result']}"
        yield refused, f"{text}\n    %{call['id']} = {zeros}"
    yield True, _text(call, outer, operands=names[1:], types=kinds[1:])
    yield True, _text(call, outer, operands=names * 2, types=kinds * 2)


def _edits(text):
    """Every edit of a program: what may come of it, what is edited, and the new text."""
    for found in CALL.finditer(text):
        call = found.groupdict()
        call["operands"], call["types"] = _split(call["operands"]), _split(call["types"])
        call["attributes"] = _entries(call["attributes"])
        edits = [("right", _text(call, a)) for a in _edited_attributes(call["attributes"])]
        edits += [("right", _text(call, target=t)) for t in [*TARGETS, "kernbridge.none"]]
        edits += [("any", _text(call, a)) for a in _edited_layouts(call["attributes"])]
        if call["types"]:  # no carrier
            for refused, edited in _edited_types(call):
                edits.append(("none" if refused else "any", edited))
        for allowed, edited in edits:
            yield allowed, edited, text[: found.start()] + edited + text[found.end() :]


def edits(path, seed, n):
    """Edit the StableHLO of programs at every place, and run `n` of what comes of it."""
    with open(path, "rb") as file:
        programs = pickle.load(file)
    every, unchanged, counts = [], [], {}
    for _, blob, shapes, _ in programs:
        exported = jax.export.deserialize(bytearray(blob))
        unchanged.append((exported, shapes, "right", "", exported.mlir_module()))
        every += [(exported, shapes, *edit) for edit in _edits(exported.mlir_module())]
    absent = unchanged[0][-1].replace("@kernbridge.host(", "@kernbridge.absent(")
    fixed = [*unchanged, (*unchanged[0][:2], "none", "no such target", absent)]
    indices = random.Random(seed).sample(range(len(every)), min(n, len(every)))
    for index in [*range(-len(fixed), 0), *indices]:
        exported, shapes, allowed, edited, text = every[index] if index >= 0 else fixed[index]
        with open(f"{path}.at", "w") as at:
            at.write(f"edits: index {index}: {edited}")
        arguments = [_array(random.Random(3), shape) for shape in shapes]
        try:
            code = stablehlo.serialize_portable_artifact_str(text, "1.0.0")
            program = dataclasses.replace(exported, mlir_module_serialized=code)
            results = jax.block_until_ready(program.call(*arguments))
        except Exception as e:
            refused = str(e) and not (allowed == "right" and index < 0)
            _tell(index, "refused" if refused else "WRONG", counts)
        else:
            right = allowed == "any" or (allowed == "right" and _is_right(arguments, [results]))
            _tell(index, "right" if right else "WRONG", counts)
            if not right:
                print(edited)
    print(sorted(counts))
