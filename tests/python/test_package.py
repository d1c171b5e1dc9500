"""The package as a whole: what leaves the library, what an import costs, documents that run."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import documents
import kernbridge._core as _core
import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITHOUT_CODE = {
    "changelog.md",
    "checks.md",
    "choose.md",
    "command-line.md",
    "contributing.md",
    "cuda-agreement.md",
    "debugging.md",
    "environment.md",
    "errors.md",
    "faq.md",
    "gallery.md",
    "glossary.md",
    "how-it-works.md",
    "limits.md",
    "microcircuit.md",
    "notebooks.md",
    "performance.md",
    "profiling.md",
    "releasing.md",
    "reliability.md",
    "testing.md",
    "uninstall.md",
    "versioning.md",
    "which-tool.md",
}
NEEDED = {
    "aftershocks.py": ["numpyro"],
    "brainevent.md": ["brainevent"],
    "epidemic.py": ["diffrax", "optax"],
    "training.md": ["diffrax", "flax", "optax"],
}
ON_THE_CPU = {"find-a-fault.md", "cuda-source.md"}  # elsewhere the fake driver plays a GPU
EXAMPLES = [*sorted((ROOT / "examples").glob("*.py")), ROOT / "studies" / "microcircuit.py"]
ARGUMENTS = {
    "backends.py": ["--size", "10000"],
    "coba.py": ["--neurons", "400", "--seconds", "0.05"],
    "microcircuit.py": ["--scale", "0.005", "--seconds", "0.05", "--plan", "cpu", "--check", "0"],
}


def rarely(example):
    """What takes long or is shown by a document, too, is run by `make test-all`."""
    always = example.name == "coba.py"
    return [] if always else [pytest.mark.exhaustive]


def skip_without_packages(path):
    for package in NEEDED.get(path.name, []):
        if not importlib.util.find_spec(package):
            pytest.skip(f"{package} is not installed")


@pytest.mark.once
@pytest.mark.parametrize("example", [pytest.param(e, id=e.name, marks=rarely(e)) for e in EXAMPLES])
def test_examples_run(example, tmp_path):
    skip_without_packages(example)
    command = [sys.executable, str(example), *ARGUMENTS.get(example.name, [])]
    environment = {**os.environ, "KERNBRIDGE_LIBCUDA": "", "KERNBRIDGE_TEST_CUDA": ""}  # no fake
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
    if example.name == "coba.py":
        assert (tmp_path / "coba_raster.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "coba_raster.pdf").read_bytes().startswith(b"%PDF")
        assert "Exact" in done.stdout


@pytest.mark.brief
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(p, marks=() if p.name == "README.md" else pytest.mark.once, id=p.name)
        for p in DOCUMENTS
    ],
)
def test_code_in_documents_runs(document, run_python, request):
    blocks = documents.blocks(document.read_text())
    assert bool(blocks) != (document.name in WITHOUT_CODE)
    if not blocks:
        return
    skip_without_packages(document)
    source, environment = documents.program(blocks), {}
    if "cuda" in source and document.name not in ON_THE_CPU:
        request.getfixturevalue("gpu")
        source = "import fake_gpu\ndriver = fake_gpu.FakeDriver()\n" + source
        environment = {n: os.environ[n] for n in ("KERNBRIDGE_LIBCUDA", "KERNBRIDGE_TEST_CUDA")}
    assert not documents.differences(blocks, run_python(source, **environment))


@pytest.mark.skipif(shutil.which("nm") is None, reason="binutils' nm is not installed")
def test_only_the_modules_entry_leaves_the_library():
    command = ["nm", "--dynamic", "--defined-only", _core.__file__]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in listing.splitlines()] == ["PyInit__core"]


def test_what_few_programs_need_is_imported_when_it_is_used(run_python):
    found = r"re.findall(r'\b(?:numba|jax\.extend|tangents)\b', ' '.join(sys.modules))"
    program = f"import re, sys, kernbridge\nprint({found})\n"
    assert run_python(program) == "[]\n"


@pytest.mark.once
def test_a_cpu_kernel_does_not_import_numba_cuda(run_python):
    program = """
import sys, jax, jax.numpy as jnp, kernbridge, numba
kernel = numba.njit(lambda x, out: None)
kernbridge.numba_kernel(kernel, jax.ShapeDtypeStruct((3,), jnp.float32))(jnp.ones(3))
print("numba.cuda" in sys.modules)
"""
    assert run_python(program) == "False\n"


@pytest.mark.exhaustive
def test_an_unknown_jax_warns_and_works(run_python):
    program = """
import warnings
import jax, jax.numpy as jnp, numba, numpy as np
import jax._src.core
hidden = jax._src.core.get_cur_mesh_sharding
del jax._src.core.get_cur_mesh_sharding
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import kernbridge
jax._src.core.get_cur_mesh_sharding = hidden
assert any("does not support JAX" in str(w.message) for w in caught), caught

@numba.njit
def add(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i]

op = kernbridge.numba_kernel(add, lambda x, y: jax.ShapeDtypeStruct(x.shape, x.dtype))
x = jnp.arange(4.0)
assert (op(x, x) == 2 * x).all()
assert (jax.jit(jax.vmap(op, (0, None)))(jnp.stack([x, x]), x) == 2 * x).all()
assert jax.lax.fori_loop(0, 3, lambda i, y: op(y, y), x)[1] == 8
print("works")
"""
    assert run_python(program).endswith("works\n")


def test_numba_missing_is_said(run_python):
    program = """
import sys
sys.modules["numba"] = None
import kernbridge
try:
    kernbridge.numba_kernel(lambda x, out: None, [])
except ImportError as e:
    print(e)
"""
    assert "pip install numba" in run_python(program)


def test_every_dtype_of_xla_is_known():
    names = _core.dtypes()
    assert len(names) == len({code for code, *_ in names.values()}) == 31
    assert names["float32"] == (11, 32, 1, 2)
    assert names["int4"] == (21, 4, 34, 0)


@pytest.mark.once
@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for the floor")
def test_benchmarks_run_and_save_their_figures(tmp_path):
    for script, arguments in (
        ("per_call.py", ["--only", "One call from Python", "--rounds", "1"]),
        ("threads.py", ["--rounds", "1"]),
    ):
        saved = tmp_path / f"{script}.json"
        command = [sys.executable, str(ROOT / "benchmarks" / script), *arguments]
        done = subprocess.run(
            [*command, "--json", str(saved)], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (rows,) = json.loads(saved.read_text())["results"].values()
        assert "kernbridge" in [row["name"] for row in rows]
        assert all(row["median"] > 0 for row in rows)
