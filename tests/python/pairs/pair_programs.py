"""Draws programs of two or three features from a seed, writes them, and runs them.

A program is text: definitions (pair_fronts.py), arguments, and a function `program` that transforms
another function. It runs with the operation and with the reference in JAX, and both must agree.

    python tests/python/pairs/pair_programs.py SEED FIRST LAST [FEATURE ...]

runs the programs of a seed from FIRST to LAST - 1, and prints each that fails. If features are
named, they are those that meet in each of the programs.
"""

import itertools
import os
import pickle
import random
import subprocess
import sys
import traceback
import warnings
import zlib
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = flags + " --xla_force_host_platform_device_count=4"
    sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import numpy as np
import pair_fronts
import pair_helpers
import pair_table
from documents import HAS_ENZYME
from kernbridge.errors import KernbridgeWarning
from pair_kernels import SIZES, Operation

HEAD = """\
import itertools
import math
import os
from collections import namedtuple

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pair_helpers as h
from numba import cuda
from pair_programs import built

S = jax.ShapeDtypeStruct
NUMBERS = itertools.count()
RECORD = np.dtype([("v", np.float32), ("age", np.int32)])
SCALE, OFFSET = 1.25, 0.5
"""
FUNCTIONS = {
    "lambda v: v * jnp.sin(v)": None,
    "lambda v: jnp.tanh(v) - v": None,
    "lambda v: jnp.int32(v * 2)": "int32",
    "lambda v: v > 0.5": "bool",
}
FACTORS = "1.5", "0.75"


@dataclass
class Program:
    """A program, and how it changes before it is run again."""

    chosen: dict  # feature of each axis
    is_wide: bool
    definitions: str
    use: str
    before: str  # lines in front of the definitions: a factor and a function
    after: str  # the same lines, changed

    def text(self, lines=None):
        wide = f'jax.config.update("jax_enable_x64", {self.is_wide})\n'
        lines = f"{lines or self.before}\n"
        return "\n".join([HEAD, wide + lines, self.definitions, "", self.use])

    def __str__(self):
        used = ", ".join(f"{axis}: {feature}" for axis, feature in self.chosen.items())
        again = f"# then with\n# {self.after}\n".replace("\n# \n", "\n") if self.is_changed else ""
        return f"# {used}\n{again}{self.text()}"

    @property
    def is_changed(self):
        return self.chosen["process"] in ("edited source", "changed global", "second process")


@cache
def _pairs(seed):
    order = list(pair_table.pairs())
    random.Random(seed).shuffle(order)
    return order


def drawn(seed, number, some=()):
    """The features of a program: each two that can meet come in turn, in an order of the seed."""
    order = _pairs(seed)
    rng = random.Random(f"{seed} {number}")
    return pair_table.completed(some or order[number % len(order)], rng)


def program(seed, number, some=()):
    """Draw a program; `some` are features that it has in any case."""
    chosen = drawn(seed, number, some)
    rng = random.Random(f"{seed} {number} details")
    smooth = chosen["derivative"] == "value" and chosen["rule"] == "no rule"
    functions = [text for text, result in FUNCTIONS.items() if smooth or result is None]
    if chosen["function"] in ("as an argument", "static function"):
        functions = functions[:2]
    function, other = rng.sample(functions, 2)
    op = Operation(chosen, order=_order(chosen, rng))
    op.result = FUNCTIONS[function] or op.out
    op.sharded = (
        op.has_signature
        and op.body in ("broadcasting", "row sums")
        and chosen["place"] in ("automatic axes", "explicit axes")
        and rng.random() < 0.5
    )
    process = chosen["process"]
    changes = {"changed global": "factor", "edited source": rng.choice(["factor", "function"])}
    changes["second process"] = changes["edited source"]
    change = changes.get(process)
    if op.function == "written" or (op.has_signature and op.front == "kernel"):
        change = change and "factor"
    before = [FACTORS[0], function]
    after = [FACTORS[change == "factor"], other if change == "function" else function]
    return Program(
        chosen,
        chosen["dtypes"] in ("float64", "mixed dtypes"),
        pair_fronts.written(op),
        _use(op, rng),
        *("FACTOR = {}\nfunction = {}".format(*lines) for lines in (before, after)),
    )


