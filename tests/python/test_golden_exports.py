"""Programs that were exported with each supported JAX still run.

They are data (tests/python/data/make_exports.py), and run where neither Numba nor llvmlite is.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

import jax
import pytest
from kernbridge._src.base.versions import minor

FOLDER = Path(__file__).parent / "data" / "exports"
VERSIONS = sorted(path.name for path in FOLDER.iterdir())
NOT_RUN = "on_cpu" if "KERNBRIDGE_TEST_ALONE" in os.environ else "nothing"  # see tests/alone

LOAD = """
import sys
for name in ("llvmlite", "numba", "numba_cuda"):
    sys.modules[name] = None  # an import of it fails
import jax.numpy as jnp, numpy as np
from jax import export
from pathlib import Path

folder = Path({folder!r})
x = jnp.arange(8, dtype=jnp.float32)
y = jnp.ones(8, jnp.float32)
rows = jnp.stack([x[:5], y[:5], 2 * x[:5]])
cases = {{
    "numba": ((x, y), 2 * x + y),
    "numba_list": ((-x,), np.sort(-x)),
    "numba_vmap_symbolic": ((rows,), 3 * rows),
    "cuda_on_cpu": ((x,), 3 * x),
    "cuda_on_cpu_shared": ((x,), [28]),
    "cuda_on_cpu_vmap_symbolic": ((rows,), 3 * rows),
    "callable_on_cpu": ((x,), 9 * x),
    "c_library": ((x,), x / 2),
}}
found = {{path.stem: export.deserialize(path.read_bytes()) for path in folder.glob("*.bin")}}
assert found.keys() == cases.keys(), sorted(found)
for name, (arguments, expected) in cases.items():
    if {not_run!r} in name:
        continue
    np.testing.assert_allclose(found[name].call(*arguments), expected, err_msg=name)
try:
    found["numba"].call(-x - 1, y).block_until_ready()
except Exception as e:
    print(str(e).splitlines()[0])
"""


def test_there_are_programs_of_the_oldest_and_a_new_jax():
    assert "0.8.0" in VERSIONS
    assert len(VERSIONS) >= 2


@pytest.mark.parametrize("version", VERSIONS)
def test_they_run_without_numba(version, run_python):
    if platform.machine() != "x86_64":
        pytest.skip("they are for x86-64")
    if minor(version) > minor(jax.__version__):
        pytest.skip(f"JAX {jax.__version__} need not load what a later one exported")
    printed = run_python(LOAD.format(folder=str(FOLDER / version), not_run=NOT_RUN), check=False)
    if "backward-compatibility window" in printed:
        pytest.skip(f"JAX {jax.__version__} no longer loads what JAX {version} exported")
    assert printed.startswith("INTERNAL: numba_kernel 'axpy': ValueError: ('negative', -1.0) (in ")
    assert "golden_kernels.py:6)" in printed


def test_they_are_small():
    limits = {"numba": 5 * 1024, "cuda_on_cpu": 32 * 1024, "callable_on_cpu": 64 * 1024}
    for path in FOLDER.rglob("*.bin"):
        assert path.stat().st_size <= limits.get(path.stem, 52 * 1024), path
