"""Machine code of Numba kernels in exported programs: what a process without Numba makes of it."""

import json

import carried_kernels as kernels
import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax import export
from kernbridge import config, numba_kernel

X = jnp.arange(5.0, dtype=jnp.float32)
ALLOWED = [export.DisabledSafetyCheck.custom_call("kernbridge.host")]


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def flipped(x):
    return jax.ShapeDtypeStruct(x.shape[::-1], x.dtype)


def operation(function, outs=like, **options):
    """An operation of a kernel that no other process can find by its name."""
    jitted = {k: options.pop(k) for k in ("parallel", "debug") if k in options}
    return numba_kernel(numba.njit(**jitted)(function), outs, **options)


def exported(function, *args):
    return bytes(export.export(jax.jit(function), disabled_checks=ALLOWED)(*args).serialize())


LOADING = """
import json, sys
import numpy as np
for name in ("numba", "llvmlite", "carried_kernels"):
    sys.modules[name] = None  # an import of it fails
import jax, kernbridge
from jax import export

for name, x in json.load(open("programs.json")):
    call = export.deserialize(bytearray(open(name, "rb").read())).call
    try:
        result = np.asarray(call(np.array(x, np.float32))).tolist()
    except jax.errors.JaxRuntimeError as e:
        result = str(e)
    print(json.dumps(result))
"""


@pytest.fixture
def elsewhere(tmp_path, run_python):
    """Run exported programs in a process that has none of Numba, llvmlite and the module."""

    def run(programs, **environment):
        named = []
        for i, (program, x) in enumerate(programs):
            (tmp_path / f"{i}.bin").write_bytes(program)
            named.append((f"{i}.bin", np.asarray(x).tolist()))
        (tmp_path / "programs.json").write_text(json.dumps(named))
        return [json.loads(line) for line in run_python(LOADING, **environment).splitlines()]

    return run


@pytest.mark.once
@pytest.mark.filterwarnings("ignore:.*may write to input")
@pytest.mark.exhaustive
def test_results_are_those_of_the_process_that_compiled(elsewhere):
    square = jnp.arange(6.0, dtype=jnp.float32).reshape(2, 3)
    double, transpose = operation(kernels.double), operation(kernels.matrix, flipped)
    (n,) = export.symbolic_shape("n")
    symbolic = jax.ShapeDtypeStruct((n,), jnp.float32)
    cases = [
        (double, X, X),
        (double, symbolic, X),
        (jax.vmap(double), square, square),
        (transpose, square, square),
        (operation(kernels.mathematics), X, X),
        (operation(kernels.local_arrays), X, X),
        (operation(kernels.reshapes), X, X),
        (operation(kernels.lists), X, X),
        (operation(kernels.passes_a_function), X, X),
        (operation(kernels.strings), X, X),
        (operation(kernels.writes), X, X),
        (operation(kernels.double, input_output_aliases={0: 0}), X, X),
        (operation(kernels.adds, zero_outputs=True), X, X),
        (operation(kernels.double, check=True), X, X),
        (operation(kernels.array_expression), X, X),
    ]
    programs = [(exported(function, given), x) for function, given, x in cases]
    got = elsewhere(programs)
    for (function, _, x), result in zip(cases, got, strict=True):
        np.testing.assert_array_equal(np.array(result, np.float32), function(x))
    np.testing.assert_array_equal(got[0], 2 * X)


@pytest.mark.exhaustive
@pytest.mark.once
def test_the_program_of_a_simple_kernel_is_small():
    before = jax.config.jax_traceback_in_locations_limit
    jax.config.update("jax_traceback_in_locations_limit", 1)  # without the frames of pytest
    try:
        assert len(exported(operation(kernels.double), X)) <= 4096
    finally:
        jax.config.update("jax_traceback_in_locations_limit", before)


@pytest.mark.exhaustive
@pytest.mark.once
def test_exceptions_are_those_of_the_process_that_compiled(elsewhere):
    zero = jnp.zeros(3, jnp.float32)
    cases = [
        (
            operation(kernels.of_a_callee),
            X,
            "ValueError: negative, € [KB3001]\n\\x00 and \\udce9 (in root",
        ),
        (operation(kernels.bare), zero, "StopIteration (in bare"),
        (operation(kernels.division), zero, "ZeroDivisionError: integer division by zero"),
        (operation(kernels.assertion), zero, "AssertionError: not one (in assertion"),
        (operation(kernels.own_error), zero, "OwnError: own and 3 (in own_error"),
        (operation(kernels.values), X, "('bad €', 0.3333333333333333, 5, -5, 9223372036854775808,"),
        (operation(kernels.axis), X, "axis 5 is out of bounds for array of dimension 2"),
        (operation(kernels.text), X, """KeyError: "it's 5 €" (in text"""),
        (
            operation(kernels.shapes),
            X,
            "cannot assign slice of shape (5,) from input of shape (4,)",
        ),
        (
            operation(kernels.index, check=True),
            X,
            "index 10 is out of bounds for axis 0 of array 'x'",
        ),
    ]
    got = elsewhere([(exported(op, x), x) for op, x, _ in cases])
    for (op, x, words), text in zip(cases, got, strict=True):
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            jax.block_until_ready(op(x))
        assert words in text
        assert text == str(caught.value)


