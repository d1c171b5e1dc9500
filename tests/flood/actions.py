"""What a thread of the flood does. Each action is short, and compares its values with NumPy's."""

from __future__ import annotations

import contextlib
import gc
import importlib
import random
import sys
import threading
from pathlib import Path
from typing import Any

import jax
import kernbridge
import numpy as np
from kinds import MODULES, SHAPES, Kind, load_c, same

Error = (jax.errors.JaxRuntimeError, ValueError)  # which of them depends on how JAX dispatches


class Wrong(AssertionError):
    """A value that is not NumPy's."""


class Worker:
    """One thread's state. Seed and number decide what it does."""

    def __init__(self, number: int, seed: int, kinds: list[Kind], folder: Path, ours: bool) -> None:
        self.number = number
        self.draw = random.Random(f"{seed}-{number}")
        self.kinds = kinds
        self.ours = ours
        self.module = f"flood_reloaded_{number}"
        self.path = folder / f"{self.module}.py"
        self.written = 0
        self.kept: list[Any] = []  # compiled programs that outlive their operations

    def take(self, *without: str) -> tuple[Kind, int, Any]:
        """A kind, but none of those, a constant, and a new operation."""
        kind = self.draw.choice([kind for kind in self.kinds if kind.name not in without])
        c = self.draw.randrange(kind.constants)
        return kind, c, kind.make(c)

    def numbers(self, *shape: int) -> np.ndarray:
        return np.asarray(self.draw.choices(range(32), k=int(np.prod(shape))), np.float32).reshape(
            shape
        )

    def check(self, got: Any, expected: Any, *what: Any) -> None:
        got = np.asarray(got)
        if not np.array_equal(got, expected):
            at = np.argmax(np.ravel(got != expected))
            raise Wrong(
                f"{what}: element {at} is {np.ravel(got)[at]}, expected {np.ravel(expected)[at]}"
            )


def on(kind: Kind) -> Any:
    """Where the calls of a kind run."""
    return jax.default_device(jax.devices("gpu" if kind.on_gpu else "cpu")[0])


def compile_once(w: Worker, kind: Kind, c: int) -> None:
    """What the actions need of a kernel: alone, and for a batch."""
    op = kind.make(c)
    x = w.numbers(2, 64)
    with on(kind):
        w.check(jax.jit(jax.vmap(op))(x), c * x + 1, "compile", kind.name, c)
        w.check(jax.jit(op)(x[0]), c * x[0] + 1, "compile", kind.name, c)


def jit(w: Worker) -> None:
    kind, c, op = w.take()
    x = w.numbers(w.draw.choice(SHAPES))
    with on(kind):
        w.check(jax.jit(lambda x: op(x) * 2)(x), (c * x + 1) * 2, "jit", kind.name, c, x.shape)


def eager(w: Worker) -> None:
    kind, c, op = w.take()
    with on(kind):
        for _ in range(3):
            x = w.numbers(w.draw.choice(SHAPES))
            w.check(op(x), c * x + 1, "eager", kind.name, c, x.shape)


def vmap(w: Worker) -> None:
    kind, c, op = w.take()
    x = w.numbers(w.draw.choice((2, 33, 200)), w.draw.choice((1, 64, 300)))
    with on(kind):
        w.check(jax.jit(jax.vmap(op))(x), c * x + 1, "vmap", kind.name, c, x.shape)


def grad(w: Worker) -> None:
    kind, c, op = w.take()
    x = w.numbers(w.draw.choice(SHAPES))
    with on(kind):
        got = jax.jit(jax.grad(lambda x: op(op(x)).sum()))(x)
        w.check(got, np.full_like(x, c * c), "grad", kind.name, c, x.shape)


def scan(w: Worker) -> None:
    kind, c, op = w.take()
    x, c = w.numbers(16), c % 3
    op = kind.make(c)
    with on(kind):
        got, _ = jax.jit(lambda x: jax.lax.scan(lambda a, _: (op(a), None), x, length=4))(x)
        expected = x
        for _ in range(4):
            expected = c * expected + 1
        w.check(got, expected, "scan", kind.name, c)


def loop(w: Worker) -> None:
    kind, c, op = w.take()
    x, n = w.numbers(16), w.draw.randrange(4)
    with on(kind):
        got = jax.jit(lambda x: jax.lax.fori_loop(0, n, lambda _, a: op(a), x))(x)
        expected = x
        for _ in range(n):
            expected = c * expected + 1
        w.check(got, expected.astype(np.float32), "loop", kind.name, c)


