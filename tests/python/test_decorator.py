"""`kernbridge.kernel`: the decorator makes the operation that the functions make."""

import copy
import inspect
import pickle
import typing
from collections.abc import Iterable

import decorated
import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from kernels import square

X = jnp.arange(3.0)


def add_cuda(x, y, out):
    i = numba.cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def options_of(function):
    """Those of a front end, with their annotations."""
    parameters = inspect.signature(function).parameters
    return {n: p.annotation for n, p in parameters.items() if n not in ("kernel", "outs")}


def test_the_operation_is_that_of_numba_kernel():
    outs = jax.ShapeDtypeStruct((3,), jnp.float32)
    made = kernbridge.kernel(outs, zero_outputs=True)(square)
    assert made is kernbridge.numba_kernel(square, outs, zero_outputs=True)
    np.testing.assert_array_equal(made(X), [0, 1, 4])


def test_the_operation_is_that_of_numba_cuda_kernel():
    cuda = pytest.importorskip("numba.cuda")
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    add = cuda.jit(add_cuda)
    outs = jax.ShapeDtypeStruct((3,), jnp.float32)
    made = kernbridge.kernel(outs=outs, launch_dims=3)(add)
    assert made is kernbridge.numba_cuda_kernel(add, outs, launch_dims=3)
    np.testing.assert_array_equal(made(X, X), [0, 2, 4])
    batched = jax.vmap(made, (0, None))(jnp.stack([X, 2 * X]), X)
    np.testing.assert_array_equal(batched, [[0, 2, 4], [0, 3, 6]])


def test_a_decorated_kernel_works_under_the_transformations():
    np.testing.assert_array_equal(decorated.scale(X, factor=2.0), [0, 2, 4])
    factors = jnp.array([1.0, 3.0])
    rows = jax.jit(jax.vmap(lambda f: decorated.scale(X, factor=f)))(factors)
    np.testing.assert_array_equal(rows, [[0, 1, 2], [0, 3, 6]])


def test_options_reach_the_operation():
    @kernbridge.kernel(
        lambda x: x,
        vjp=lambda inputs, outputs, ct: (2 * inputs[0] * ct,),
        vmap_threads=False,
        check=True,
    )
    @numba.njit
    def squared(x, out):
        for i in range(x.size):
            out[i] = x[i] * x[i]

    np.testing.assert_array_equal(jax.grad(lambda x: squared(x).sum())(X), [0, 2, 4])
    np.testing.assert_array_equal(jax.vmap(squared)(X[:, None]), [[0], [1], [4]])


@pytest.mark.once
def test_the_options_are_those_of_both_front_ends():
    """Names and types: a type checker sees them in `KernelOptions`, the functions are the truth."""
    cpu, cuda = options_of(kernbridge.numba_kernel), options_of(kernbridge.numba_cuda_kernel)
    annotation = typing.get_type_hints(kernbridge.kernel)["options"]
    (options,) = typing.get_args(annotation)  # of Unpack[KernelOptions]
    hints = inspect.get_annotations(options)
    stated = {name: getattr(hint, "__forward_arg__", hint) for name, hint in hints.items()}
    assert stated == cuda | cpu
    assert not options.__required_keys__
    assert typing.get_type_hints(options)
    assert kernbridge.kernel.__doc__ is not None
    for name in stated:
        assert name in kernbridge.kernel.__doc__


@pytest.mark.once
def test_what_wraps_a_function_has_its_name_and_its_documentation():
    op = decorated.scale
    assert (op.__name__, op.__qualname__, op.__module__) == ("scale", "scale", "decorated")
    assert op.__doc__ == "Multiply every element."
    assert op.__wrapped__.py_func.__name__ == "scale"
    assert inspect.getsource(op).startswith("@kernbridge.kernel")
    assert kernbridge.Operation.__doc__.startswith("A kernel as a JAX operation.")
    # The operation takes the inputs; the function that it wraps takes the outputs, too.
    assert list(inspect.signature(op).parameters) == ["inputs", "scalars"]
    assert list(inspect.signature(jax.jit(op)).parameters) == ["inputs", "scalars"]
    assert jax.jit(op).__doc__ == op.__doc__


