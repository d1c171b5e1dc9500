"""Draws of kernels and functions that differ in one hidden thing; see test_hidden_difference.

Each place is source text of a function `f(x, out)`, or of a host function, that finds a value `C`
somewhere. Pools of values are small on purpose: kernels of equal content share their machine code,
so a collision of two identities gives a wrong number.
"""

import functools
import itertools
import math
import random
import sys
import types
import warnings
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np

VALUES = [0.0, -0.0, 1, True, 1.0, 2.5]
X = np.array([1.5, 0.25], np.float32)
OUT = jax.ShapeDtypeStruct((3,), jnp.float32)
BATCH = 100  # pairs in one XLA program
Point = namedtuple("Point", "y C")
KINDS = {"b": 1.0, "i": 2.0, "f": 3.0}


def kind_of(value):
    """1 for a bool, 2 for an int, 3 for a float; in compiled code by type."""
    return KINDS[np.asarray(value).dtype.kind]


BODY = """
def f(x, out{parameter}):
    {before}
    out[0] = x[0] * {C} + x[1]
    out[1] = copysign(1.0, {C})
    out[2] = kind_of({C})
"""
F = BODY.replace("{before}", "pass").replace("{parameter}", "")
NEXT = "@jit\ndef g(x): return C\n"
# Text around `f`, how `f` writes the value; names in braces are filled in.
KERNELS = {
    "global": (F, "C"),
    "closure": ("def make(C):\n" + F.replace("\n", "\n ") + "\n return f\nf = make(C)\n", "C"),
    "default": (BODY.replace("{before}", "pass").replace("{parameter}", ", c=C"), "c"),
    "module attribute": (F, "m.A"),
    "submodule attribute": (F, "m.sub.A"),
    "tuple": (F, "t[1]"),
    "named tuple": (F, "p.C"),
    "array": (F, "a[1]"),
    "inner function": (BODY.replace("{before}", "g = lambda: C").replace("{parameter}", ""), "g()"),
    "callee": (NEXT + F, "g(1)"),
    "callee of a callee": (NEXT + "@jit\ndef h(x): return g(x)\n" + F, "h(1)"),
    "constant of the code": (F, "{literal}"),
}
# What is registered with Numba, where the last one counts or each has a function of its own. Numba
# mixes methods of one name that return different types.
TAUGHT = {
    "method": ("@overload_method(types.Array, 'told')\ndef _(a): return lambda a: 1.0 * C\n" + F,
               "x.told()"),
    "attribute": ("@overload_attribute(types.Array, 'said')\ndef _(a):\n"
                  " return lambda a: 1.0 * C\n" + F, "x.said"),
    "class attribute": ("class K: c = C\nhome.K = K\ndef g(): pass\n@overload(g)\ndef _():\n"
                        " c = K.c\n return lambda: c\n" + F, "g()"),
    "function that an overload returns": ("def g(): pass\ndef h(): return C\n@overload(g)\n"
                                          "def _(): return h\n" + F, "g()"),
    "intrinsic": ("@intrinsic\ndef g(t):\n return typeof(C)(), "
                  "lambda c, b, s, a: c.get_constant(typeof(C), C)\n" + F, "g()"),
    "jitclass": ("@jitclass([('c', typeof(C))])\nclass J:\n def __init__(self): self.c = C\n" + F,
                 "J().c"),
    "structure": ("@structref.register\nclass T(types.StructRef): pass\n"
                  "class S(structref.StructRefProxy): pass\nhome.S, home.T = S, T\n"
                  "structref.define_constructor(S, T, ['c'])\n@overload_method(T, 'get')\n"
                  "def _(s): return lambda s: C\n" + F, "S(1).get()"),
    "guvectorize": ("@guvectorize('(n)->(n)')\ndef u(a, r): r[0] = C\n@jit\ndef g():\n"
                    " r = np.zeros(1, np.array(C).dtype)\n u(r, r)\n return r[0]\n" + F, "g()"),
}  # fmt: skip
HOST = "def run(x, out, stream{parameter}):\n c = {C}\n show[1, 1, stream](x, out, c * 1.0, " \
    "math.copysign(1.0, c), kind_of(c))\n"  # fmt: skip
H = HOST.replace("{parameter}", "")
OBJECT = "class Layer:\n def __init__(self, c): self.c = c\n" + H.replace(
    "run(x", "run(self, x"
).replace("def", " def", 1).replace("\n c", "\n  c").replace("\n show", "\n  show")
FUNCTIONS = {
    "global": (H, "C", "run"),
    "closure": ("def make(C):\n " + H.replace("\n ", "\n  ") + " return run\n", "C", "make(C)"),
    "default": (HOST.replace("{parameter}", ", c0=C"), "c0", "run"),
    "keyword default": (HOST.replace("{parameter}", ", *, c0=C"), "c0", "run"),
    "module attribute": (H, "m.sub.A", "run"),
    "list": (H, "box[0]", "run"),
    "deep list": (H, "deep['k'][0][0]", "run"),
    "array": (H, "a[1]", "run"),
    "helper": ("def g(): return C\n" + H, "g()", "run"),
    "method": (OBJECT, "self.c", "Layer(C).run"),
    "called object": (OBJECT.replace("def run", "def __call__"), "self.c", "Layer(C)"),
    "class attribute": (OBJECT + "Layer.k = C\n", "self.k", "Layer(0).run"),
    "property": (OBJECT + "Layer.k = property(lambda self: self.c)\n", "self.k", "Layer(C).run"),
    "partial": (HOST.replace("run(x", "run(c0, x").replace("{parameter}", ""), "c0",
                "functools.partial(run, C)"),
    "wrapper": ("def base(x, out, stream): pass\n@functools.wraps(base)\n" + H, "C", "run"),
}  # fmt: skip
SHARED = ("list", "deep list", "array", "method")  # one object that changes between two draws


