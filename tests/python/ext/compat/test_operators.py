"""BrainEvent itself on kernbridge: its operators, and its CUDA sources."""

import importlib.metadata
import importlib.util
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import kernbridge
import numpy as np
import pytest
from kernbridge._src.toolchain.nvcc import find_nvcc
from kernbridge.compat import brainevent as compat
from kernbridge.compat.brainevent.replace import header_folders

# BrainEvent 0.3 needs Python 3.12, where the tests of the newest JAX run; other Pythons have 0.2.
pytestmark = [] if sys.version_info >= (3, 12) else [pytest.mark.once]

OPERATORS = """
import numpy as np
from kernbridge.compat import brainevent
brainevent.install()
import brainevent as be, jax, jax.numpy as jnp

rng = np.random.default_rng(0)
dense = np.where(rng.random((7, 5)) < 0.4, rng.random((7, 5)), 0).astype(np.float32)
row, column = rng.random(7, np.float32), rng.random(5, np.float32)
csr = be.CSR.fromdense(dense)
same = lambda got, expected: np.testing.assert_allclose(got, expected, rtol=1e-5)
"""

SHORT = """
spikes = be.BinaryArray(jnp.asarray(row > 0.5))
same(csr @ jnp.asarray(column), dense @ column)
same(spikes @ csr, (row > 0.5) @ dense)
if hasattr(be, "csr_delay_deliver"):  # BrainEvent 0.3
    ring, ones = jnp.zeros((4, 5), jnp.float32), jnp.ones(csr.data.size, jnp.int32)
    structure = csr.data, csr.indices, csr.indptr
    got = be.csr_delay_deliver(ring, spikes, *structure, ones, 5, shape=csr.shape)
    same(got[2], (row > 0.5) @ dense)
    same(be.csr_slice_rows(*structure, jnp.array([3, 1]), shape=csr.shape), dense[[3, 1]])
    same(spikes @ be.CSC.fromdense(dense), (row > 0.5) @ dense)
    same(be.WeightedArray(jnp.asarray(row)) @ csr, row @ dense)
print("right")
"""

LONG = """
fixed = be.FixedNumPerPre(
    (jnp.arange(14, dtype=jnp.float32).reshape(7, 2), jnp.tile(jnp.array([1, 3]), (7, 1))),
    shape=(7, 5),
)
for matrix in csr, fixed:
    whole = np.asarray(matrix.todense())
    assert whole.any()
    for left, right, vector in ((False, True, column), (True, False, row)):
        events = be.BinaryArray(jnp.asarray(vector > 0.5))
        for given, values in ((jnp.asarray(vector), vector), (events, (vector > 0.5) * 1.0)):
            same(given @ matrix if left else matrix @ given,
                 values @ whole if left else whole @ values)
    stack = np.stack([column, 2 * column])
    same(jax.vmap(lambda x: jax.jit(lambda x: matrix @ x)(x))(stack), stack @ whole.T)
    same(jax.grad(lambda x: (matrix @ x).sum())(jnp.asarray(column)), whole.sum(0))
print("right")
"""


