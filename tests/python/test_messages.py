"""What is printed for mistakes, the codes in it, and their pages."""

import ast
import inspect
import re
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import messages
import numba
import pytest
from kernbridge import cli, numba_kernel

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
ENTRIES = messages.mistakes()
CODE = re.compile(r"KB\d{4}")
PYTHONS_OWN = (  # messages of Python and of the user's own code
    "missing 1 required",
    "unexpected keyword argument",
    "no_such_attribute",
    "attribute nothing",
    "has no attribute 'numba_kernal'",
    "cuLaunchKernel results in",  # Numba-CUDA's exception, as on a GPU
)
# Modules with errors that a caller's message quotes, with its code; that have Numba's or NumPy's
# words, whose part they take; or that are about a command line.
QUOTED = {
    "_ext/nvrtc/nvrtc.py",
    "_src/base/private_jax.py",
    "_src/base/options.py",
    "_src/base/struct.py",
    "_ext/benchmark/result.py",
    "_ext/emulator/device/hooks.py",
    "_src/numba_common/elf.py",
    "_src/plan/cubin.py",
    "_src/numba_cpu/compile.py",
    "_src/numba_cpu/entry.py",
    "_src/numba_cpu/object_code.py",
    "_src/numba_cpu/kernel.py",
    "_src/numba_cuda/callback.py",
    "_src/numba_cuda/dialect.py",
    "_src/numba_cuda/entry.py",
    "_ext/inline/function.py",
    "_ext/recorder/launcher.py",
    "_ext/recorder/library.py",
    "_ext/recorder/process.py",
    "_ext/mlir/compile.py",
    "_src/operation/origin.py",
    "_src/record/record.py",
    "_src/scan/annotation.py",
    "_src/scan/plain.py",
    "_src/scan/scanner.py",
    "_src/signatures/call_signature.py",
    "_src/signatures/array_types.py",
    "_src/signatures/annotations.py",
    "_src/source/frontend.py",
    "_src/source/module.py",
    "_ext/tools/commands.py",
}
NOT_FILTERED = (
    "The kernel is called for a TPU or GPU only",  # jax.export filters no tracebacks
    "An unknown mode of KERNBRIDGE_DEBUG",  # while kernbridge is imported
)


def test_what_is_printed(run_python):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    preamble = messages.preamble(messages.PAGE.read_text())
    printed = messages.outputs(ENTRIES, preamble, run_python)
    for entry, now in zip(ENTRIES, printed, strict=True):
        assert now == entry.printed, (
            f"{entry.title}: if this is meant, python tests/python/messages.py --write"
        )


