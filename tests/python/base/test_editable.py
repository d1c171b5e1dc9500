"""An editable install has its Python files in one folder, its extension and headers in another."""

import pytest

pytestmark = pytest.mark.once
PROGRAM = """
import jax.numpy as jnp, kernbridge, kernels
kernbridge.__path__.append({folder!r})
kernbridge.numba_kernel(kernels.add, jnp.ones(3))(jnp.ones(3), jnp.ones(3))
print(kernbridge.cache.stats().disk_entries)
"""


@pytest.mark.parametrize("name", ["_core.abi3.so", "include/kernbridge/module.h"])
def test_generated_code_is_keyed_by_the_files_of_every_folder(name, tmp_path, run_python):
    file = tmp_path / "install" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    entries = []
    for content in ("one", "two", "one"):
        file.write_text(content)
        program = PROGRAM.format(folder=str(tmp_path / "install"))
        entries.append(int(run_python(program, KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"))))
    assert entries == [1, 2, 2]