def names_of(value, jit):
    """What the text may find the value by."""
    module = types.ModuleType("hidden_constants")
    module.A = value
    module.sub = types.ModuleType("hidden_constants.sub")
    module.sub.A = value
    return {
        "C": value, "m": module, "t": (7, value), "p": Point(7, value), "box": [value],
        "a": np.array([value, value]), "deep": {"k": [[value]]}, "jit": jit, "math": math,
        "copysign": math.copysign, "kind_of": kind_of, "functools": functools,
    }  # fmt: skip


def taught_kernel_of(place, value, jit):
    """A new function `f` that must be compiled before the next one, and what it should store."""
    import numba
    from numba import extending
    from numba.experimental import jitclass, structref

    home = sys.modules.setdefault("hidden_kernels", types.ModuleType("hidden_kernels"))
    space = {**vars(extending), **vars(numba), **names_of(value, jit), "__name__": home.__name__}
    space.update(jitclass=jitclass, structref=structref, home=home, np=np)
    text, written = TAUGHT[place]
    exec(text.replace("{C}", written), space)
    value = value * 1.0 if place in ("method", "attribute") else value
    return jit(space["f"]), kernel_of("global", value, jit)[1]


def kernel_of(place, value, jit, inner=None):
    """A new function `f`, whose callees `inner` compiles, and what plain Python gives for it."""
    text, written = KERNELS[place]
    if inner is not None:  # a CUDA kernel
        text = text.replace("kind_of({C})", "3.0")
    written = written.replace("{literal}", repr(value))
    results = []
    for compiler in (inner or jit, lambda f: f):
        space = {"__name__": "hidden_kernels", **names_of(value, compiler)}
        exec(text.replace("{C}", written), space)
        results.append(space["f"])
    expected = np.full(3, np.nan, np.float32)
    results[1](X, expected)
    return jit(results[0]), expected


def function_of(place, value, show, space=None):
    """A host function, and what it should store; the space in which it was made."""
    text, written, made = FUNCTIONS[place]
    if space is None:
        space = {"__name__": "hidden_functions", "show": show, **names_of(value, None)}
        exec(text.replace("{C}", written), space)
        space["made"] = eval(made, space)
    else:  # the same object, in another state
        space["box"][0] = space["deep"]["k"][0][0] = value
        space["a"] = np.array([value, value])
        if place == "method":
            space["made"].__self__.c = value
    stored = [X[0] * np.float32(value) + X[1], math.copysign(1.0, value), kind_of(value)]
    return space["made"], np.array(stored, np.float32), space


def compare(pairs, differences):
    """Run operations in one program and compare each with what it should give."""
    found = jax.jit(lambda x: [op(x) for _, op, _ in pairs])(X)
    for (what, _, expected), result in zip(pairs, found, strict=True):
        result = np.asarray(result)
        if result.tobytes() != expected.tobytes():
            differences.append(f"{what}: {result} and not {expected}")


def draw(kind, seed, n):
    """Draw `n` pairs of a kind that differ in one hidden thing; returns what came out wrong."""
    import kernbridge

    warnings.simplefilter("ignore")
    rng, differences, pairs = random.Random(f"{kind} {seed}"), [], []
    if kind == "numba":
        import numba
        from numba.core import types as nb
        from numba.extending import overload

        jit, inner = numba.njit, None

        @overload(kind_of)
        def _(value):
            kinds = ((nb.Boolean, 1.0), (nb.Integer, 2.0), (nb.Float, 3.0))
            found = next(number for t, number in kinds if isinstance(value, t))
            return lambda value: found

        kernels, values, wrap = KERNELS, VALUES, kernbridge.numba_kernel
    else:
        from numba import cuda

        @cuda.jit
        def show(x, out, c, sign, kind):
            out[0], out[1], out[2] = x[0] * c + x[1], sign, kind

        jit, inner = cuda.jit, cuda.jit(device=True)
        wrap = functools.partial(kernbridge.numba_cuda_kernel, grid=1, block=1)
        values = VALUES if kind == "callable" else [0.0, -0.0, 2.5]
        kernels = {p: k for p, k in KERNELS.items() if p != "callee of a callee"}
    for i in range(n):
        places = FUNCTIONS if kind == "callable" else kernels
        if kind == "numba" and i % 8 == 0:  # these take long to compile
            places = TAUGHT
        place = rng.choice(sorted(places))
        one, other = rng.sample(values, 2)
        space = None
        for value in (one, other):
            what = f"seed {seed}, draw {i}, {kind}, {place}, {value!r}"
            if kind == "callable":
                space = space if place in SHARED and rng.random() < 0.5 else None
                f, expected, space = function_of(place, value, show, space)
                op = kernbridge.numba_cuda_callable(f, OUT, record="always")
                # Recorded now: the next draw may change the same object.
                if place in SHARED:
                    compare([(what, op, expected)], differences)
                    continue
            elif places is TAUGHT:
                f, expected = taught_kernel_of(place, value, jit)
                compare([(what, wrap(f, OUT), expected)], differences)
                continue
            else:
                f, expected = kernel_of(place, value, jit, inner)
                op = wrap(f, OUT)
            pairs.append((what, op, expected))
        if len(pairs) >= 2 * BATCH or (pairs and i == n - 1):
            compare(pairs, differences)
            pairs = []
    return differences


if __name__ == "__main__":
    kind, seed, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for line in itertools.islice(draw(kind, seed, n), 20):
        print(line)
    print("drawn", n)
