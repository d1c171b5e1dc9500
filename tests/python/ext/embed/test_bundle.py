"""`export_bundle`: what a bundle says of a program, and what it refuses by its reason."""

import hashlib
import re

import bundle_kernels as kernels
import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from kernbridge import export_bundle, numba_kernel
from kernbridge.errors import ExportError, UnknownVersionError

pytestmark = pytest.mark.filterwarnings("ignore::kernbridge.KernbridgeWarning")
S = jax.ShapeDtypeStruct
X = np.arange(3, dtype=np.float32)


def like(x):
    return S(x.shape, x.dtype)


decay = numba_kernel(numba.njit(kernels.decay), like)


def lines(folder):
    """The words of each line of a manifest, but those of the digests."""
    *body, end = (folder / "manifest.txt").read_text().splitlines(keepends=True)
    assert end == f"end {hashlib.sha256(''.join(body).encode()).hexdigest()}\n"
    words = [line.split() for line in body]
    for line in words:
        if line[0] in ("data", "program"):
            content = (folder / line[-1]).read_bytes()
            assert line[1:3] == [str(len(content)), hashlib.sha256(content).hexdigest()]
            del line[1:3]
    return [" ".join(line) for line in words]


def test_a_manifest_names_what_a_program_takes_and_returns(tmp_path):
    def step(state, scale, unused, *, factor=2.0):
        return {"v": decay(state["v"]) * scale, "w": state["w"][0]}, state["v"] > factor

    state = {"v": X, "w": (S((2, 4), jnp.bfloat16), S((), jnp.int32))}
    step = jax.jit(step, donate_argnums=0)
    export_bundle(tmp_path / "b", step, state, 2.0, jnp.ones(2), with_values=True)
    assert lines(tmp_path / "b") == [
        "kernbridge-bundle 1",
        f"made-by kernbridge {kernbridge.__version__}, jax {jax.__version__}",
        "data arguments.bin",
        "program cpu program.cpu.mlirbc",
        "input float32 1 0 1 3 state['v']",
        "input bfloat16 1 - 2 2 4 state['w'][0]",
        "input float32 0 64 0 scale",
        "output float32 1 3 result[0]['v']",
        "output bfloat16 2 2 4 result[0]['w']",
        "output bool 1 3 result[1]",
    ]
    data = (tmp_path / "b" / "arguments.bin").read_bytes()
    assert data[:12] == X.tobytes()
    assert data[64:68] == np.float32(2).tobytes()


def test_values_are_as_jax_takes_them(tmp_path):
    wide = np.arange(4.0).reshape(2, 2).T  # float64, not in the order of C
    export_bundle(tmp_path / "b", lambda x, n, flag: (x, n, flag), wide, 7, True, with_values=True)
    data = (tmp_path / "b" / "arguments.bin").read_bytes()
    assert data[:16] == np.ascontiguousarray(wide, np.float32).tobytes()
    assert data[64:68] == np.int32(7).tobytes()
    assert data[128:] == b"\1"
    assert "input bool 0 128 0 flag" in lines(tmp_path / "b")


def test_there_are_no_values_unless_they_are_asked_for(tmp_path):
    export_bundle(tmp_path / "b", decay, X)
    assert sorted(file.name for file in (tmp_path / "b").iterdir()) == [
        "manifest.txt",
        "program.cpu.mlirbc",
    ]
    assert "input float32 0 - 1 3 args[0]" in lines(tmp_path / "b")


def test_an_exported_function(tmp_path):
    exported = jax.export.export(jax.jit(decay))(X)
    export_bundle(tmp_path / "b", exported)
    assert (tmp_path / "b" / "program.cpu.mlirbc").read_bytes() == exported.mlir_module_serialized
    export_bundle(tmp_path / "c", exported, X, with_values=True)
    assert (tmp_path / "c" / "arguments.bin").read_bytes() == X.tobytes()