def raising(w: Worker) -> None:
    """A call that fails, then one that does not, of the same program."""
    kind, c, op = w.take()
    x = w.numbers(9)
    bad = x.copy()
    bad[5] = -1
    with on(kind):
        f = jax.jit(op)
        if kind.name in ("numba", "c", "c++", "c++ carried"):
            try:
                f(bad).block_until_ready()
            except Error as e:
                if "negative" not in str(e):
                    raise
            else:
                raise Wrong(f"raising {kind.name} {c}: no error")
        w.check(f(x), c * x + 1, "after an error", kind.name, c)


def export(w: Worker) -> None:
    kind, c, op = w.take("unrecorded")  # which no program can carry
    x = w.numbers(w.draw.choice(SHAPES))
    with on(kind):
        exported = jax.export.export(jax.jit(op), platforms=["cuda" if kind.on_gpu else "cpu"])(x)
        call = jax.jit(jax.export.deserialize(exported.serialize()).call)
        w.check(call(x), c * x + 1, "export", kind.name, c, x.shape)


def dispatch(w: Worker) -> None:
    """Many calls that are outstanding at once, most of whose results nobody reads."""
    kind, c, op = w.take()
    x = w.numbers(1024)
    with on(kind):
        f = jax.jit(op)
        results = [f(x) for _ in range(20)]
        last = results[-1]
        del results
        w.check(last, c * x + 1, "dispatch", kind.name, c)


def outlive(w: Worker) -> None:
    """Compiled programs whose operations and kernels are gone; some are called much later."""
    kind, c, op = w.take()
    x = w.numbers(64)
    with on(kind):
        w.kept.append((kind, c, jax.jit(op).lower(x).compile()))
    del op
    if len(w.kept) > 4:
        kind, c, compiled = w.kept.pop(w.draw.randrange(len(w.kept)))
        with on(kind):
            w.check(compiled(x), c * x + 1, "outlive", kind.name, c)


def clear(w: Worker) -> None:
    what = w.draw.randrange(4)
    if what == 0:
        jax.clear_caches()
    elif what == 1 and w.ours:
        kernbridge.cache.clear_cache()
    elif what == 2 and w.ours:
        kernbridge.cache.stats()
    else:
        gc.collect()


def reload(w: Worker) -> None:
    """A module of Python whose kernel is another one each time."""
    c = w.draw.randrange(2)
    if w.ours:
        kernel = "numba.njit"
        make = "kernbridge.numba_kernel(kernel, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))"
    else:
        kernel, make = "jax.jit", "kernel"
    body = (
        "def kernel(x, out):\n    for i in range(x.size):\n        out[i] = CONSTANT * x[i] + 2\n"
        if w.ours
        else "def kernel(x):\n    return CONSTANT * x + 2\n"
    )
    w.written += 1  # a file of the same size and time would not be read again
    w.path.write_text(
        f"import jax, kernbridge, numba\nCONSTANT = {c}\n@{kernel}\n{body}op = {make}\n"
        + "#" * (w.written % 97)
    )
    importlib.invalidate_caches()
    if w.module in sys.modules:
        module = importlib.reload(sys.modules[w.module])
    else:
        module = importlib.import_module(w.module)
    x = w.numbers(64)
    with jax.default_device(jax.devices("cpu")[0]):
        w.check(jax.jit(module.op)(x), c * x + 2, "reload", c)


_of_a_name = [threading.Lock() for _ in range(2)]


def replace(w: Worker) -> None:
    """A module of C that stands for another source each time."""
    if not w.ours:
        return
    number, c = w.draw.randrange(2), w.draw.randrange(MODULES)
    name = f"flood_replaced_{number}"
    x = w.numbers(64)
    with jax.default_device(jax.devices("cpu")[0]):
        with _of_a_name[number]:
            module = load_c(name, c, replace=True, force_rebuild=w.draw.random() < 0.01)
            target = jax.ffi.ffi_call(f"{name}.affine", same(x))
            w.check(jax.jit(lambda x: target(x))(x), c * x + 1, "replaced, by name", c)
        # Another thread may replace it now: its functions are chosen by content, the name is not.
        got = jax.jit(lambda x: module.affine(x, outs=same(x)))(x)
        w.check(got, c * x + 1, "replaced, by content", c)
        by_name = np.asarray(jax.jit(lambda x: target(x) + 0)(x))
        if not any(np.array_equal(by_name, d * x + 1) for d in range(MODULES)):
            raise Wrong(f"replaced, by name: {by_name[:4]} is of no module")


def import_again(w: Worker) -> None:
    importlib.reload(kernbridge)
    with contextlib.suppress(AttributeError):
        kernbridge.no_such_name  # noqa: B018


WEIGHTS = {
    jit: 10,
    eager: 10,
    vmap: 10,
    grad: 8,
    scan: 6,
    loop: 6,
    raising: 6,
    export: 5,
    dispatch: 8,
    outlive: 6,
    reload: 4,
    replace: 4,
    clear: 2,
    import_again: 1,
}