@pytest.mark.once
def test_an_operation_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(decorated.scale)) is decorated.scale
    assert copy.deepcopy([decorated.scale])[0] is decorated.scale
    assert copy.copy(decorated.scale) is decorated.scale
    other = kernbridge.numba_kernel(square, lambda x: x)  # the name is that of the kernel
    with pytest.raises(pickle.PicklingError, match="square"):
        pickle.dumps(other)


@pytest.mark.once
def test_an_operation_of_another_kernel_is_copied_as_before():
    class Kernel:
        name, label, place, parameter_names = "f", "f", "", ()
        functions, check_numbers, parameters = tuple, None, None  # none

    spec = kernbridge.numba_kernel(square, lambda x: x).spec
    op = kernbridge.Operation(spec, Kernel())
    assert copy.copy(op) is not op
    assert copy.copy(op).spec is spec
    assert not hasattr(op, "__wrapped__")
    assert op.__module__ == "kernbridge"


PROGRAM = """
import sys
import jax
from jax import export
program = export.deserialize(bytearray(open({path!r}, "rb").read()))
print(program.call(jax.numpy.ones(3)).tolist(), "decorated" in sys.modules)
"""


@pytest.mark.exhaustive
@pytest.mark.once
def test_an_exported_program_finds_a_decorated_kernel_by_its_name(run_python, tmp_path):
    pytest.importorskip("flatbuffers", reason="jax.export serialises by it")
    assert "by name" in decorated.printing.inspect(X)[0].export
    program = jax.export.export(jax.jit(decorated.printing))(X).serialize()
    (tmp_path / "program.bin").write_bytes(program)
    source = PROGRAM.format(path=str(tmp_path / "program.bin"))
    printed = run_python(source, KERNBRIDGE_ALLOW_IMPORTS="decorated")
    assert "[2.0, 2.0, 2.0] True" in printed


REFUSED = [
    (lambda x, out: None, {}, r"kernel: '<lambda>' is a plain Python function.*@numba.njit"),
    (square, {"launch_dims": 3}, "'square': launch_dims is an option of numba_cuda_kernel"),
    (
        square,
        {"grid": 1, "block": 2, "check": True},
        "'square': grid is an option of numba_cuda_kernel.*numba.cuda.jit",
    ),
    (decorated.scale, {}, "'scale' is an operation already"),
    (X, {}, r"expected a kernel of Numba, got .*@kernbridge.kernel\(outs=\.\.\.\)"),
    (np.sin, {}, "expected a kernel of Numba, got <ufunc 'sin'>"),
]


@pytest.mark.once
@pytest.mark.parametrize(("kernel", "options", "message"), REFUSED)
def test_what_is_no_kernel_is_refused(kernel, options, message):
    with pytest.raises(TypeError, match=f"(?s){message}") as refused:
        kernbridge.kernel(lambda x: x, **options)(kernel)
    assert len(str(refused.value).splitlines()) <= 30


@pytest.mark.once
def test_a_function_of_python_is_refused_when_it_is_called():
    decorated = kernbridge.kernel(add_cuda)
    for call in (lambda: decorated(X), decorated, lambda: jax.jit(decorated)(X, y=X)):
        with pytest.raises(TypeError, match=r"'add_cuda' is a plain Python function.*KB1001"):
            call()
    with pytest.raises(TypeError, match=r"not a function.*kernbridge\.kernel"):
        numba.njit(decorated)


@pytest.mark.once
def test_options_of_the_other_front_end_are_refused():
    cuda = pytest.importorskip("numba.cuda")
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    decorate = kernbridge.kernel(lambda x, y: x, launch_dims=3, half_as_bits=True)
    with pytest.raises(TypeError, match=r"half_as_bits.*numba_kernel.*\[KB1005\]"):
        decorate(cuda.jit(add_cuda))


