"""What users import: the names of kernbridge, where they live, and how classes print and pickle."""

import importlib
import pickle

import kernbridge
import pytest

pytestmark = pytest.mark.once
# What programs may import from the package, besides the modules.
NAMES = """
    BenchmarkConfig BenchmarkDataFnNotProvidedError BenchmarkRecord BenchmarkResult BrainEventError
    CUDANotInstalledError CompilationError CompiledModule CudaBinary CudaKernel
    GpuArchDetectionError HeaderNotFoundError HostCompilerIncompatibleError
    HostCompilerNotFoundError KernbridgeError KernbridgeWarning KernelCompilationError KernelEntry
    KernelError KernelExecutionError KernelFallbackExhaustedError KernelLoadError
    KernelNotAvailableError KernelRegistrationError KernelToolchainError MathError
    NvccNotFoundError Operation RuleCheck RuleCheckError SourceFunction UnknownVersionError
    UnsupportedArchError UnsupportedOperationError XLACustomKernel __version__ benchmark_function
    check_rules clear_cache cuda_kernel defjvp general_batching_rule get_all_primitive_names
    get_cache_dir get_primitives_by_tags get_registry jaxinfo_to_warpinfo
    jaxtype_to_warptype list_registered_targets load_binary load_c_file load_c_inline load_cpp_file
    load_cpp_inline load_cuda_dir load_cuda_file load_cuda_inline numba_cuda_callable
    numba_cuda_kernel numba_kernel print_diagnostics register_ffi_target set_cache_dir
""".split()  # noqa: SIM905
MODULES = ("benchmark", "cache", "config", "errors", "registry")


def test_the_face_is_small_and_complete():
    assert len(kernbridge.__all__) <= 31
    assert all(hasattr(kernbridge, name) for name in kernbridge.__all__)
    assert set(kernbridge.__all__) <= set(dir(kernbridge))
    assert set(MODULES) <= set(kernbridge.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there(name):
    assert getattr(kernbridge, name) is not None
    assert name in dir(kernbridge)


def test_a_name_that_never_was_is_an_error():
    with pytest.raises(AttributeError, match="no attribute 'numba_kernle'"):
        kernbridge.numba_kernle  # noqa: B018


def test_a_name_whose_extension_is_missing_names_it(run_python):
    printed = run_python(
        """
import sys
for name in ("inline", "benchmark", "tools"):
    sys.modules[f"kernbridge._ext.{name}"] = None
import kernbridge
for use in ("kernbridge.inline", "from kernbridge import inline", "kernbridge.explain",
            "kernbridge.benchmark", "import kernbridge.cli"):
    try:
        exec(use)
    except ImportError as e:
        print(e)
"""
    )
    missing = "which this installation does not have; install kernbridge again [KB4011]"
    assert printed.splitlines() == [
        f"{what} needs the extension 'kernbridge/_ext/{name}', {missing}"
        for what, name in (
            ("kernbridge.inline", "inline"),
            ("kernbridge.inline", "inline"),
            ("kernbridge.explain", "tools"),
            ("kernbridge.benchmark", "benchmark"),
            ("the command `kernbridge`", "tools"),
        )
    ]


def test_modules_are_attributes_without_an_import_of_their_own(run_python):
    printed = run_python(
        f"import kernbridge\nfor n in {MODULES}: print(getattr(kernbridge, n).__name__)"
    )
    assert printed.split() == [f"kernbridge.{name}" for name in MODULES]


def public_classes():
    names = {*kernbridge.__all__, *NAMES, "Explanation", "Inspection"}
    return sorted(
        {v.__name__ for n in names if isinstance(v := getattr(kernbridge, n), type)}
        | {"benchmark.Measurement"}
    )


@pytest.mark.parametrize("name", public_classes())
def test_public_classes_print_and_pickle_by_their_public_name(name):
    module, _, short = f"kernbridge.{name}".rpartition(".")
    found = getattr(importlib.import_module(module), short)
    assert repr(found) == f"<class 'kernbridge.{name}'>"
    assert pickle.loads(pickle.dumps(found)) is found


def test_exceptions_print_by_their_public_name(run_python):
    printed = run_python(
        "import traceback, kernbridge\n"
        "try: raise kernbridge.KernelLoadError('x')\n"
        "except Exception: print(traceback.format_exc())"
    )
    assert "\nkernbridge.KernelLoadError: x" in printed


def test_errors_that_are_never_raised_are_not_among_the_public_ones():
    unraised = ("CUDANotInstalledError", "GpuArchDetectionError", "KernelExecutionError")
    for name in (*unraised, "MathError", "UnsupportedOperationError"):
        assert name not in kernbridge.errors.__all__
        assert issubclass(getattr(kernbridge, name), kernbridge.BrainEventError)
