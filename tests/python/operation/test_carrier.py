"""Compiled programs that carry their kernels once, and run in other processes."""

import jax
import jax.numpy as jnp
import kernbridge
import pytest
from kernbridge._src.operation import carrier

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
from numba import cuda

SETUP = """
import pickle, re, sys, warnings
import jax, jax.numpy as jnp
from jax.experimental import serialize_executable
warnings.simplefilter("ignore")
x = jnp.arange(4.0)
S = jax.ShapeDtypeStruct

def load(path):
    parts = pickle.load(open(path, "rb"))
    one = jax.devices()[:1]
    return serialize_executable.deserialize_and_load(*parts, execution_devices=one)
"""

KERNELS = f"""{SETUP}
import kernbridge
import numpy as np
from numba import cuda

def kernel(factor):
    @cuda.jit
    def scale(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = factor * x[i]

    return kernbridge.numba_cuda_kernel(scale, S((4,), jnp.float32), launch_dims=4)

double = kernel(2)
triple = kernel(3)

def calls(text):
    return re.findall(r"custom_call @kernbridge.cuda.host([.\\w]*)", text)

def save(f, path):
    lowered = jax.jit(f).lower(x)
    compiled = lowered.compile()
    pickle.dump(serialize_executable.serialize(compiled), open(path, "wb"))
    return calls(lowered.as_text()), compiled(x)
"""

LOAD = f"{SETUP}\nprint(load(sys.argv[0].replace('program.py', 'saved'))(x))\n"


@pytest.fixture
def travels(tmp_path, run_python):
    """What a program computes, here and in another process, and the calls that it has."""

    def run(function: str) -> tuple[str, list[str]]:
        path = str(tmp_path / "saved")
        save = f"made, value = save(f, {path!r})\nprint(value, *made, sep='|')\n"
        here, *made = run_python(f"{KERNELS}\n{function}\n{save}").strip().split("|")
        assert run_python(LOAD).strip() == here
        return here, [target or "call" for target in made]

    return run


def test_a_kernel_is_carried_once(travels):
    value, made = travels("def f(x):\n    return double(triple(double(double(x))))")
    assert value == "[ 0. 24. 48. 72.]"
    assert sorted(made) == [".carrier", ".carrier", "call", "call", "call", "call"]


def test_a_first_call_that_nobody_reads(travels):
    value, made = travels("def f(x):\n    double(x)\n    return double(x + 1)")
    assert (value, made.count(".carrier")) == ("[2. 4. 6. 8.]", 1)


def test_a_branch_that_is_never_taken(travels):
    value, made = travels(
        """
def f(x):
    y = jax.lax.cond(jnp.zeros((), bool), double, lambda x: x, x)
    return double(y)
"""
    )
    assert (value, made.count(".carrier")) == ("[0. 2. 4. 6.]", 1)


def test_calls_in_loops_and_inner_functions_alone(travels):
    value, made = travels(
        """
@jax.jit
def inner(x):
    return triple(x)

def f(x):
    y = jax.lax.fori_loop(0, 2, lambda i, x: double(x), x)
    return inner(inner(y)) + 0 * double(y)
"""
    )
    assert value == "[  0.  36.  72. 108.]"
    assert made.count(".carrier") == 2


def test_a_program_of_any_size(travels):
    """One call in the program has to say more than 64 KiB."""
    value, made = travels(
        """
table = np.arange(20_000, dtype=np.float32)

@cuda.jit
def big(x, out):
    values = cuda.const.array_like(table)
    i = cuda.grid(1)
    out[i] = -values[int(x[i]) * 1000]

op = kernbridge.numba_cuda_kernel(big, S((4,), jnp.float32), launch_dims=4)

def f(x):
    return op(x)

assert len(jax.jit(f).lower(x).as_text()) > 2 * 64 * 1024
"""
    )
    assert value == "[   -0. -1000. -2000. -3000.]"
    assert made == [".carrier", "call"]


def test_the_executable_of_a_thousand_calls_is_small(run_python):
    said = run_python(
        f"""{KERNELS}
def f(x):
    for _ in range(1000):
        x = double(x)
    return x

lowered = jax.jit(f).lower(x)
print(len(lowered.as_text()), len(serialize_executable.serialize(lowered.compile())[0]))
"""
    )
    text, executable = map(int, said.split())
    assert text < 1_000_000
    assert executable < 1_500_000


