"""Compiled programs that carry their kernels once, and run in other processes."""

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

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


@pytest.mark.once
@pytest.mark.exhaustive
def test_a_kernel_is_carried_once(travels):
    value, made = travels("def f(x):\n    return double(triple(double(double(x))))")
    assert value == "[ 0. 24. 48. 72.]"
    assert sorted(made) == [".carrier", ".carrier", "call", "call", "call", "call"]


@pytest.mark.exhaustive
def test_a_first_call_that_nobody_reads(travels):
    value, made = travels("def f(x):\n    double(x)\n    return double(x + 1)")
    assert (value, made.count(".carrier")) == ("[2. 4. 6. 8.]", 1)


@pytest.mark.exhaustive
def test_a_branch_that_is_never_taken(travels):
    value, made = travels(
        """
def f(x):
    y = jax.lax.cond(jnp.zeros((), bool), double, lambda x: x, x)
    return double(y)
"""
    )
    assert (value, made.count(".carrier")) == ("[0. 2. 4. 6.]", 1)


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
def test_a_program_lowered_for_several_platforms_carries_kernels_in_calls(run_python):
    said = run_python(
        f"""{KERNELS}
kernbridge.config.set_cuda_architectures("9.0")
lowered = jax.jit(double).trace(x).lower(lowering_platforms=("cpu", "cuda"))
print(calls(lowered.as_text()), ".carrier" in lowered.as_text())
"""
    )
    assert said == "[''] False\n"


@pytest.mark.exhaustive
def test_a_large_program_for_a_gpu_is_carried_apart(gpu):
    numbers = np.full(16_000, 2, np.float32)  # 64 kB

    @cuda.jit
    def double(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = cuda.const.array_like(numbers)[i] * x[i]

    x = jnp.arange(4.0)
    op = kernbridge.numba_cuda_kernel(double, x, launch_dims=4)
    lowered = jax.jit(lambda x: op(op(x))).lower(x)
    text = lowered.as_text()
    assert [text.count(f"@kernbridge.cuda{s}(") for s in (".carrier", ".graph")] == [1, 2]
    lowered.compile()(x)
    assert len(gpu.launches) == 2


@pytest.mark.exhaustive
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
    with pytest.raises(TypeError, match=r"is 1.*\[KB8001\]"):
        config.set_carry_kernels(1)


SEVERAL_DEVICES = """
import warnings
warnings.simplefilter("ignore")
import jax, jax.numpy as jnp, numpy as np
from jax import export
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from numba import cuda
from kernbridge import numba_cuda_kernel

@cuda.jit
def triple(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 3 * x[i]

op = numba_cuda_kernel(
    triple, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), launch_dims=lambda x: x.shape
)
mesh = Mesh(np.array(jax.devices()), ("d",))
x = jnp.arange(40, dtype=jnp.float32).reshape(8, 5)
parts = jax.device_put(x, NamedSharding(mesh, P("d")))

def rows(x):
    return jax.vmap(op)(x)

def expect(f, x, times=3):
    np.testing.assert_array_equal(f(x), times * np.arange(40).reshape(8, 5))

def travelled(f, x):
    exported = export.export(jax.jit(f))(x)
    text = exported.mlir_module()
    assert (text.count(".carrier"), text.count("program =")) == (1, 1)
    return export.deserialize(exported.serialize()).call

def carried_once(f, x):
    lowered = jax.jit(f).lower(x)
    text = lowered.as_text()
    assert (text.count(".carrier"), text.count("program =")) == (1, 1)
    compiled = lowered.compile()
    assert compiled.as_text().count("program =") == 1
    return compiled

expect(carried_once(lambda x: rows(rows(x)), parts), parts, 9)
split = jax.shard_map(rows, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
expect(carried_once(split, parts), parts)
whole = travelled(lambda x: rows(rows(x)), x)
part = travelled(rows, x[:2])
row = travelled(op, x[0])
expect(whole, x, 9)
expect(jax.jit(whole), parts, 9)
inside = dict(mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)
expect(jax.jit(jax.shard_map(part, **inside)), parts)
expect(jax.jit(lambda x: jax.lax.map(row, x)), x)
expect(jax.jit(lambda x: jax.lax.cond(x[0, 0] < 1, whole, lambda x: x, x)), x, 9)
if jax.config.jax_use_shardy_partitioner:  # without Shardy, JAX cannot call such exports
    expect(jax.jit(travelled(rows, parts)), parts)
    expect(jax.jit(travelled(split, parts)), parts)
"""


@pytest.mark.parametrize("shardy", ["1", "0"])
@pytest.mark.exhaustive
def test_programs_for_several_devices_and_exported_ones_carry_a_kernel_once(shardy, run_python):
    run_python(
        SEVERAL_DEVICES,
        XLA_FLAGS="--xla_force_host_platform_device_count=4",
        JAX_USE_SHARDY_PARTITIONER=shardy,
        KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so",
    )