def _order(chosen, rng):
    """An order of parameters: names sorted, or numbers first and not sorted."""
    return rng.choice([["a", "w", "at", "b", "on", "s"], ["s", "a", "b", "at", "w", "on"]])


def _use(op, rng):
    """Return the transformation and the arguments, as text."""
    chosen, f = op.chosen, "f"
    axes = _axes(op, rng)
    real = [i for i, x in enumerate(op.parameters) if op.is_real(x)]
    which = tuple(sorted(rng.sample(real, rng.randint(1, len(real))))) if real else ()
    if chosen["place"] == "shard_map":
        f = f"h.in_parts({f}, {len(op.parameters)})"
    around = {
        "jit": "jax.jit({})",
        "vmap": f"jax.vmap({{}}, {axes[0]})",
        "nested vmap": f"jax.vmap(jax.vmap({{}}, {axes[0]}), {axes[-1]})",
        "scan": "h.scanned({})",
        "cond": "h.chosen({})",
    }.get(chosen["around"], "{}")
    derivative = {
        "grad": f"jax.grad(h.total({{}}), {which})",
        "jvp": f"h.pushed({{}}, {which})",
        "hessian": f"jax.hessian(h.total({{}}), {which})",
        "jacrev of grad": f"jax.jacrev(jax.grad(h.total({{}}), {which}), {which})",
        "jacfwd": f"jax.jacfwd({{}}, {which})",
    }.get(chosen["derivative"], "{}")
    inner, outer = (around, derivative) if rng.random() < 0.5 else (derivative, around)
    text = outer.format(inner.format(f))
    levels = {"vmap": 1, "nested vmap": 2}.get(chosen["around"], 0)
    seed, lines = rng.randrange(1000), []
    for i, name in enumerate(op.parameters):
        shape = [SIZES[x] for x in op.arrays.get(name, "").split(", ") if x]
        if op.body == "device variable" and name == "a":
            shape = [1 << 12]
        for level in axes[:levels]:
            if level[i] is not None:
                shape.insert(level[i], 4)
        lines.append(f"    drawn({seed + i}, {tuple(shape)}, {op.dtypes[name]!r}),")
    values = "\n".join(lines)
    mapped = [i for i, axis in enumerate(axes[levels - 1]) if axis == 0] if levels else [0]
    return (
        f"def program(f):\n    return {text}\n\n\n"
        "def drawn(seed, shape, dtype):\n    rng = np.random.default_rng(seed)\n"
        '    if dtype == "int32":\n        return jnp.asarray(rng.integers(0, 3, shape), dtype)\n'
        "    values = rng.integers(8, 48, shape) / 32 + 1 / 64\n"
        '    if dtype == "uint32":\n        values = values.astype(np.float32).view(np.uint32)\n'
        f"    return jnp.asarray(values, dtype)\n\n\narguments = [\n{values}\n]\n"
        f"split = {mapped}\n"
    )


def _axes(op, rng):
    """The axis of each argument along which it is mapped, for two levels; at least one is."""
    levels = []
    for _ in range(2):
        level = [rng.choice([0, None]) for _ in op.parameters]
        level[0] = rng.choice([0, 0, 1]) if op.chosen["place"] == "one device" else 0
        levels.append(tuple(level))
    if op.chosen["place"] == "one device" and len(op.parameters) > 1 and rng.random() < 0.4:
        levels = [(None, 0, *level[2:]) for level in levels]
    return levels


def built(name, source, declaration):
    """Build a library as a user does; returns its path and its header."""
    folder = Path(os.environ["KERNBRIDGE_CACHE_DIR"]) / f"pairs-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{end}" for end in ("c", "new", "so", "h")]
    paths[0].write_text(source)
    paths[3].write_text(f"#include <stdbool.h>\n{declaration}\n")
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(paths[1]), str(paths[0]), "-lm"]
    subprocess.run(command, check=True)
    os.replace(paths[1], paths[2])
    return paths[2], paths[3]


@cache
def _space(text):
    """The namespace of definitions, which programs share."""
    name = f"<definitions of pairs {zlib.crc32(text.encode()):08x}>"
    space = {"__name__": "pair_definitions"}
    exec(compile(text, name, "exec"), space)
    return space