def test_an_exported_function_of_many_platforms_and_shapes_is_fixed(tmp_path):
    (n,) = jax.export.symbolic_shape("n")
    function = jax.jit(
        lambda x: jax.lax.platform_dependent(x, cpu=lambda x: decay(x), default=lambda x: x / 2)
    )
    exported = jax.export.export(function, platforms=("cpu", "cuda"))(S((n,), jnp.float32))
    with pytest.raises(ExportError, match=r"\[KB6103\]"):
        export_bundle(tmp_path / "b", exported)
    export_bundle(tmp_path / "b", exported, S((5,), jnp.float32))
    signature = ["input float32 0 - 1 5 args[0]", "output float32 1 5 result"]
    assert lines(tmp_path / "b")[2:] == [
        "program cpu program.cpu.mlirbc",
        *signature,
        "program cuda program.cuda.mlirbc",
        *signature,
    ]
    on_cpu, on_gpu = (
        (tmp_path / "b" / f"program.{name}.mlirbc").read_bytes() for name in ("cpu", "cuda")
    )
    assert b"KBHC" in on_cpu
    assert b"KBHC" not in on_gpu
    with pytest.raises(ExportError, match=r"exported.*cuda.*\[KB6103\]"):
        export_bundle(tmp_path / "c", jax.export.export(jax.jit(decay))(X), platforms=["cuda"])


def test_an_operation_without_a_kernel_for_the_platform_is_refused(tmp_path):
    exported = jax.export.export(jax.jit(decay), platforms=("cpu", "cuda"))(X)
    with pytest.raises(
        ExportError, match=r"for cuda: \[KB6103\]\n- numba_kernel 'decay' has a kernel for cpu"
    ):
        export_bundle(tmp_path / "b", exported)
    assert not list(tmp_path.iterdir())
    export_bundle(tmp_path / "b", exported, platforms=["cpu"])
    with pytest.raises(kernbridge.errors.KernelNotAvailableError, match=r"\[KB7001\]"):
        export_bundle(tmp_path / "b", decay, X, platforms=["cpu", "cuda"])


def test_without_jax_s_names_such_a_program_is_refused(tmp_path, monkeypatch):
    from jax._src.interpreters import mlir

    exported = jax.export.export(jax.jit(decay), platforms=("cpu", "cuda"))(X)
    monkeypatch.delattr(mlir, "refine_polymorphic_shapes")
    with pytest.raises(UnknownVersionError, match=r"refine_polymorphic_shapes.*\[KB8003\]"):
        export_bundle(tmp_path / "b", exported, platforms=["cpu"])


def parallel(v, out):
    for i in numba.prange(v.size):
        out[i] = v[i]


def test_a_kernel_that_travels_by_name_is_refused(tmp_path):
    op = numba_kernel(numba.njit(parallel=True)(parallel), like)
    with pytest.raises(ExportError) as caught:
        export_bundle(tmp_path / "b", lambda x: op(op(x)), X)
    assert str(caught.value) == (
        "export_bundle: a host without Python cannot run the program for cpu: [KB6103]\n"
        "- the program does not contain the kernel test_bundle:parallel, because it runs on "
        "Numba's threads"
    )


def test_a_function_from_source_is_refused(tmp_path):
    module = kernbridge.load_c_inline(
        "bundled",
        '#include "kernbridge/kernbridge.h"\n// @BE copy ret:f32[n]\nint copy(kb_tensor *out) '
        "{ (void)out; return 0; }",
    )
    with pytest.raises(ExportError, match=r"(?s)\[KB6103\].*carry=True"):
        export_bundle(tmp_path / "b", lambda: module.copy(outs=S((3,), jnp.float32)))


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_cuda_kernel(run_python):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    said = run_python(
        """
import jax, jax.numpy as jnp, kernbridge
from numba import cuda

@cuda.jit
def copy(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i]

op = kernbridge.numba_cuda_kernel(copy, jax.ShapeDtypeStruct((3,), jnp.float32), launch_dims=3)
kernbridge.export_bundle("b", op, jnp.ones(3), platforms=["cuda"])
print(b"KBCU" in open("b/program.cuda.mlirbc", "rb").read())
"""
    )
    assert said == "True\n"


def test_handlers_of_others_are_refused_unless_the_host_has_them(tmp_path):
    with pytest.raises(ExportError) as caught:
        export_bundle(tmp_path / "b", jnp.linalg.inv, jnp.eye(3))
    said = str(caught.value)
    assert "- it calls lapack_sgetrf_ffi, which is registered in Python and is not part of" in said
    assert "pass other_targets=('lapack_sgetrf_ffi',)" in said
    assert said.count("\n") == len(set(said.splitlines()[1:]))
    targets = [line.split()[3].rstrip(",") for line in said.splitlines()[1:]]
    export_bundle(tmp_path / "b", jnp.linalg.inv, jnp.eye(3), other_targets=targets)
    call = jax.ffi.ffi_call("of_the_host", S((3,), jnp.float32))
    export_bundle(tmp_path / "c", lambda x: call(x), X, other_targets=["of_the_host"])


