"""Two Python threads, each calling a kernel of about 0.7 ms: the wall time of two over that of one.

    python benchmarks/threads.py [--json FILE] [--rounds N]

1.0 means that nothing is shared; a bridge that holds the GIL while a kernel runs gives 2.0.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent))

import jax
import jax.numpy as jnp
import kernbridge
import measure
import numba
import numpy as np
import peers
from rich.console import Console

OUT = jax.ShapeDtypeStruct((1,), jnp.float32)
CALLS = 100
SECONDS_PER_CALL = 0.7e-3


@numba.njit
def spin(x, n, out):
    s = x[0]
    for _ in range(n[0]):
        s = s * np.float32(1.0000001) + np.float32(1e-9)
    out[0] = s


def wall(call: Callable[[], Any], n_threads: int) -> float:
    """Seconds until `n_threads` threads have called CALLS times each."""

    def work() -> None:
        for _ in range(CALLS):
            jax.block_until_ready(call())

    team = [threading.Thread(target=work) for _ in range(n_threads)]
    return measure.run_threads(team)


def two_over_one(call: Callable[[], Any]) -> Callable[[], float]:
    jax.block_until_ready(call())
    return lambda: wall(call, 2) / wall(call, 1)


def calibrated(op: Callable[..., Any], x: Any) -> Any:
    """How many iterations make one call take SECONDS_PER_CALL here."""
    n = jnp.array([1_000_000], jnp.int32)
    jax.block_until_ready(op(x, n))
    seconds = min(measure.timed(lambda: jax.block_until_ready(op(x, n))) for _ in range(5))
    return (n * (SECONDS_PER_CALL / seconds)).astype(jnp.int32)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--rounds", type=int, default=9, help="rounds (default 9)")
    options = parser.parse_args()
    x = jnp.ones(1, jnp.float32)
    op = jax.jit(kernbridge.numba_kernel(spin, OUT))
    n = calibrated(op, x)
    no_lock = spin.py_func  # the same loop without JAX: what two threads can reach on this machine
    free = numba.njit(nogil=True)(no_lock)
    host = (np.ones(1, np.float32), np.asarray(n), np.zeros(1, np.float32))
    free(*host)
    calls = {"njit(nogil=True), no JAX": lambda: free(*host), "kernbridge": lambda: op(x, n)}
    for name, peer in peers.installed().items():
        calls[name] = functools.partial(jax.jit(peer.wrap(spin, OUT)), x, n)
    measures = {name: two_over_one(call) for name, call in calls.items()}
    title = f"wall(2 threads) / wall(1), kernels of {SECONDS_PER_CALL * 1e3:.1f} ms"
    results = {title: measure.rounds(measures, options.rounds, 1.0)}
    measure.show(Console(), title, "ratio", results[title])
    measure.save(options.json, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