def run(given: Program, lines=None):
    """Run a program once; `lines` are the changed ones."""
    definitions = f"{HEAD}\n{lines or given.before}\n{given.definitions}"
    space = dict(_space(definitions)) if not given.is_changed else {"__name__": "changed"}
    if given.is_changed:
        exec(compile(definitions, "<definitions of a pair>", "exec"), space)
    return use(given, space)


def use(given, space):
    exec(compile(given.use, "<use of a pair>", "exec"), space)
    make, run, arguments = (space[name] for name in ("make", "program", "arguments"))
    if given.chosen["care"] in pair_table.MISTAKES:
        pair_helpers.refused(run, make, arguments)
        return space, None
    call = make()
    place = given.chosen["place"]
    pair_helpers.compare(place, run, call, space["reference"], arguments, space["split"])
    return space, call


def check(given: Program, later: list):
    """Run a program in this process; what another process has to run is added to a list."""
    process = given.chosen["process"]
    with _quiet(given.is_wide):
        space, call = run(given)
        if process == "edited source":
            run(given, given.after)
        if process == "changed global":
            exec(given.after, space)
            use(given, space)
        if process == "second process":
            later.append(given)
        if process == "export":
            f, x = jax.jit(space["program"](call)), space["arguments"]
            blob = bytes(jax.export.export(f)(*x).serialize())
            wanted = pair_helpers.referee(space["program"], space["reference"])(*x)
            later.append((given, blob, jax.tree.map(np.asarray, [x, jax.tree.leaves(wanted)])))


def check_again(item):
    """Run a program that another process has run or exported."""
    if isinstance(item, Program):
        with _quiet(item.is_wide):
            run(item)
            run(item, item.after)
        return
    given, blob, (arguments, wanted) = item
    with _quiet(given.is_wide):
        found = jax.export.deserialize(bytearray(blob)).call(*arguments)
        pair_helpers.same(found, wanted)


@contextmanager
def _quiet(is_wide):
    """With or without 64-bit types, in all threads, and without warnings."""
    before = jax.config.jax_enable_x64
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernbridgeWarning)
        jax.config.update("jax_enable_x64", is_wide)
        try:
            yield
        finally:
            jax.config.update("jax_enable_x64", before)


def failures(items, function):
    """Call a function with each; returns the texts of those that fail, and programs."""
    texts = []
    for label, item in items:
        try:
            function(item)
        except Exception as e:
            given = item if isinstance(item, Program) else item[0]
            frames = "".join(traceback.format_exception(e, limit=-4))
            texts.append(f"{label}\n{given}\n{frames[-4000:]}")
    return texts


def in_one_process(seed, numbers, some=(), at=None):
    """Run programs of a seed; returns what fails, and what another process has to run.

    Each is written to the file `at` before it runs, for the case that it ends the process.
    """
    later = []

    def run_one(given):
        if at:
            at.write_text(str(given))
        check(given, later)

    items = [(f"program {n} of seed {seed}", program(seed, n, some)) for n in numbers]
    items = [i for i in items if HAS_ENZYME or i[1].chosen["rule"] != "Enzyme"]
    return failures(items, run_one), later


def first(path, seed, numbers, some=()):
    """Run programs; prints what fails, and leaves in a file what another process has to run."""
    path = Path(path)
    texts, later = in_one_process(seed, numbers, some, at=path.with_suffix(".at"))
    path.write_bytes(pickle.dumps(later))
    print(*texts, "all have run", sep="\n")


def second(path):
    """Run what another process left in a file; prints what fails."""
    items = [("in another process", item) for item in pickle.loads(Path(path).read_bytes())]
    print(*failures(items, check_again), "all have run", sep="\n")


def main(seed, first, last, *features):
    counts = Counter()
    for number in range(int(first), int(last)):
        began = sum(os.times()[:4])
        texts, later = in_one_process(seed, [number], features)
        texts += failures([("exported", item) for item in later], check_again)
        counts["wrong" if texts else "right"] += 1
        spent = sum(os.times()[:4]) - began
        print(number, f"{spent:.1f} s", *itertools.chain(texts), flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