def test_what_xla_has_itself_is_not_refused(tmp_path):
    export_bundle(tmp_path / "b", lambda x: jax.lax.top_k(jnp.sort(x), 2), X)
    export_bundle(tmp_path / "b", lambda k: jax.random.normal(k, (3,)), jax.random.PRNGKey(0))
    export_bundle(tmp_path / "b", lambda x: jax.lax.approx_max_k(x, 2), X)


@pytest.mark.parametrize(
    ("function", "avals", "words"),
    [
        (
            jax.random.bits,
            [jax.random.key(0)],
            "key is of dtype key<fry>, which a C program cannot pass; pass",
        ),
        (lambda x: x, [S((2,), jnp.int4)], "x is of dtype int4, which a C program cannot pass"),
        (lambda x, y: x, [X, S(jax.export.symbolic_shape("a, 2"), jnp.int8)], r"y has .* \(a, 2\)"),
    ],
)
def test_arguments_that_no_host_has(tmp_path, function, avals, words):
    with pytest.raises(ExportError, match=f"export_bundle: {words}"):
        export_bundle(tmp_path / "b", function, *avals, with_values=True)


def test_the_version_of_stablehlo(tmp_path):
    def version(**options):
        export_bundle(tmp_path / "b", decay, X, **options)
        code = (tmp_path / "b" / "program.cpu.mlirbc").read_bytes()
        return re.search(rb"StableHLO_v([\d.]+)", code)[1].decode()

    assert version(stablehlo_version="1.5.0") == "1.5.0"
    assert version() == version(stablehlo_version=version()) != "1.5.0"
    with pytest.raises(ExportError, match=r"export_bundle.*99\.0\.0.*\[KB6104\]"):
        version(stablehlo_version="99.0.0")


@pytest.mark.once
def test_a_program_for_several_devices_is_refused(tmp_path):
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    function = jax.jit(lambda x: x + 1, in_shardings=sharding)
    with pytest.raises(ExportError, match=r"for 2 devices.*\[KB6103\]"):
        export_bundle(tmp_path / "b", function, S((4,), jnp.float32))


@pytest.mark.once
def test_arguments_of_the_call_are_checked(tmp_path):
    with pytest.raises(TypeError, match=r"is 3.*jax\.export.*\[KB6104\]"):
        export_bundle(tmp_path / "b", 3)
    with pytest.raises(TypeError, match=r"'cpu'.*\[KB1005\]"):
        export_bundle(tmp_path / "b", decay, X, platforms="cpu")
    for wrong in (["tpu"], [], ["cpu", "cpu"]):
        with pytest.raises(ValueError, match=r"\[KB6104\]"):
            export_bundle(tmp_path / "b", decay, X, platforms=wrong)
    exported = jax.export.export(jax.jit(lambda *, x: x))(x=X)
    with pytest.raises(ExportError, match=r"keyword.*\[KB6103\]"):
        export_bundle(tmp_path / "b", exported)
    assert not list(tmp_path.iterdir())


@pytest.mark.once
def test_a_bundle_is_replaced_and_nothing_else_is(tmp_path):
    export_bundle(tmp_path / "deep" / "b", lambda x: x + 1, X, with_values=True)
    export_bundle(str(tmp_path / "deep" / "b"), lambda x: x + 1, X)
    assert not (tmp_path / "deep" / "b" / "arguments.bin").exists()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").write_text("mine")
    for taken in ("file", "other"):
        with pytest.raises(FileExistsError, match=f"{taken} exists and is not a bundle; remove it"):
            export_bundle(tmp_path / taken, lambda x: x + 1, X)
    assert (tmp_path / "other" / "mine").read_text() == "mine"
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["b"]


def inputs_of(folder, function, *args):
    """The names of inputs without axes in the manifest of a bundle."""
    export_bundle(folder / "b", function, *args)
    return [line.split(" ", 5)[5] for line in lines(folder / "b") if line.startswith("input ")]


@pytest.mark.once
def test_names_cannot_break_a_line(tmp_path):
    named = {"a\nend 00\0\ud800": np.float32(1)}
    assert inputs_of(tmp_path, lambda state: state, named) == [r"state['a\nend 00\x00\ud800']"]


@pytest.mark.once
def test_names_of_arguments(tmp_path):
    def function(first, *others, last=1):
        return first, others

    x = np.float32(1)
    names = inputs_of(tmp_path, function, x, x, {"y": x})
    assert names == ["first", "args[1]", "args[2]['y']"]
    assert inputs_of(tmp_path, max, (x,)) == ["args[0][0]"]  # it has no signature