def test_there_are_enough_mistakes():
    assert len(ENTRIES) >= 102
    assert len({entry.program for entry in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.title)
def test_form(entry):
    assert entry.printed.strip(), "a mistake that nobody notices"
    assert entry.printed.count("\n") <= 30
    if entry.title not in NOT_FILTERED:
        assert "kernbridge/_src/" not in entry.printed
    codes = CODE.findall(entry.printed)
    assert codes or any(text in entry.printed for text in PYTHONS_OWN)
    assert len(codes) == len(set(codes)), "it is said twice"
    assert all(
        len(re.findall(r"\[(?:KB\d+|E-[A-Z-]+)\]", line)) <= 1
        for line in entry.printed.splitlines()
    )


def sources():
    files = [*(ROOT / "python").rglob("*.py"), *(ROOT / "src").rglob("*.[ch]")]
    return {file: file.read_text() for file in files if file.name != "error_pages.py"}


def test_each_code_has_a_page_and_each_page_a_code():
    used = {code for text in sources().values() for code in CODE.findall(text)}
    assert used == messages.pages().keys()


def test_each_exception_has_a_code():
    text = "\n".join(sources().values())
    bases = {"KernelError", "KernbridgeError", "KernelToolchainError", "KernbridgeWarning"}
    for name in set(kernbridge.errors.__all__) - bases:
        found = [text[m.end() : m.end() + 900] for m in re.finditer(rf"\b{name}\(", text)]
        is_passed = re.search(rf"\bmissing\(\s*{name}\b", text)  # compilers.py gives it its code
        assert is_passed or any(CODE.search(after) for after in found), name


def raised(module):
    """The classes and calls of exceptions that a module raises with a text of its own."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            name = ast.unparse(node.exc.func)
            if name.endswith("Error") and isinstance(
                node.exc.args[0], ast.Constant | ast.JoinedStr
            ):
                yield name, ast.unparse(node.exc)


def test_each_exception_that_is_raised_has_a_code():
    package = ROOT / "python" / "kernbridge"
    without = set()
    for module in sorted(package.rglob("*.py")):
        for name, call in raised(module):
            if name not in ("AttributeError", "CommandError") and not (
                CODE.search(call) or "defect(" in call
            ):
                without.add(str(module.relative_to(package)))
    assert without == QUOTED


def test_the_document_has_the_pages():
    assert messages.ERRORS.read_text() == messages.error_pages()


@pytest.mark.parametrize("spelling", ["KB1008", "kb1008", "[KB1008]", "1008"])
def test_explain(capsys, spelling):
    assert cli.main(["explain", spelling]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("KB1008: An output is never written\n\nCause: ")
    assert "Remedy: Write into the array" in printed


@pytest.mark.parametrize(("code", "like"), [("KB1098", "KB2109"), ("nonsense", None)])
def test_explain_an_unknown_code(capsys, code, like):
    with pytest.raises(SystemExit) as caught:
        cli.main(["explain", code])
    assert caught.value.code == 2
    printed = capsys.readouterr().err
    assert f"there is no code {code!r}, expected one such as KB2001" in printed
    assert (f"\n  {like}: " in printed) if like else ("are like it" not in printed)


@numba.njit
def wrong(x, out):
    out[:] = x.no_such_method()


def call():
    return numba_kernel(wrong, lambda x: x)(jnp.ones(3))


def printed_by(function, *args):
    with pytest.raises(kernbridge.KernelCompilationError) as caught:
        function(*args)
    return "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("function", [call, jax.jit(call)])
def test_a_refusal_is_said_once_and_shows_the_call(function):
    printed = printed_by(function)
    assert printed.count("Numba cannot compile the kernel") == 1
    assert printed.count("no_such_method") == 2  # in the cause, and in the line of the kernel
    assert "return numba_kernel(wrong, lambda x: x)(jnp.ones(3))" in printed
    assert not any(path in printed for path in kernbridge.__path__)


def test_all_frames_are_shown_on_demand():
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        printed = printed_by(call)
        assert any(path in printed for path in kernbridge.__path__)
    finally:
        jax.config.update("jax_traceback_filtering", before)


FULL = inspect.cleandoc("""
    import jax.numpy as jnp, numba, kernbridge
    def wrong(x, out):
        out[:] = x.no_such_method()
    kernbridge.numba_kernel(numba.njit(wrong), lambda x: x)(jnp.ones(3))
""")


@pytest.mark.exhaustive
def test_all_that_numba_wrote_is_printed_on_demand(run_python):
    short = run_python(FULL, check=False)
    full = run_python(FULL, check=False, KERNBRIDGE_DEBUG="full")
    assert "TypingError" not in short
    assert "During: typing of get attribute" not in short
    assert "numba.core.errors.TypingError: " in full
    assert "During: typing of get attribute" in full
    assert "\nSet KERNBRIDGE_DEBUG=full to see Numba's complete message." in short


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_a_rule_without_return_is_no_derivative_of_zero(rule):
    op = numba_kernel(wrong, lambda x: x, **{rule: lambda *_: None})
    with pytest.raises(TypeError, match=f"the {rule} rule returned None.*write `return`"):
        jax.eval_shape(jax.grad(lambda x: op(x).sum()), jnp.ones(3))


def test_a_warning_points_at_the_line_of_the_user():
    double = jax.ShapeDtypeStruct((3,), "float64")
    with pytest.warns(kernbridge.KernbridgeWarning, match="KB1009") as caught:
        jax.eval_shape(lambda x: numba_kernel(wrong, double)(x), jnp.ones(3))
    (warning,) = [w for w in caught if "KB1009" in str(w.message)]
    assert warning.filename == __file__
    assert "(wrong, double)" in Path(__file__).read_text().splitlines()[warning.lineno - 1]
