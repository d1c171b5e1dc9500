"""What one call costs: in a jitted loop, from Python, the first time, and at import.

    python benchmarks/per_call.py [--json FILE] [--rounds N]

Each table is one run, its first row the floor that the ratios refer to.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent))

import floor
import jax
import jax.numpy as jnp
import kernbridge
import measure
import numba
import numpy as np
import peers
from measure import Row
from rich.console import Console

SMALL = jax.ShapeDtypeStruct((8,), jnp.float32)
MATRIX = jax.ShapeDtypeStruct((4, 4), jnp.float32)
SLOW = 50  # times fewer iterations for what runs Python


@numba.njit
def add_one(x, out):
    for i in range(out.size):
        out[i] = x[i] + np.float32(1)


@numba.njit
def eight_to_four(a, b, c, d, e, f, g, h, o, p, q, r):
    o[0, 0] = a[0, 0] + b[0, 0]
    p[0, 0] = c[0, 0] + d[0, 0]
    q[0, 0] = e[0, 0] + f[0, 0]
    r[0, 0] = g[0, 0] + h[0, 0]


def operations() -> dict[str, Any]:
    described = kernbridge.numba_kernel(add_one, signature="x: f32[n] -> f32[n]")
    return {"kernbridge": kernbridge.numba_kernel(add_one, SMALL), "with signature=": described}


def in_a_loop(n_rounds: int) -> list[Row]:
    x = jnp.ones(8, jnp.float32)
    fast = {"empty C handler": floor.call(SMALL), **operations()}
    slow = {name: peer.wrap(add_one, SMALL) for name, peer in peers.installed().items()}
    called = functools.partial(jax.pure_callback, lambda x: np.asarray(x) + np.float32(1), SMALL)
    slow["jax.pure_callback"] = called
    in_loop = measure.per_call_in_a_loop
    measures = {name: in_loop(step, x, 20_000) for name, step in fast.items()}
    measures |= {name: in_loop(step, x, 20_000 // SLOW, 4) for name, step in slow.items()}
    return measure.rounds(measures, n_rounds, 1e-9)


def in_a_loop_with_many_buffers(n_rounds: int) -> list[Row]:
    x, outs = jnp.ones((4, 4), jnp.float32), [MATRIX] * 4
    operations = {
        "empty C handler": floor.call(outs),
        "kernbridge": kernbridge.numba_kernel(eight_to_four, outs),
    }
    measures = {
        name: measure.per_call_in_a_loop(lambda x, op=op: op(*[x] * 8)[0], x, 10_000, 8)
        for name, op in operations.items()
    }
    return measure.rounds(measures, n_rounds, 1e-9)


def eager(n_rounds: int) -> list[Row]:
    x, timed = jnp.ones(8, jnp.float32), measure.per_call_eager
    calls = {"jitted x + 1": jax.jit(lambda x: x + 1), **operations()}
    calls |= {name: peer.wrap(add_one, SMALL) for name, peer in peers.installed().items()}
    measures = {n: timed(functools.partial(call, x), 2_000) for n, call in calls.items()}
    return measure.rounds(measures, n_rounds, 1e-6)


def square_sum(x: float, y: float) -> float:
    return x * x + y


def elementwise(n_rounds: int) -> list[Row]:
    arrays = np.ones(100_000, np.float32), np.ones(100_000, np.float32)
    of_jax, of_numba = kernbridge.elementwise(square_sum), numba.vectorize(square_sum)
    given, small, wait = tuple(map(jnp.asarray, arrays)), jnp.ones(8), jax.block_until_ready
    add = jax.jit(lambda x: x + 1)
    calls = {
        "numba.vectorize, from NumPy": lambda: of_numba(*arrays),
        "jitted x + 1, numba.vectorize": lambda: (wait(add(small)), of_numba(*arrays))[1],
        "kernbridge.elementwise": lambda: wait(of_jax(*given)),
    }
    measures = {
        name: lambda call=call: float(np.median([measure.timed(call) for _ in range(200)]))
        for name, call in calls.items()
    }
    return measure.rounds(measures, n_rounds, 1e-6)


FIRST_NUMBA = """
import time, numba, numpy as np
from numba import types
{kernel}
signature = (types.Array(types.float32, 1, "C", readonly=True), types.Array(types.float32, 1, "C"))
start = time.perf_counter()
add_one.compile(signature)
print(time.perf_counter() - start)
"""
FIRST_KERNBRIDGE = """
import time, jax, jax.numpy as jnp, numba, numpy as np, kernbridge
{kernel}
x = jnp.ones(8, jnp.float32)
start = time.perf_counter()
jax.jit(lambda x: x + 1)(x).block_until_ready()
of_jax = time.perf_counter() - start
start = time.perf_counter()
kernbridge.numba_kernel(add_one, jax.ShapeDtypeStruct((8,), jnp.float32))(x).block_until_ready()
print(time.perf_counter() - start - of_jax)
"""
KERNEL = inspect.getsource(add_one.py_func)
IMPORT_JAX = """
import time, jax, jax.numpy as jnp, jax.ffi, jax.export
start = time.perf_counter()
{what}
print(time.perf_counter() - start)
"""


def in_fresh_process(source: str) -> Callable[[], float]:
    def run() -> float:
        command = [sys.executable, "-c", source]
        # Without the disk cache, which would hold the machine code after the first round.
        environment = {**os.environ, "KERNBRIDGE_CACHE_DIR": "0"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return float(done.stdout)

    return run


def first_call(n_rounds: int) -> list[Row]:
    measures = {
        "Numba's compile of the kernel": in_fresh_process(FIRST_NUMBA.format(kernel=KERNEL)),
        "kernbridge, less JAX's first x + 1": in_fresh_process(
            FIRST_KERNBRIDGE.format(kernel=KERNEL)
        ),
    }
    return measure.rounds(measures, n_rounds, 1e-3)


def import_time(n_rounds: int) -> list[Row]:
    measures = {
        "nothing": in_fresh_process(IMPORT_JAX.format(what="pass")),
        "import kernbridge": in_fresh_process(IMPORT_JAX.format(what="import kernbridge")),
    }
    return measure.rounds(measures, n_rounds, 1e-3)


TABLES: dict[str, tuple[str, Callable[[int], list[Row]]]] = {
    "One call in a jitted loop, f32[8] to f32[8]": ("ns", in_a_loop),
    "One call in a jitted loop, 8 inputs and 4 outputs, f32[4,4]": (
        "ns",
        in_a_loop_with_many_buffers,
    ),
    "One call from Python": ("us", eager),
    "x * x + y of 100,000 elements, from Python": ("us", elementwise),
    "First call, each in a fresh process": ("ms", first_call),
    "Import, JAX already imported": ("ms", import_time),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each table (default 9)")
    parser.add_argument("--only", default="", help="tables whose title contains this")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}, expected at least 1")
    floor.register()
    console, results = Console(), {}
    for title, (unit, table) in TABLES.items():
        if options.only in title:
            results[title] = table(options.rounds)
            measure.show(console, title, unit, results[title])
    measure.save(options.json, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
