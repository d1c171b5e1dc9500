"""Where a program may look for a kernel that it names: it runs no code of modules by doing so."""

import pytest

pytestmark = pytest.mark.once

# A module that makes what is asked for at that moment, as lazily loaded packages do.
LAZY = """
import numba

executed = []

class Proxy:
    def __getattr__(self, name):
        executed.append(name)
        raise AttributeError(name)

    def __repr__(self):
        executed.append("__repr__")
        return "proxy"

    def __eq__(self, other):
        executed.append("__eq__")
        return False

class Holder:
    proxy = Proxy()

    @property
    def made(self):
        executed.append("made")

    @staticmethod
    @numba.njit
    def double(x, out):
        for i in range(out.size):
            out[i] = 2 * x[i]

proxy, holder = Proxy(), Holder()

def __getattr__(name):
    executed.append(name)
    return __import__(name)
"""
CALLS = """
import importlib.util, json, sys
import jax, jax.numpy as jnp, numpy as np
import kernbridge, lazy, numba

def call(qualname, rank=1, digest=bytes(range(32)), module="lazy"):
    origin = {"format": 2, "kind": "numba", "module": module, "qualname": qualname,
              "half_as_bits": False, "options": {}, "inputs": [["float32", rank]], "scalars": [],
              "outputs": [["float32", rank]], "aliased": []}
    like = jax.ShapeDtypeStruct((3,), jnp.float32)
    attributes = {"call": np.frombuffer(digest[:8], np.int64), "origin": json.dumps(origin),
                  "digest": np.frombuffer(digest, np.uint8)}
    f = jax.jit(lambda x: jax.ffi.ffi_call("kernbridge.host", like)(x, **attributes))
    try:
        print(f(jnp.ones(3)).tolist())
    except jax.errors.JaxRuntimeError as e:
        print(str(e).splitlines()[0])
"""


@pytest.fixture
def run(tmp_path, run_python):
    (tmp_path / "lazy.py").write_text(LAZY)
    (tmp_path / "antigravity_of_ours.py").write_text("print('imported')")
    return lambda source: run_python(CALLS + source).splitlines()


def test_looking_a_kernel_up_runs_nothing(run):
    """An attribute that a module makes on demand was made, which imports what it names."""
    names = ["antigravity_of_ours", "proxy", "holder.made", "proxy.x.y", "Holder.proxy", "executed"]
    *said, executed = run(f"for name in {names}: call(name)\nprint(lazy.executed)")
    assert executed == "[]"
    assert len(said) == len(names)
    for name, line in zip(names, said, strict=True):
        assert (
            f"the program needs the kernel lazy:{name}, which was not found in this process" in line
        )


@pytest.mark.exhaustive
def test_a_kernel_of_a_class_is_found(run):
    """By a process that does not have its machine code."""
    (text,) = run("""
op = kernbridge.numba_kernel(lazy.Holder.double, lambda x: x)
print(jax.jit(op).lower(jnp.ones(3)).as_text().partition("digest = dense<")[2].partition(">")[0])
""")
    found = run(f"call('Holder.double', digest=bytes({text}))")
    assert found == ["[2.0, 2.0, 2.0]"]


@pytest.mark.brief
@pytest.mark.parametrize("rank", [-1, 65, 10**6, 10**30])
def test_a_rank_that_no_array_has_is_damage(run, rank):
    (said,) = run(f"call('Holder.double', rank={rank})")
    assert f"(an array of rank {rank}); it is damaged, or was exported by another version" in said