@pytest.mark.once
def test_an_unknown_option_is_refused_where_it_is_written():
    with pytest.raises(TypeError, match=r"'lauch_dims'.*'launch_dims'.*\[KB1005\]"):
        kernbridge.kernel(lambda x: x, lauch_dims=3)
    with pytest.raises(TypeError, match=r"'q'.*\[KB1005\]"):
        kernbridge.kernel(lambda x: x, q=3)


@pytest.mark.once
def test_the_decorator_without_outs_is_refused():
    with pytest.raises(TypeError, match=r"'square'.*`outs`.*\[KB1002\]"):
        kernbridge.kernel(square)


@pytest.mark.once
def test_a_kernel_that_calls_an_operation_is_told_how_to_call_its_kernel():
    @kernbridge.kernel(lambda x: x)
    @numba.njit
    def outer(x, out):
        scale(x, 2.0, out)

    scale = decorated.scale
    with pytest.raises(kernbridge.KernelCompilationError) as refused:
        outer(X)
    assert "'scale' is a JAX operation: give its function, scale.__wrapped__ (" in str(
        refused.value
    )


@pytest.mark.once
def test_a_kernel_calls_the_kernel_of_an_operation():
    scale_kernel = decorated.scale.__wrapped__

    @kernbridge.kernel(lambda x: x)
    @numba.njit
    def outer(x, out):
        scale_kernel(x, 2.0, out)

    np.testing.assert_array_equal(outer(X), [0, 2, 4])


@pytest.mark.once
def test_an_operation_is_not_launched_by_the_syntax_of_numba():
    with pytest.raises(TypeError) as refused:
        decorated.scale[1, 3]
    assert str(refused.value) == (
        "numba_kernel 'scale' is an operation, which is called with its inputs: scale(...) [KB2001]"
    )
    assert not isinstance(decorated.scale, Iterable)
    cuda = pytest.importorskip("numba.cuda")
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    op = kernbridge.kernel(lambda x, y: x, launch_dims=3)(cuda.jit(add_cuda))
    with pytest.raises(TypeError, match=r"add_cuda\.__wrapped__.*\[KB2001\]"):
        op[1, 3]


@pytest.mark.once
def test_a_switched_off_compiler_is_named(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(TypeError, match=r"NUMBA_DISABLE_JIT.*numba\.njit.*\[KB1001\]"):
        kernbridge.kernel(lambda x: x)(lambda x, out: None)


@pytest.mark.once
def test_the_decorator_imports_neither_numba_nor_numba_cuda(run_python):
    printed = run_python(
        "import sys, kernbridge\n"
        "kernbridge.kernel(lambda x: x)\n"
        "print([m for m in ('numba', 'numba_cuda', 'numba_cuda_mlir') if m in sys.modules])\n"
    )
    assert printed == "[]\n"


@pytest.mark.once
@pytest.mark.parametrize("given", [(), ("x: f32[n] -> f32[n]",)])
def test_a_signature_of_none_counts_as_none(given):
    doubled = kernbridge.kernel(*given, signature=None)(numba.njit(lambda x: 2 * x))
    np.testing.assert_array_equal(doubled(jnp.arange(3.0)), [0, 2, 4])


def test_kernels_that_fill_their_outputs_and_have_a_value():
    """They counted as functions of all parameters, of which the message named one that is none."""
    filled = kernbridge.kernel("x: f32[n] -> f32[n]")(numba.njit(lambda x, out: out.fill(x[0])))
    np.testing.assert_array_equal(filled(jnp.arange(3.0) + 2), [2, 2, 2])

    @kernbridge.kernel("x: f32[n] -> f32[n]")
    @numba.njit
    def returned(x, out):
        out[:] = x
        return x

    with pytest.raises(TypeError, match=r"'returned': the kernel returns .*array.*\[KB4002\]"):
        returned(jnp.ones(3))
