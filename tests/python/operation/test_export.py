"""Exported programs: what JAX has to be told, and on which platforms they run."""

import jax
import jax.numpy as jnp
import numpy as np
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
from kernbridge._src.base import jax_inside
from jax._src.export import _export

def refused(target, checks=()):
    call = jax.jit(lambda x: jax.ffi.ffi_call(target, jax.ShapeDtypeStruct(x.shape, x.dtype))(x))
    try:
        jax.export.export(call, disabled_checks=checks)(1.0)
    except ValueError as e:
        return re.search(r"no compatibility guarantees[^@]*(@[\\w.]+)", str(e))[1]
    return ""
"""


def test_jax_takes_every_target_of_ours_and_no_other(run_python):
    said = run_python(
        f"""{TARGETS}
for target in ("kernbridge.host", "kernbridge.cuda.host", *_core.cuda_handlers(), "kernbridge.no"):
    print(target, refused(target))
"""
    )
    assert said.splitlines() == [
        "kernbridge.host ",
        "kernbridge.cuda.host ",
        "kernbridge.cuda ",
        "kernbridge.cuda.graph ",
        "kernbridge.no @kernbridge.no",
    ]


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
