"""Exported programs: what JAX has to be told, and on which platforms they run."""

import warnings

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel
from kernels import add

S = jax.ShapeDtypeStruct
X = np.arange(4, dtype=np.float32)
op = numba_kernel(add, S((4,), jnp.float32))


def test_an_export_needs_no_disabled_checks():
    blob = jax.export.export(jax.jit(lambda x: op(x, x) + 1))(X).serialize()
    np.testing.assert_array_equal(jax.export.deserialize(blob).call(X), 2 * X + 1)


TARGETS = """
import re, jax, kernbridge
from kernbridge import _core
from jax._src.export import _export

def refused(target, checks=()):
    call = jax.jit(lambda x: jax.ffi.ffi_call(target, jax.ShapeDtypeStruct(x.shape, x.dtype))(x))
    try:
        jax.export.export(call, disabled_checks=checks)(1.0)
    except ValueError as e:
        return re.search(r"no compatibility guarantees[^@]*(@[\\w.]+)", str(e))[1]
    return ""
"""


@pytest.mark.exhaustive
def test_jax_takes_every_target_of_ours_and_no_other(run_python):
    said = run_python(
        f"""{TARGETS}
for target in (*_core.targets(False), *_core.targets(True), "kernbridge.no"):
    print(target, refused(target))
"""
    )
    *ours, other = said.splitlines()
    assert {"kernbridge.host ", "kernbridge.cuda.host ", "kernbridge.cuda.graph "} <= {*ours}
    assert [line for line in ours if not line.endswith(" ")] == []
    assert other == "kernbridge.no @kernbridge.no"


def test_where_jax_lacks_the_name_disabled_checks_are_needed(run_python):
    said = run_python(
        f"""
from jax._src.export import _export
class Other(set):
    update = property()
_export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE = Other()
{TARGETS}
check = jax.export.DisabledSafetyCheck.custom_call("kernbridge.host")
print(repr(refused("kernbridge.host")), repr(refused("kernbridge.host", [check])))
"""
    )
    assert said.split() == ["'@kernbridge.host'", "''"]


@numba.njit
def refuse_negative(x, out):
    for i in range(x.size):
        if x[i] < 0:
            raise ValueError("negative")
        out[i] = x[i]


@numba.njit
def refuse_negative_without_outputs(x):
    refuse_negative(x, np.empty_like(x))


@pytest.mark.exhaustive
@pytest.mark.parametrize("outs", [(), S((4,), jnp.float32)], ids=["no outputs", "an unused output"])
def test_a_side_effect_is_exported_and_happens_in_another_process(run_python, tmp_path, outs):
    kernel = refuse_negative if outs else refuse_negative_without_outputs
    check = numba_kernel(kernel, outs, has_side_effect=True)
    program = jax.export.export(jax.jit(lambda x: (check(x), 2 * x)[1]))(X)
    (tmp_path / "program").write_bytes(program.serialize())
    said = run_python(
        f"""
import pathlib, jax, kernbridge, numpy as np
blob = pathlib.Path({str(tmp_path / "program")!r}).read_bytes()
call = jax.jit(jax.export.deserialize(blob).call)
x = np.arange(4, dtype=np.float32)
print(call(x))
try:
    jax.block_until_ready(call(-x))
except jax.errors.JaxRuntimeError as e:
    print("ValueError: negative" in str(e))
"""
    )
    assert said.split() == ["[0.", "2.", "4.", "6.]", "True"]


def export_warnings(kernel):
    wrapped = numba_kernel(kernel, S((4,), jnp.float32))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        jax.export.export(jax.jit(wrapped))(X, X)
    return [str(w.message) for w in said if w.category is kernbridge.KernbridgeWarning]


@pytest.mark.exhaustive
def test_a_kernel_that_another_process_cannot_find_is_exported_with_a_warning():
    @numba.njit
    def local(x, y, out):
        print("stays in its process")
        out[:] = x + y

    (said,) = export_warnings(local)
    name = (
        "test_a_kernel_that_another_process_cannot_find_is_exported_with_a_warning.<locals>.local"
    )
    assert said.startswith(
        f"numba_kernel 'local' is exported by its name, {__name__}:{name}, but another process "
        "will not find it: it is not at the top level of its module. Define the kernel at the top "
    )
    (said,) = export_warnings(numba.njit(lambda x, y, out: print(1)))
    assert "<lambda>" in said
    scope = {}
    exec("def made(x, y, out): print(out.size)", scope)
    (said,) = export_warnings(numba.njit(scope["made"]))
    assert "<no module>:made, but another process" in said
    assert export_warnings(add) == []


def test_compiling_without_export_warns_of_nothing():
    @numba.njit
    def local(x, y, out):
        out[:] = x + y

    with warnings.catch_warnings():
        warnings.simplefilter("error", kernbridge.KernbridgeWarning)
        numba_kernel(local, S((4,), jnp.float32))(X, X)


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_kernel_of_the_main_program(run_python):
    said = run_python(
        """
import warnings, jax, numba, kernbridge

@numba.njit
def copy(x, out):
    print("stays in its process")
    out[0] = x[0]

op = kernbridge.numba_kernel(copy, jax.ShapeDtypeStruct((1,), "float32"))
with warnings.catch_warnings(record=True) as said:
    jax.export.export(jax.jit(op))(jax.ShapeDtypeStruct((1,), "float32"))
print(*(w.message for w in said))
"""
    )
    assert "__main__:copy, but another process will not find it: in that process, another" in said


@pytest.mark.once
def test_a_call_that_carries_its_kernel_needs_no_name():
    @numba.njit
    def copy(x, out):  # which no other process can import
        out[:] = x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.export.export(jax.jit(numba_kernel(copy, S((4,), jnp.float32))))(X)


@pytest.mark.exhaustive
def test_an_exported_cuda_kernel_for_one_architecture_is_small(run_python):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    said = run_python(
        """
import jax, jax.numpy as jnp, kernbridge
from numba import cuda

@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]

kernbridge.config.set_cuda_architectures("9.0")
S = jax.ShapeDtypeStruct((4,), jnp.float32)
op = kernbridge.numba_cuda_kernel(add, S, launch_dims=4)
print(len(jax.export.export(jax.jit(op), platforms=["cuda"])(S, S).serialize()))
"""
    )
    assert int(said) < 10_000
