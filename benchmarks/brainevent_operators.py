"""BrainEvent's operators on its own bridge and on kernbridge, side by side in one run.

    python benchmarks/brainevent_operators.py [--platform cpu|gpu] [--rounds N] [--json FILE]

Each bridge has a process of its own, and the two take turns. An operator is measured in a loop of
XLA (each step's spikes depend on the step before), in a compiled function that Python calls, called
eagerly, and in the gradient of a scan. First calls are those of each process, without anything in
the caches on disk: they include importing what the bridge imports late, and compiling the kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

BRIDGES = ("own", "kernbridge")
STEPS = 1_000
SCANNED = 100
CALLS = 200


class Bridge:
    """A process that measures BrainEvent's operators on one bridge when it is asked to."""

    def __init__(self, name: str, on: str, folder: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--bridge", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "JAX_PLATFORMS": {"cpu": "cpu", "gpu": "cuda"}[on],
                "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                "BRAINEVENT_CACHE_DIR": f"{folder}/own",
                "KERNBRIDGE_CACHE_DIR": f"{folder}/kernbridge",
            },
        )

    def ask(self, *question: str) -> Any:
        """Return the answer to a question, or raise what the other process printed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(question), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of a bridge ended at {question}")
        return json.loads(line)


def operators() -> dict[str, Callable[[], tuple[Any, Any, Callable[[Any, Any], Any]]]]:
    """The makers of each operator: its weights, spikes to start with, and the product."""
    import brainevent
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(0)

    def sparse(n: int, density: float) -> Any:
        count = round(n * density)
        indices = np.sort(rng.random((n, n)).argpartition(count, axis=1)[:, :count], axis=1)
        return jnp.asarray(indices.astype(np.int32))

    def csr(n: int, events: bool) -> Any:
        indices = sparse(n, 0.1)
        pointers = jnp.arange(n + 1, dtype=jnp.int32) * indices.shape[1]

        def product(weights: Any, x: Any) -> Any:
            matrix = brainevent.CSR((weights, indices.ravel(), pointers), shape=(n, n))
            return matrix @ (brainevent.BinaryArray(x) if events else x.astype(jnp.float32))

        weights = jnp.asarray(rng.random(indices.size, np.float32))
        return weights, jnp.asarray(rng.random(n) < 0.05), product

    def fixed(n: int) -> Any:
        indices = sparse(n, 10 / n)

        def product(weights: Any, x: Any) -> Any:
            matrix = brainevent.FixedNumPerPre((weights, indices), shape=(n, n))
            return brainevent.BinaryArray(x) @ matrix

        weights = jnp.asarray(rng.random(indices.shape, np.float32))
        return weights, jnp.asarray(rng.random(n) < 0.05), product

    def drawn(n: int) -> Any:
        def product(weights: Any, x: Any) -> Any:
            matrix = brainevent.JITCScalarR((weights, 0.1, 3), shape=(n, n))
            return matrix @ brainevent.BinaryArray(x)

        return jnp.float32(1.5), jnp.asarray(rng.random(n) < 0.05), product

    return {
        "CSR, events, 100": lambda: csr(100, True),
        "CSR, events, 1,000": lambda: csr(1_000, True),
        "CSR, events, 4,000": lambda: csr(4_000, True),
        "CSR, floats, 1,000": lambda: csr(1_000, False),
        "fixed number, events, 1,000": lambda: fixed(1_000),
        "fixed number, events, 10,000": lambda: fixed(10_000),
        "drawn at each call, events, 1,000": lambda: drawn(1_000),
    }


class Measured:
    """The programs of one operator on one bridge."""

    def __init__(self, weights: Any, spikes: Any, product: Callable[[Any, Any], Any]) -> None:
        import jax
        import jax.numpy as jnp

        begin = time.perf_counter()
        jax.block_until_ready(jax.jit(product)(weights, spikes))
        self.first = time.perf_counter() - begin

        def step(weights: Any, x: Any) -> Any:
            return jnp.roll(x, 1) ^ (product(weights, x) > 1e9)

        def gradient(weights: Any, x: Any) -> Any:
            def total(weights: Any) -> Any:
                def body(carry: Any, _: Any) -> Any:
                    x, sums = carry
                    return (jnp.roll(x, 1), sums + product(weights, x).sum()), None

                return jax.lax.scan(body, (x, jnp.float32(0)), length=SCANNED)[0][1]

            return jax.grad(total)(weights)

        loop = jax.jit(lambda w, x: jax.lax.fori_loop(0, STEPS, lambda _, x: step(w, x), x))
        compiled, backward = jax.jit(product), jax.jit(gradient)

        def many(call: Callable[[], Any]) -> Callable[[], Any]:
            return lambda: [call() for _ in range(CALLS)][-1]

        self.runs: dict[str, tuple[Callable[[], Any], int]] = {
            "loop": (lambda: loop(weights, spikes), STEPS),
            "jitted call": (many(lambda: compiled(weights, spikes)), CALLS),
            "eager call": (many(lambda: product(weights, spikes)), CALLS),
            "gradient of a scan": (lambda: backward(weights, spikes), SCANNED),
        }
        for run, _ in self.runs.values():
            jax.block_until_ready(run())

    def measure(self, form: str) -> float:
        """Microseconds of a step or call."""
        import jax

        run, count = self.runs[form]
        begin = time.perf_counter()
        jax.block_until_ready(run())
        return (time.perf_counter() - begin) / count * 1e6


def serve(bridge: str) -> None:
    """Answer the questions of the parent, one a line."""
    if bridge == "kernbridge":
        import kernbridge.compat.brainevent

        kernbridge.compat.brainevent.install()
    makers = operators()
    made: dict[str, Measured] = {}

    def answer(question: str, name: str = "", form: str = "") -> Any:
        if question == "names":
            return list(makers)
        if question == "make":
            made[name] = Measured(*makers[name]())
            return made[name].first
        return made[name].measure(form)

    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), file=out, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--platform", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--bridge", choices=BRIDGES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bridge:
        serve(arguments.bridge)
        return

    from rich.console import Console
    from rich.table import Table

    forms = ("loop", "jitted call", "eager call", "gradient of a scan")
    found: dict[str, dict[str, dict[str, float]]] = {}
    table = Table(title=f"BrainEvent's operators on {arguments.platform}, us (first call: s)")
    for column in ("operator", "form", "own bridge", "kernbridge", "kernbridge / own"):
        table.add_column(column, justify="left" if column in ("operator", "form") else "right")

    def add(name: str, form: str, own: float, ours: float, ratio: float) -> None:
        found.setdefault(name, {})[form] = {"own": own, "kernbridge": ours, "ratio": ratio}
        table.add_row(name, form, f"{own:,.2f}", f"{ours:,.2f}", f"{ratio:.2f}")

    with tempfile.TemporaryDirectory() as folder:
        own, ours = (Bridge(name, arguments.platform, folder) for name in BRIDGES)
        for name in own.ask("names"):
            ours.ask("names")
            firsts = own.ask("make", name), ours.ask("make", name)
            add(name, "first call", *firsts, firsts[1] / firsts[0])
            for form in forms:
                rounds = [
                    (own.ask("measure", name, form), ours.ask("measure", name, form))
                    for _ in range(arguments.rounds)
                ]
                both = [median(column) for column in zip(*rounds, strict=True)]
                add(name, form, *both, median(b / a for a, b in rounds))
        for bridge in (own, ours):
            bridge.process.stdin.close()
            bridge.process.wait()
    Console().print(table)
    if arguments.json:
        import importlib.metadata

        about = {
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            **{p: importlib.metadata.version(p) for p in ("brainevent", "jax", "kernbridge")},
        }
        Path(arguments.json).write_text(
            json.dumps({"machine": about, "platform": arguments.platform, "us": found}, indent=2)
        )


if __name__ == "__main__":
    main()
