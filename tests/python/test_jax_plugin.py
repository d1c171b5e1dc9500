"""Processes that do not import kernbridge: JAX does, when it starts its backends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernbridge import numba_kernel
from kernels import add

X = np.arange(4, dtype=np.float32)
FRESH = "import sys, jax\nassert 'kernbridge' not in sys.modules\n"
CALL = """
import jax.numpy as jnp
exported = jax.export.deserialize(open({path!r}, "rb").read())
print(*jax.jit(exported.call)(jnp.arange(4.0)))
"""


@pytest.fixture
def numba_blob(tmp_path):
    op = numba_kernel(add, jax.ShapeDtypeStruct((4,), jnp.float32))
    path = tmp_path / "numba.blob"
    path.write_bytes(jax.export.export(jax.jit(lambda x: op(x, x)))(X).serialize())
    return str(path)


@pytest.fixture
def cuda_blob(tmp_path, run_python):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    path = str(tmp_path / "cuda.blob")
    run_python(
        f"""
import jax, jax.numpy as jnp, kernbridge
from numba import cuda

@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]

op = kernbridge.numba_cuda_kernel(double, jax.ShapeDtypeStruct((4,), jnp.float32), launch_dims=4)
open({path!r}, "wb").write(jax.export.export(jax.jit(op))(jnp.arange(4.0)).serialize())
"""
    )
    return path


def test_a_process_that_loads_a_numba_kernel_need_not_import_kernbridge(numba_blob, run_python):
    said = run_python(FRESH + CALL.format(path=numba_blob), KERNBRIDGE_ALLOW_IMPORTS="kernels")
    assert said.split() == ["0.0", "2.0", "4.0", "6.0"]


def test_a_program_that_carries_its_kernel_loads_without_numba(cuda_blob, run_python):
    said = run_python(
        f"{FRESH}sys.modules['numba'] = sys.modules['numba_cuda'] = None\n"
        + CALL.format(path=cuda_blob)
    )
    assert said.split() == ["0.0", "2.0", "4.0", "6.0"]


@pytest.mark.exhaustive
def test_a_program_from_jaxs_compilation_cache(numba_blob, run_python, tmp_path):
    """The second process loads the executable, and lowers nothing of ours by itself."""
    program = f"""{FRESH}
jax.config.update("jax_compilation_cache_dir", {str(tmp_path / "cache")!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
{CALL.format(path=numba_blob)}
print(any("cache_hits" in event for event in hits))
"""
    said = [run_python(program, KERNBRIDGE_ALLOW_IMPORTS="kernels").split() for _ in range(2)]
    assert said == [["0.0", "2.0", "4.0", "6.0", hit] for hit in ("False", "True")]


@pytest.mark.once
def test_what_jax_starts_imports_no_compiler(run_python):
    said = run_python(
        f"{FRESH}jax.devices()\n"
        "print(*(name in sys.modules for name in ('kernbridge', 'numba', 'llvmlite')))\n"
    )
    assert said.split() == ["True", "False", "False"]


@pytest.mark.once
def test_jax_starts_where_kernbridge_cannot_be_imported(run_python):
    broken = {"KERNBRIDGE_DEBUG": "nonsense", "check": False}
    assert run_python(f"{FRESH}print(jax.devices('cpu')[0].platform)\n", **broken) == "cpu\n"
    said = run_python(
        f"{FRESH}import logging\nlogging.basicConfig(level='INFO')\njax.devices()\n", **broken
    )
    assert (
        "INFO:jax_plugins.kernbridge:kernbridge cannot be imported; programs that contain" in said
    )
    assert "ValueError: KERNBRIDGE_DEBUG names 'nonsense'" in said
