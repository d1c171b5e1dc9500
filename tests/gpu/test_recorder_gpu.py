"""Recorded launchers and the launchers themselves give the same bits on a GPU."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from drawn_launchers import drawn

sys.path.insert(0, str(Path(__file__).parents[1] / "sources"))

import corpus

CUDA = [c for c in corpus.all_cases() if c.language == "cuda"]
NO_GRAPHS = {"xla_gpu_enable_command_buffer": ""}
# A filter in constant memory is kept between calls, and algorithms of newer versions of CUB pass
# addresses outside of their temporary memory.
NOT_RECORDED = {"convolve_constant", "cub_reduce"}
pytestmark = pytest.mark.usefixtures("x64")


def bits(values):
    return [np.asarray(v).tobytes() for v in jax.tree.leaves(values)]


def programs(operation, arrays, has_alias):
    """The results of an operation in several programs."""
    yield jax.jit(operation)(*arrays)
    yield jax.jit(operation, compiler_options=NO_GRAPHS)(*arrays)
    if not arrays:
        return
    if not has_alias:
        stacked = [jnp.stack([x, x[::-1] if x.ndim else x, x]) for x in arrays]
        yield jax.jit(jax.vmap(operation))(*stacked)

    def step(carry, _):
        return carry, operation(*arrays)

    yield jax.jit(lambda: jax.lax.scan(step, 0, length=3)[1])()


@pytest.fixture(scope="module")
def builds():
    how = {"auto_register": False}
    with ThreadPoolExecutor() as pool:
        made = {
            (c.name, record): pool.submit(c.load, record=record, **how)
            for c in CUDA
            for record in ("never", "auto" if c.name in NOT_RECORDED else "always")
        }
        yield made


@pytest.mark.parametrize("case", CUDA, ids=[c.name for c in CUDA])
def test_sources_give_the_same_bits(case, builds):
    record = "auto" if case.name in NOT_RECORDED else "always"
    modules = [builds[case.name, r].result() for r in (record, "never", "never")]
    for call in case.calls:
        arrays = call.inputs(np.random.default_rng(3))
        expected = call.expected(arrays)
        arrays = list(map(jnp.asarray, arrays))
        operations = [call.bound(m, expected) for m in modules]
        runs = [programs(o, arrays, bool(call.aliases)) for o in operations]
        scratch = [isinstance(x, jax.ShapeDtypeStruct) for x in jax.tree.leaves(expected)]
        for results in zip(*runs, strict=True):
            recorded, direct, again = (
                [
                    x
                    for x, is_scratch in zip(jax.tree.leaves(r), scratch, strict=True)
                    if not is_scratch
                ]
                for r in results
            )
            if bits(direct) == bits(again):  # atomics on real numbers have no order
                assert bits(recorded) == bits(direct)


def test_drawn_launchers_give_the_same_bits():
    source, found = drawn(200, seed=20261129)
    always, never = (
        kernbridge.load_cuda_inline(
            "drawn",
            source,
            auto_register=False,
            record=record,
            allow_cuda_graph=record == "always",  # direct allocations are refused in graphs
        )
        for record in ("always", "never")
    )
    rng = np.random.default_rng(7)
    for one in found:
        outs = [jax.ShapeDtypeStruct((n,), one.dtype) for n in one.outputs]
        arrays = [jnp.asarray(rng.integers(0, 1 << 30, n), one.dtype) for n in one.inputs]
        runs = [
            programs(m[one.name].operation(outs, **one.attributes), arrays, False)
            for m in (always, never)
        ]
        for recorded, direct in zip(*runs, strict=True):
            assert bits(recorded) == bits(direct), one.text


def test_an_exported_program_needs_no_source(tmp_path):
    module = kernbridge.load_cuda_inline("exported", drawn(1, seed=5)[0], auto_register=False)
    (one,) = drawn(1, seed=5)[1]
    outs = [jax.ShapeDtypeStruct((n,), one.dtype) for n in one.outputs]
    arrays = [jnp.arange(n, dtype=one.dtype) for n in one.inputs]
    operation = jax.jit(module[one.name].operation(outs, **one.attributes))
    (tmp_path / "program").write_bytes(jax.export.export(operation)(*arrays).serialize())
    np.savez(tmp_path / "arrays.npz", *operation(*arrays))
    program = f"""
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
program = jax.export.deserialize(bytearray(open({str(tmp_path / "program")!r}, "rb").read()))
found = program.call(*(jnp.arange(n, dtype={one.dtype!r}) for n in {one.inputs}))
for a, b in zip(found, np.load({str(tmp_path / "arrays.npz")!r}).values(), strict=True):
    np.testing.assert_array_equal(a, b)
"""
    environment = {**os.environ, "KERNBRIDGE_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/bin"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
