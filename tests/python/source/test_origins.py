"""What a program says of a function from source that it names is compared with the function.

The programs are calls of the target by hand, as somebody may write them into a file.
"""

import hashlib
import json

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from kernbridge._src.keys.fingerprint import key_of

pytestmark = pytest.mark.once

ROW = jax.ShapeDtypeStruct((3,), jnp.float32)
X = np.arange(3, dtype=np.float32)
SOURCE = """
#include "kernbridge/kernbridge.hpp"

// @BE scale arg:f32[n] ret:any[n] attr.factor
void scale(const kernbridge::Tensor x, kernbridge::Tensor out, double factor) {
    for (int64_t i = 0; i < x.numel(); i++)
        out.data_ptr<float>()[i] = factor * x.data_ptr<float>()[i];
}
"""


@pytest.fixture(scope="module")
def export():
    module = kernbridge.load_cpp_inline("test_origins", SOURCE, auto_register=False)
    return module.scale._export


def origin_of(export, **changed):
    """The origin of a call of `scale` with a factor of 2.5."""
    origin = {
        "format": 2,
        "kind": "source",
        "module": export.module,
        "digest": export.digest,
        "function": "scale",
        "values": [np.float64(2.5).tobytes().hex()],
        "arrays": [["float32", 1], ["float32", 1]],
        "n_inputs": 1,
        "zeroed": False,
    }
    return {**origin, **changed}


def identity_of(origin):
    """The digest of a call, as whoever writes a program can compute it."""
    codes = kernbridge._core.dtypes()
    made_of = (
        *("kernbridge.source", f"{origin['digest']} scale".encode()),
        tuple(bytes.fromhex(v) for v in origin["values"]),
        tuple((codes[d][0], rank) for d, rank in origin["arrays"]),
        *(origin["n_inputs"], False, *["zeroed"] * origin["zeroed"]),
    )
    return hashlib.sha256(repr(made_of).encode()).digest()


def call(digest, origin):
    attributes = {
        "call": np.array([key_of(digest)]),
        "digest": np.frombuffer(digest, np.uint8),
        "origin": json.dumps(origin),
    }
    f = jax.jit(lambda x: jax.ffi.ffi_call("kernbridge.host", ROW)(x, **attributes))
    return np.asarray(f(X))


def test_the_origin_of_a_call_leads_to_its_function(export):
    origin = origin_of(export)
    np.testing.assert_array_equal(call(identity_of(origin), origin), 2.5 * X)


@pytest.mark.parametrize(
    ("factor", "changed"),
    [
        (3.5, {"values": [np.float64(3.25).tobytes().hex()]}),  # one flipped bit of the number
        (4.5, {"zeroed": True}),
        (5.5, {"arrays": [["float32", 1], ["float32", 2]]}),
    ],
)
def test_a_changed_origin_is_refused(export, factor, changed):
    """It ran with the changed value, and the registry kept it under the digest of the other."""
    origin = origin_of(export, values=[np.float64(factor).tobytes().hex()])
    digest = identity_of(origin)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"digest.*another.*\[KB5107\]"):
        call(digest, {**origin, **changed})
    np.testing.assert_array_equal(call(digest, origin), factor * X)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"values": []}, "0 attributes, and the function has 1"),
        ({"values": ["00"]}, "attribute 'factor' of 1 bytes, expected 8"),
        ({"values": ["00" * 4096]}, "attribute 'factor' of 4096 bytes, expected 8"),
        ({"values": ["00" * 8] * 2}, "2 attributes, and the function has 1"),
        ({"n_inputs": 0}, "0 inputs and 2 outputs, and the function has 1 and 1"),
        ({"n_inputs": -1}, "-1 inputs and 3 outputs"),
        ({"arrays": [["float32", 1]]}, "1 inputs and 0 outputs, and the function has 1 and 1"),
        ({"arrays": [["float32", 1]] * 3}, "1 inputs and 2 outputs, and the function has 1 and 1"),
        ({"arrays": [["float32", 1], ["int4", 1]], "zeroed": True}, "zeroes an output of int4"),
        ({"arrays": [["int8", 1], ["int8", 1]]}, r"int8 of rank 1, declared as f32\[n\]"),
        ({"arrays": [["float32", 0], ["int8", 1]]}, r"rank 0, declared as f32\[n\]"),
    ],
)
def test_a_call_that_the_function_cannot_have_is_refused(export, changed, words):
    """The digest is that of the wrong call; the function would read beyond its arguments."""
    origin = origin_of(export, **changed)
    with pytest.raises(jax.errors.JaxRuntimeError, match=rf"{words}.*\[KB5107\]"):
        call(identity_of(origin), origin)