def test_programs_for_several_devices_and_exports_carry_kernels_in_calls(run_python):
    """A call with a side effect is an error in a program that XLA partitions."""
    said = run_python(
        f"""{KERNELS}
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
f = jax.jit(lambda x: double(double(x)))
mesh = Mesh(np.array(jax.devices()), "i")
spread = jax.device_put(x, NamedSharding(mesh, PartitionSpec("i")))
print(len(jax.devices()), f(spread), calls(f.lower(spread).as_text()))
exported = jax.export.deserialize(jax.export.export(f)(x).serialize())
print(calls(exported.mlir_module()))
print(jax.jit(exported.call)(x), jax.jit(lambda x: exported.call(x) + 1)(spread))
"""
    )
    assert said.splitlines() == [
        "4 [ 0.  4.  8. 12.] ['.split', '.split']",
        "['', '']",
        "[ 0.  4.  8. 12.] [ 1.  5.  9. 13.]",
    ]


def test_a_program_lowered_for_several_platforms_carries_kernels_in_calls(run_python):
    said = run_python(
        f"""{KERNELS}
kernbridge.config.set_cuda_architectures("9.0")
lowered = jax.jit(double).trace(x).lower(lowering_platforms=("cpu", "cuda"))
print(calls(lowered.as_text()), ".carrier" in lowered.as_text())
"""
    )
    assert said == "[''] False\n"


def test_a_large_program_for_a_gpu_is_carried_apart(gpu, monkeypatch):
    monkeypatch.setattr(carrier, "_SMALL_ON_GPU", 0)

    @cuda.jit
    def double(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = 2 * x[i]

    x = jnp.arange(4.0)
    op = kernbridge.numba_cuda_kernel(double, x, launch_dims=4)
    lowered = jax.jit(lambda x: op(op(x))).lower(x)
    text = lowered.as_text()
    assert [text.count(f"@kernbridge.cuda{s}(") for s in (".carrier", ".graph")] == [1, 2]
    lowered.compile()(x)
    assert len(gpu.launches) == 2


def test_numba_kernels_travel_in_executables_that_carry_them(tmp_path, run_python):
    """Once for all calls, and into a process without Numba and the module; by name otherwise."""
    (tmp_path / "travelling.py").write_text(
        "import numba\n\n@numba.njit\ndef double(x, out):\n"
        "    for i in range(out.size):\n        out[i] = 2 * x[i]\n"
    )
    path = str(tmp_path / "saved")
    save = f"""{SETUP}
import kernbridge, travelling
double = kernbridge.numba_kernel(travelling.double, S((4,), jnp.float32))
lowered = jax.jit(lambda x: double(double(jnp.sin(double(x))))).lower(x)
print(lowered.as_text().count("kernbridge.host.carrier"), lowered.as_text().count("program ="))
compiled = lowered.compile()
pickle.dump(serialize_executable.serialize(compiled), open({path!r}, "wb"))
print(compiled(x))
"""
    load = f"""{SETUP}
for name in ("llvmlite", "numba", "travelling"):
    sys.modules[name] = None  # an import of it fails
try:
    print(load({path!r})(x))
except Exception as e:
    print(e)
"""
    where = {"KERNBRIDGE_CACHE_DIR": "0"}
    carried, value = run_python(save, KERNBRIDGE_CARRY_KERNELS="1", **where).splitlines()
    assert carried == "1 1"
    assert run_python(load, **where).strip() == value
    carried, _ = run_python(save, **where).splitlines()
    assert carried == "0 0"
    assert "travelling" in run_python(load, **where)


def test_what_executables_carry_can_be_chosen(monkeypatch):
    monkeypatch.delenv("KERNBRIDGE_CARRY_KERNELS", raising=False)
    config = kernbridge.config
    assert config.get_carry_kernels() is False
    monkeypatch.setenv("KERNBRIDGE_CARRY_KERNELS", "1")
    assert config.get_carry_kernels() is True
    config.set_carry_kernels(False)
    assert config.get_carry_kernels() is False
    config.set_carry_kernels(None)
    assert config.get_carry_kernels() is True
    with pytest.raises(TypeError, match="carry is 1, expected True, False or None"):
        config.set_carry_kernels(1)
