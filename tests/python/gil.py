"""Runs a jitted function while another thread holds the GIL, from begin to result (gate.c)."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from pathlib import Path

import jax

HERE = Path(__file__).resolve().parent


class Gate:
    """The two handlers, registered with XLA."""

    def __init__(self, compiler: str, folder: Path) -> None:
        """Build them in this folder."""
        library = str(folder / "gate.so")
        include = str(HERE.parents[1] / "src")
        flags = ["-shared", "-fPIC", "-O1", "-I", include, "-o", library]
        subprocess.run([compiler, *flags, str(HERE / "gate.c"), "-ldl"], check=True)
        self.free, self.held = ctypes.CDLL(library), ctypes.PyDLL(library)
        for name in ("gate_open", "gate_close"):
            handler = jax.ffi.pycapsule(getattr(self.free, name))
            for platform in ("cpu", "CUDA"):
                jax.ffi.register_ffi_target(f"kernbridge_test_{name}", handler, platform=platform)

    @staticmethod
    def _through(name, x):
        call = jax.ffi.ffi_call(
            f"kernbridge_test_{name}",
            jax.ShapeDtypeStruct(x.shape, x.dtype),
            has_side_effect=True,
            input_output_aliases={0: 0},
        )
        return call(x)

    def compile(self, function, *args):
        """`function` between the handlers, compiled; give it to `run`."""

        def gated(first, *rest):
            outs, tree = jax.tree.flatten(function(self._through("gate_open", first), *rest))
            last = max(range(len(outs)), key=lambda i: outs[i].size)
            outs[last] = self._through("gate_close", outs[last])
            return jax.tree.unflatten(tree, outs)

        return jax.jit(gated).lower(*args).compile()

    def run(self, compiled, *args):
        """Its result, and whether it was ready while the GIL was held."""
        reached = []

        def hold():
            self.free.gate_wait()
            reached.append(self.held.gate_hold())

        thread = threading.Thread(target=hold)
        thread.start()
        result = jax.block_until_ready(compiled(*args))
        thread.join()
        return result, bool(reached[0])