NOT_CARRIED = [
    (kernels.threads, {"parallel": True}, "it runs on Numba's threads"),
    (kernels.random, {}, "it draws random numbers from Numba's state"),
    (kernels.blas, {}, "it calls BLAS or LAPACK"),
    (kernels.large, {}, "it contains addresses of this process: of a large global array"),
    (kernels.object_mode, {}, "it contains addresses of this process"),
    (kernels.printing, {}, "it "),
    (kernels.calls_random, {}, "it draws random numbers from Numba's state, in draws"),
    (kernels.own_error_of_values, {}, "the text of OwnError depends on values of the call"),
]


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")
def test_what_cannot_leave_its_process_goes_by_name_and_says_why(elsewhere):
    scalar = jax.ShapeDtypeStruct((1,), jnp.float32)
    programs = []
    for function, options, _ in NOT_CARRIED:
        outs = like if function is kernels.threads else scalar
        op = operation(function, outs, **options)
        (inspected,) = op.inspect(X)
        assert inspected.export.startswith("by name, because ")
        programs.append((exported(op, X), X))
    for (function, _, why), text in zip(NOT_CARRIED, elsewhere(programs), strict=True):
        assert f"the program needs the kernel carried_kernels:{function.__qualname__}" in text
        found = text.partition("It does not contain the machine code of the kernel, because ")[2]
        assert found.startswith(why), text


UNOPTIMISED = """
import carried_kernels, jax, jax.numpy as jnp, numba
from kernbridge import numba_kernel

for function in (carried_kernels.object_mode, carried_kernels.large, carried_kernels.double):
    op = numba_kernel(numba.njit(function), jax.ShapeDtypeStruct((1,), jnp.float32))
    (inspected,) = op.inspect(jnp.ones(1))
    print(inspected.export)
"""


@pytest.mark.once
def test_addresses_are_found_in_code_that_is_not_optimised(run_python):
    object_mode, large, double = run_python(UNOPTIMISED, NUMBA_OPT="0").splitlines()
    for export_of in (object_mode, large):
        assert export_of.startswith("by name, because it contains addresses of this process")
    assert double.endswith(" bytes of machine code")


@pytest.mark.once
@pytest.mark.exhaustive
@pytest.mark.parametrize("items", ["[1.0, 2.0]", "{1, 2}", "{1.0, 2.0}", "{'a', 'b'}", "{1: 2.0}"])
def test_which_containers_programs_contain(items, tmp_path):
    source = tmp_path / "container.py"
    source.write_text(f"def container(x, out):\n    out[0] = len({items})\n")
    names = {}
    exec(compile(source.read_text(), str(source), "exec"), names)
    op = operation(names["container"], jax.ShapeDtypeStruct((1,), jnp.float32))
    (inspected,) = op.inspect(X)
    by_name = inspected.export.startswith("by name, because ")
    assert by_name != inspected.export.endswith(" bytes of machine code")
    assert by_name == (items not in ("[1.0, 2.0]", "{1, 2}"))


@pytest.mark.once
def test_what_a_program_holds_is_inspected():
    (carried_code,) = operation(kernels.double).inspect(X)
    assert "bytes of machine code" in carried_code.export
    assert f"exported {carried_code.export}" in str(carried_code)
    (debugged,) = operation(kernels.double, debug=True).inspect(X)
    assert debugged.export == "by name, because it has debug=True"


@pytest.mark.brief
@pytest.mark.once
@pytest.mark.parametrize("what", ["run", "recompile", "refuse"])
def test_code_of_programs_may_be_refused(elsewhere, what):
    (got,) = elsewhere([(exported(operation(kernels.double), X), X)], KERNBRIDGE_EXPORTED_CODE=what)
    if what == "run":
        assert got == (2 * np.asarray(X)).tolist()
    elif what == "recompile":
        assert "the program needs the kernel carried_kernels:double" in got
    else:
        assert (
            'configured to refuse such programs (kernbridge.config.set_exported_code("refuse")'
            in got
        )


@pytest.mark.once
def test_the_setting_does_not_concern_what_this_process_lowers():
    with pytest.raises(ValueError, match=r"\[KB8001\]"):
        config.set_exported_code("never")
    config.set_exported_code("refuse")
    try:
        assert config.get_exported_code() == "refuse"
        op = operation(kernels.double)
        program = exported(op, X)
        np.testing.assert_array_equal(export.deserialize(bytearray(program)).call(X), op(X))
    finally:
        config.set_exported_code("run")
