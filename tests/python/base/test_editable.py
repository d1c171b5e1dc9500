"""An editable install has its Python files in one folder, its extension and headers in another."""

import pytest

PROGRAM = """
import jax.numpy as jnp, kernbridge, kernels
kernbridge.__path__.append({folder!r})
kernbridge.numba_kernel(kernels.add, jnp.ones(3))(jnp.ones(3), jnp.ones(3))
print(kernbridge.cache.stats().disk_entries)
"""


@pytest.mark.exhaustive
@pytest.mark.once
def test_generated_code_is_keyed_by_the_files_of_every_folder(tmp_path, run_python):
    install = tmp_path / "install"
    names = ["_core.abi3.so", "include/kernbridge/module.h"]
    for name in names:
        (install / name).parent.mkdir(parents=True, exist_ok=True)
        (install / name).write_text("one")
    for n_entries, name in enumerate(names, 1):
        cache = {"KERNBRIDGE_CACHE_DIR": str(tmp_path / "cache")}
        assert int(run_python(PROGRAM.format(folder=str(install)), **cache)) == n_entries
        (install / name).write_text("two")
    assert int(run_python(PROGRAM.format(folder=str(install)), **cache)) == 3


REPLACED = """
import pathlib, time
import jax.numpy as jnp, kernbridge, kernels
kernbridge.__path__.append({folder!r})
time.sleep(0.05)
if {replaced}:
    pathlib.Path({folder!r}, "module.py").write_text("a = 1")
kernbridge.numba_kernel(kernels.add, jnp.ones(3))(jnp.ones(3), jnp.ones(3))
print(kernbridge.cache.stats().disk_entries)
"""


@pytest.mark.exhaustive
@pytest.mark.once
def test_code_of_a_process_whose_files_were_replaced_is_not_taken_for_that_of_the_new_files(
    tmp_path, run_python
):
    folder, cache = tmp_path / "install", {"KERNBRIDGE_CACHE_DIR": str(tmp_path / "cache")}
    folder.mkdir()
    (folder / "module.py").write_text("a = 1")
    for n_entries, replaced in ((1, True), (2, False), (2, False), (3, True)):
        printed = run_python(REPLACED.format(folder=str(folder), replaced=replaced), **cache)
        assert int(printed) == n_entries