BOTH = [
    pytest.param(SHORT, id="short"),
    pytest.param(LONG, id="long", marks=pytest.mark.exhaustive),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("which", BOTH)
def test_operators_compute_what_numpy_does(which, run_python):
    if importlib.util.find_spec("brainevent") is None:
        pytest.skip("BrainEvent is not installed")
    assert run_python(OPERATORS + which) == "right\n"


PROGRAMS = {"operators": ["10"], "structures": []}  # and their arguments


@pytest.mark.exhaustive
@pytest.mark.parametrize("program", PROGRAMS)
def test_operators_compute_what_they_do_on_their_own_bridge(program, tmp_path):
    """With the data that BrainEvent measures itself with, and for small data of all its types."""
    if importlib.util.find_spec("brainevent") is None:
        pytest.skip("BrainEvent is not installed")
    script = str(Path(__file__).with_name(f"{program}.py"))
    results = []
    for bridge in ("own", "kernbridge"):
        path = tmp_path / f"{bridge}.npz"
        command = [sys.executable, script, bridge, str(path), *PROGRAMS[program]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        results.append(np.load(path))
    own, ours = results
    fewer = program == "structures" and importlib.metadata.version("brainevent").startswith("0.2.")
    assert len(own.files) > (80 if fewer else 100)
    assert set(own.files) == set(ours.files)
    for name in own.files:
        assert own[name].dtype == ours[name].dtype, name
        np.testing.assert_allclose(own[name], ours[name], rtol=1e-5, atol=1e-5, err_msg=name)


WRONG_AXIS = """
import jax, jax.numpy as jnp
if {install}:
    from kernbridge.compat import brainevent
    brainevent.install()
import brainevent as be
jax.default_backend = lambda: "gpu"
weights, indices = jnp.ones((7, 2)), jnp.zeros((7, 2), jnp.int32)
product = lambda s: be.binary_fcnmv(weights, indices, s, shape=(7, 5), transpose=True)
try:
    print(jax.eval_shape(jax.vmap(product), jnp.ones((3, 7))).shape)
except Exception as e:
    print(e)
"""


@pytest.mark.exhaustive
def test_a_batch_axis_that_brainevent_names_wrongly_is_refused(run_python):
    """BrainEvent 0.2 has a batching rule for GPUs which names axis 1 where the batch is axis 0."""
    found = importlib.util.find_spec("brainevent")
    if found is None or not importlib.metadata.version("brainevent").startswith("0.2."):
        pytest.skip("BrainEvent 0.2 is not installed")
    assert run_python(WRONG_AXIS.format(install=False)) == "(5, 3)\n"  # of what is (3, 5)
    assert run_python(WRONG_AXIS.format(install=True)) == (
        "'ell_binary_matvec': the batching rule returned f32[3,5] as output 0 with axis 1, "
        "expected f32[5,3] [KB2103]\n"
    )


def brainevents_sources() -> list[Path]:
    """Return BrainEvent's annotated CUDA sources."""
    found = importlib.util.find_spec("brainevent")
    if found is None or not found.origin:
        return []
    files = sorted(Path(found.origin).parent.rglob("*.cu"))
    return [f for f in files if "@BE" in f.read_text(encoding="utf-8", errors="replace")]


SOURCES = {"0.2.1": 45, "0.3.0": 61}  # versions of BrainEvent, and how many sources were found
QUICKLY = {"optimization_level": 0, "extra_cuda_cflags": ["-Xptxas", "-O0"]}
QUICKLY |= {"compute_capability": "9.0"}


def test_the_cuda_sources_of_brainevent_are_found():
    """What the next test is run for."""
    found = len(brainevents_sources())
    if not found:
        pytest.skip("BrainEvent is not installed")
    assert found == SOURCES.get(importlib.metadata.version("brainevent"), found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("where", ["by nvcc", "on a CPU, checked"])
@pytest.mark.parametrize("source", brainevents_sources(), ids=lambda source: source.stem)
def test_cuda_sources_of_brainevent_are_built_and_loaded(source, where):
    options = {"auto_register": False, "extra_include_paths": list(map(str, header_folders()))}
    if where != "by nvcc":
        refused = pytest.raises(kernbridge.KernelCompilationError, match=r"cublas_v2.*KB4005")
        how = refused if "cublas" in source.name else nullcontext()
        with kernbridge.cuda_on_cpu(check=True), how:
            assert compat.load_cuda_file(source, **options).function_names
        return
    try:
        find_nvcc()
    except kernbridge.KernelToolchainError as e:
        pytest.skip(f"no nvcc: {str(e).splitlines()[0]}")
    libraries = ["-lcublas"] if "cublas" in source.name else []
    module = compat.load_cuda_file(source, extra_ldflags=libraries, **options, **QUICKLY)
    assert module.function_names
