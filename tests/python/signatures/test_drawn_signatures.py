"""Drawn signatures, kernels and calls: what fits is right, what does not is refused by name.

An element of an output is the sum of all numbers, and of those elements of each array that agree
with it in the dimensions that both have; of a dimension `n + 1`, two neighbours.
"""

import random
import re

import jax
import kernbridge
import numba
import numpy as np
import pytest
from sharded import collectives, put

pytestmark = pytest.mark.once
DTYPES = {"f32": np.float32, "i32": np.int32, "bool": np.bool_, "T": np.float32}


class Drawn:
    """A kernel, its signature, and the inputs of a call."""

    def __init__(self, seed):
        self.draw = draw = random.Random(seed)
        self.extents = {name: draw.choice((4, 8)) for name in "abc"}
        self.inputs = [self.array(i) for i in range(draw.randint(1, 3))]
        pure = {d for _, dims in self.inputs for d in dims or () if d in self.extents}
        self.outputs = []
        for _ in range(draw.randint(1, 2)):
            dims = draw.sample(sorted(pure), min(len(pure), draw.choice((0, 1, 1, 2))))
            if dims and draw.random() < 0.1:
                dims[-1] = f"{dims[-1]} + 2"
            self.outputs.append((draw.choice(("f32", "i32")), dims))
        texts = [f"p{i}: {self.text(t)}" for i, t in enumerate(self.inputs)]
        self.signature = f"{', '.join(texts)} -> {', '.join(map(self.text, self.outputs))}"
        names = {}
        exec(self.source(), names)
        self.kernel = names["drawn"]
        self.arrays = [self.values(*t) for t in self.inputs]

    def array(self, i):
        if i and self.draw.random() < 0.2:
            return self.draw.choice(("f32", "i32")), None  # a number
        forms = ("{}", "{}", "{} + 1", "{} + 1", "2 * {}", "3")
        dims = [
            self.draw.choice(forms).format(self.draw.choice("abc"))
            for _ in range(self.draw.randint(1, 2))
        ]
        if not i:
            dims[0] = self.draw.choice("abc")
        return self.draw.choice(tuple(DTYPES)), dims

    def text(self, type):
        dtype, dims = type
        return dtype if dims is None else f"{dtype}[{', '.join(dims)}]"

    def shape(self, dims):
        return tuple(eval(d, dict(self.extents)) for d in dims or ())

    def values(self, dtype, dims):
        rng = np.random.default_rng(self.draw.randint(0, 999))
        return rng.integers(0, 4, self.shape(dims)).astype(DTYPES[dtype])

    def source(self):
        parameters = [f"p{i}" for i in range(len(self.inputs))]
        parameters += [f"o{j}" for j in range(len(self.outputs))]
        lines = [f"def drawn({', '.join(parameters)}):"]
        for j, (_, dims) in enumerate(self.outputs):
            indent = " "
            for d in range(len(dims)):
                lines.append(f"{indent}for i{d} in range(o{j}.shape[{d}]):")
                indent += " "
            lines.append(f"{indent}total = 0.0")
            for i, (_, own) in enumerate(self.inputs):
                inside, index = indent, []
                for k, dim in enumerate(own or ()):
                    base = dim.removesuffix(" + 1")
                    where = f"range(p{i}.shape[{k}])"
                    if base in dims:
                        at = f"i{dims.index(base)}"
                        where = f"range({at}, {at} + {1 + (base != dim)})"
                    lines.append(f"{inside}for k{k} in {where}:")
                    inside += " "
                    index.append(f"k{k}")
                lines.append(f"{inside}total += p{i}" + f"[{', '.join(index)}]" * (own is not None))
            place = ", ".join(f"i{d}" for d in range(len(dims))) or "()"
            lines.append(f"{indent}o{j}[{place}] = total")
        return "\n".join(lines)

    @property
    def expected(self):
        outs = [np.zeros(self.shape(dims), DTYPES[dtype]) for dtype, dims in self.outputs]
        self.kernel(*(a if a.ndim else a[()] for a in self.arrays), *outs)
        return outs

    def changed(self):
        """A call that does not fit, and what the message about it names."""
        arrays = list(self.arrays)
        places = [(i, k, d) for i, (_, dims) in enumerate(self.inputs)
                  for k, d in enumerate(dims or ())]  # fmt: skip
        used = [n for _, _, d in places for n in re.findall("[abc]", d)]
        tied = [p for p in places if p[2] == "3" or used.count(re.search("[abc]", p[2])[0]) > 1]
        if not tied or self.draw.random() < 0.2:
            i, (_, dims) = self.draw.choice([*enumerate(self.inputs)])
            if dims is not None and self.draw.random() < 0.5:
                arrays[i] = arrays[i][None]
                return arrays, "number of dimensions"
            arrays[i] = arrays[i].astype(np.int8)
            said = f"'p{i}'|its dtype differs|T is int8"
            return (arrays, said) if self.inputs[i][0] != "T" else (arrays, None)
        i, k, dim = self.draw.choice(tied)
        arrays[i] = np.concatenate([arrays[i], arrays[i].take([0], k)], k)
        return arrays, f"{re.search('[abc]', dim)[0]} is|{re.escape(dim)}" if dim != "3" else "is 4"


def check(seed):
    drawn = Drawn(seed)
    kernel = numba.njit(drawn.kernel)
    op = kernbridge.numba_kernel(kernel, signature=drawn.signature)
    expected = drawn.expected

    def same(found):
        for one, want in zip(jax.tree.leaves(found), expected, strict=True):
            assert one.dtype == want.dtype, drawn.signature
            np.testing.assert_array_equal(one, want, drawn.signature)

    shapes = [(t.shape, t.dtype) for t in jax.tree.leaves(jax.eval_shape(op, *drawn.arrays))]
    assert shapes == [(t.shape, t.dtype) for t in expected], drawn.signature
    same(jax.jit(op)(*drawn.arrays))
    arrays, said = drawn.changed()
    if said is not None:
        with pytest.raises(TypeError, match=rf"(?s)({said}).*KB2007"):
            jax.eval_shape(op, *arrays)
    if jax.device_count() < 4:
        return
    split = kernbridge.numba_kernel(kernel, signature=drawn.signature, sharding_rule=True)
    rule = split.spec.sharding_rule
    names = [n for n in "abc" if all(n in term for term in rule.outputs)]
    if not names:
        return
    name = drawn.draw.choice(names)
    terms = iter(rule.inputs)
    given = []
    for array, (_, dims) in zip(drawn.arrays, drawn.inputs, strict=True):
        term = next(terms) if dims is not None else ()
        given.append(put(array, *("x" if n == name else None for n in term)))
    same(jax.jit(split)(*given))
    assert not collectives(split, *given), drawn.signature


@pytest.mark.brief
@pytest.mark.parametrize("seed", range(6))
def test_drawn_signatures(seed):
    for k in range(5):
        check(5 * seed + k)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(20))
def test_many_drawn_signatures(seed):
    for k in range(50):
        check(1000 + 50 * seed + k)
