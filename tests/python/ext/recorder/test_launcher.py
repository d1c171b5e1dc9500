"""Launchers of CUDA modules as plans: what is recorded, and why not. No GPU is needed."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import pytest

SOURCE = (Path(__file__).parent / "launchers.cu").read_text()
N = 70
pytestmark = pytest.mark.once


def load(name, source, **options):
    try:
        return kernbridge.load_cuda_inline(
            name, source, compute_capability="9.0", auto_register=False, **options
        )
    except kernbridge.NvccNotFoundError as e:
        pytest.skip(f"no nvcc: {str(e).splitlines()[0]}")


@pytest.fixture(scope="module")
def module():
    return load("launchers", SOURCE)


def steps(module, function, x, outs=None, **options):
    outs = jax.ShapeDtypeStruct(x.shape, x.dtype) if outs is None else outs
    plan = module[function].operation(outs, **options).plan(x)
    return [str(step) for step in plan.steps]


X = jax.ShapeDtypeStruct((N,), jnp.float32)
SCALE = "launch void scale<float>(View, float, float*)"


def test_fills_and_offsets(module):
    out = jax.ShapeDtypeStruct((N + 3,), jnp.float32)
    assert steps(module, "offsets", X, out, a=1.5) == [
        "fill b1+0: 292 x 1 B of 0xff",
        f"{SCALE}[(1, 1, 1), (128, 1, 1)](&b0+8, 68, 0x3fc00000, &b1+4)",
    ]


def test_loops_copies_and_temporaries(module):
    first = f"{SCALE}[(3, 1, 1), (32, 1, 1)](&b2, 70, 0x40000000, &b3)"
    second = f"{SCALE}[(3, 1, 1), (32, 1, 1)](&b3, 70, 0x40000000, &b2)"
    assert steps(module, "steps", X, n_steps=3, a=2.0) == [
        "copy 280 B: b2+0 <- b0+0",
        *(first, second, first),
        "copy 280 B: b1+0 <- b3+0",
    ]
    assert steps(module, "steps", X, n_steps=0, a=2.0)[1:] == ["copy 280 B: b1+0 <- b2+0"]


def test_shared_memory_and_events(module):
    out = jax.ShapeDtypeStruct((1,), jnp.float32)
    assert steps(module, "shared", X, out, block=256) == [
        "fill b1+0: 4 x 1 B of 0x0",
        "launch sum(float const*, float*, int)"
        "[(1, 1, 1), (256, 1, 1), 1024 B shared](&b0, &b1, 70)",
    ]


def test_cooperative_launches_and_clusters(module):
    assert steps(module, "together", X, a=1.0) == [
        f"{SCALE}[(2, 1, 1), (64, 1, 1), cooperative](&b0, 70, 0x3f800000, &b1)",
        f"{SCALE}[(2, 1, 1), (64, 1, 1), cluster (2, 1, 1)](&b0, 3, 0x3f800000, &b1)",
    ]


def test_an_output_in_place_has_the_address_of_its_input(module):
    launch = f"{SCALE}[(1, 1, 1), (64, 1, 1)](&b1, 70, 0x3f800000, &b1)"
    assert steps(module, "in_place", X, a=1.0, input_output_aliases={0: 0}) == [launch]
    assert steps(module, "in_place", X, a=1.0) == ["fill b1+0: 280 x 1 B of 0x0"]


def test_kernels_and_parameters_of_each_kind(module):
    (step,) = steps(module, "functor", X)
    assert re.fullmatch(r"launch .*apply<.*Add>\(.*Add, float\*\)\[.*\]\(&b0, 3, &b1\)", step)
    # Also what looks like an address, of the device or of the host.
    for n in (-5, 5_000_000, 0x7EB0 << 48, 0x5EB0 << 48, 1 << 40):
        (step,) = module.numbers.operation(X, n=n, is_set=True).plan().steps
        words = re.fullmatch(r"launch d\[\(1, 1, 1\), \(1, 1, 1\)\]\(&b0, (.*), 1\)", str(step))
        assert words
        assert int(words[1], 0) == n
    assert steps(module, "catches", X) == ["launch d[(1, 1, 1), (1, 1, 1)](&b1, 15, 1)"]
    assert steps(module, "clears", X) == ["fill b1+0: 4 x 1 B of 0x1"]


def test_an_array_without_elements_may_have_no_address(module):
    out = jax.ShapeDtypeStruct((3,), jnp.float32)
    assert steps(module, "has_memory", X, out) == ["launch d[(1, 1, 1), (1, 1, 1)](&b1, 3, 1)"]
    with pytest.raises(kernbridge.KernelError, match=r"depends on addresses .*KB4012"):
        steps(module, "has_memory", jax.ShapeDtypeStruct((0,), jnp.float32), out)


def test_elements_of_half_a_byte(module):
    x = jax.ShapeDtypeStruct((64,), jnp.int4)
    with pytest.raises(kernbridge.KernelError, match=r"address of the end of an array.*KB4012"):
        steps(module, "past_the_end", x, jax.ShapeDtypeStruct((3,), jnp.float32))


def test_slices_of_a_batch_are_aligned_as_they_are(module):
    x = jax.ShapeDtypeStruct((8,), jnp.float32)
    (wide,) = steps(module, "aligned", x, a=1.0)
    assert "scale4" in wide
    operation = module.aligned.operation(x, a=1.0)

    def program(f, *shape):
        traced = jax.jit(f).trace(jax.ShapeDtypeStruct(shape, jnp.float32))
        return traced.lower(lowering_platforms=("cuda",)).as_text()

    # Which one a slice needs is not known: the function runs at each call.
    assert "program = dense" in program(operation, 8)
    assert "program = dense" not in program(jax.vmap(operation), 3, 8)


REFUSED = {
    "reads": "it copies between the host and the device",
    "dereferences": "it reads memory of the device on the host, or crashes",
    "elsewhere": "a launch uses another stream than XLA's",
    "draws": "it calls rand, whose result may differ at each call",
    "looks_at_the_clock": "it calls time, whose result may differ at each call",
    "tells_the_time": "it calls gettimeofday",
    "measures": "it calls clock_gettime",
    "draws_bits": "it calls _ZNSt13random_device9_M_getvalEv",
    "seeds": "it calls getpid",
    "aborts": "it reads memory of the device on the host, or crashes",
    "of_the_heap": "it passes a kernel the address of memory of the host",
    "prints": "it prints",
    "keeps": "it keeps memory that it allocates",
    "of_the_host": "it passes a kernel the address of memory of the host",
    "outside": "it passes a kernel an address outside of the arrays of the call",
    "in_rows": "it calls cudaMemcpy2DAsync, which a plan cannot contain",
    "fails": "it fails: expected an even number of elements",
    "distance": "or depends on addresses",
    "in_order": "or depends on addresses",
    "by_bits": "or depends on addresses",
    "many": "it passes a kernel a parameter of more than 4096 bytes",
    "asks_the_environment": 'it calls getenv("',
    "opens_a_file": "it calls fopen",
    "opens_a_library": "it calls dlopen",
    "in_a_thread": "it calls pthread_create",
    "ends": "it ends the process with 0",
    "too_much": "it sets attribute 8 of a kernel to 1048576",
    "empty_grid": "it launches a grid or a block that no GPU can run",
}


@pytest.mark.parametrize("function", REFUSED)
def test_what_a_plan_cannot_hold_is_said(module, function):
    with pytest.raises(kernbridge.KernelError, match=r"KB4012") as found:
        steps(module, function, X)
    assert REFUSED[function] in str(found.value)


VARIABLES = """
#include "kernbridge/kernbridge.hpp"
#include <cuda_runtime.h>
{variable}
__global__ void one(float *out) {{ out[0] = {value}; }}
// @BE first ret:f32[1] stream
void first(kernbridge::Tensor out, int64_t stream) {{
    {statement}
    one<<<1, 1, 0, (cudaStream_t)stream>>>((float *)out.data_ptr());
}}
"""


@pytest.mark.brief
@pytest.mark.parametrize(
    ("variable", "value", "statement", "why"),
    [
        ("__device__ float kept;", "kept += 1", "", "the device variable kept, which keeps"),
        ("int calls;", "1", "calls++;", "the host variable calls, which may change"),
        ("static int table[2];", "1", "table[1]++;", "the host variable _ZL5table, which may"),
        ("", "1", "static int n; n++;", "the host variable _ZZ5firstN10kernbridge6TensorElE1n, "),
        (
            "#include <cuda_bf16.h>\n#include <string>\n"
            "template <class T> int count(const std::string &) { static int n; return ++n; }",
            *("1", 'count<__nv_bfloat16>("");', "E1n, which may change between calls"),
        ),
        (
            "__device__ float next() { static float n = 1; return n++; }",
            *("next()", "", "a kernel has the static variable _ZZ4nextvE1n, which may change"),
        ),
    ],
)
def test_variables_of_a_module(variable, value, statement, why):
    source = VARIABLES.format(variable=variable, value=value, statement=statement)
    module = load("of_" + re.sub(r"\W", "_", variable), source)
    with pytest.raises(kernbridge.KernelError, match=r"KB4012") as found:
        module.first.operation(jax.ShapeDtypeStruct((1,), jnp.float32)).plan()
    assert why in str(found.value)


def test_a_plan_may_be_kept_out_of_graphs():
    source = VARIABLES.format(variable="", value="1", statement="")
    for is_allowed in (True, False):
        module = load("in_graph", source, allow_cuda_graph=is_allowed, record="always")
        operation = jax.jit(module.first.operation(jax.ShapeDtypeStruct((1,), jnp.float32)))
        text = operation.trace().lower(lowering_platforms=("cuda",)).as_text()
        assert ("@kernbridge.cuda.graph" in text) == is_allowed
        assert "@kernbridge.cuda" in text


@pytest.mark.exhaustive
def test_a_module_may_contain_the_library_of_the_compiler():
    statement = 'if (out.numel() > 9) std::wcerr << std::stod("1") << std::regex("a").mark_count();'
    head = "#include <iostream>\n#include <regex>\n#include <string>"
    source = VARIABLES.format(variable=head, value="1", statement=statement)
    module = load("static", source, extra_ldflags=["-static-libstdc++", "-static-libgcc"])
    out = jax.ShapeDtypeStruct((1,), jnp.float32)
    (step,) = module.first.operation(out).plan().steps
    assert str(step) == "launch one(float*)[(1, 1, 1), (1, 1, 1)](&b0)"


def test_what_else_a_module_is_linked_with_cannot_be_seen():
    source = VARIABLES.format(variable="", value="1", statement="")
    module = load("linked", source, extra_ldflags=["-lz"])
    with pytest.raises(kernbridge.KernelError, match=r"it is linked with -lz.*KB4012"):
        module.first.operation(jax.ShapeDtypeStruct((1,), jnp.float32)).plan()


def test_record_is_an_option():
    source = VARIABLES.format(variable="int calls;", value="1", statement="calls++;")
    out = jax.ShapeDtypeStruct((1,), jnp.float32)
    lower = {}
    for record in ("auto", "never", "always"):
        op = load("recorded", source, record=record).first.operation(out)
        lower[record] = jax.jit(lambda op=op: op()).trace()
    for record in ("auto", "never"):
        text = lower[record].lower(lowering_platforms=("cuda",)).as_text()
        assert "program = dense" not in text
    with pytest.raises(kernbridge.KernelError, match=r"cannot be recorded.*KB4012"):
        lower["always"].lower(lowering_platforms=("cuda",))
    with pytest.raises((TypeError, ValueError), match=r"record is 'often', expected one of"):
        load("recorded", source, record="often")


def test_symbolic_shapes_run_at_each_call(module):
    (n,) = jax.export.symbolic_shape("n")
    x = jax.ShapeDtypeStruct((n,), jnp.float32)
    operation = module.offsets.operation(lambda x: x, a=1.0)
    exported = jax.export.export(
        jax.jit(operation),
        platforms=("cuda",),
        disabled_checks=[
            jax.export.DisabledSafetyCheck.custom_call(name)
            for name in ("kernbridge.cuda.graph", "kernbridge.cuda")
        ],
    )(x)
    assert "program = dense" not in exported.mlir_module()


def test_an_exported_program_contains_the_kernels(module):
    exported = jax.export.export(jax.jit(module.offsets.operation(X, a=1.5)), platforms=("cuda",))(
        X
    )
    assert b"_Z5scaleIfEv4ViewT_PS1_" in exported.serialize()
