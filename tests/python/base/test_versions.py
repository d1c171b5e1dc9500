"""Versions of JAX, Numba, Numba-CUDA and llvmlite that kernbridge does not know."""

import ast
import importlib.util
import re
import sys
import threading
import types
from importlib import metadata
from pathlib import Path

import jax
import kernbridge
import pytest
from kernbridge._src.base import versions

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

FOLDER = Path(kernbridge.__file__).parent
FOREIGN = ("jax", "jaxlib", "numba", "numba_cuda_mlir", "llvmlite")
ROOMS = ("_src.base", "_src.numba_common", "_ext.mlir")
HANDED_OUT = tuple(f"kernbridge.{room}.private_" for room in ROOMS)
OPTIONAL = {  # which only some of the tested versions have
    "DynamicJaxprTracer",
    "ManualAxisType",
    "auto_insert_reshard",
    "standard_insert_pvary",
}


def member(owner, name):
    """An attribute, a field or a submodule of a module or class."""
    if hasattr(owner, name) or name in getattr(owner, "__dataclass_fields__", {}):
        return getattr(owner, name, None)
    return importlib.import_module(f"{owner.__name__}.{name}")


def imported(tree):
    """What a file imports of other packages, by the name that it gives them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                if root in FOREIGN:
                    found = importlib.import_module(alias.name)
                    yield alias.asname or root, found if alias.asname else sys.modules[root]
        elif isinstance(node, ast.ImportFrom) and node.module.startswith((*FOREIGN, *HANDED_OUT)):
            owner = importlib.import_module(node.module)
            for alias in node.names:
                if alias.name not in OPTIONAL:
                    yield alias.asname or alias.name, member(owner, alias.name)


def used(tree):
    """Dotted names in a file: attributes, and owner and name of `(owner, "name", replacement)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)
        elif isinstance(node, ast.Tuple) and len(node.elts) > 1:
            owner, name = node.elts[:2]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield f"{ast.unparse(owner)}.{name.value}"


def test_the_installed_versions_have_every_name_that_is_used():
    has_mlir = importlib.util.find_spec("numba_cuda_mlir") is not None
    missing, n_found = set(), 0
    for path in FOLDER.rglob("*.py"):
        if "mlir" in str(path.relative_to(FOLDER)) and not has_mlir:
            continue
        tree = ast.parse(path.read_text())
        try:
            known = dict(imported(tree))
        except ImportError as e:
            missing.add(f"{path.name}: {e}")
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.arg):
                known.pop(node.arg, None)  # in a function, it is something else
        for dotted in filter(re.compile(r"[\w.]+").fullmatch, used(tree)):
            first, *rest = dotted.split(".")
            value = known.get(first)
            for name in rest:
                if not isinstance(value, (type, types.ModuleType)) or name in OPTIONAL:
                    break
                try:
                    value = member(value, name)
                    n_found += 1
                except ImportError:
                    missing.add(f"{path.name}: {dotted}")
                    break
    assert not missing
    assert n_found > 500


def frame_of(package, *, code):
    """Run code as a module of a package would; return the error that it raises."""
    with pytest.raises((AttributeError, ImportError)) as raised:
        exec(code, {"__name__": f"{package}.module"})
    return raised.value


@pytest.mark.once
@pytest.mark.parametrize(
    ("code", "package", "name"),
    [
        ("from jax._src.core import gone", "JAX", "jax._src.core.gone"),
        ("import jax; jax._src.core.gone", "JAX", "jax._src.core.gone"),
        ("import jax; jax.core.gone", "JAX", "jax.core.gone"),
        ("import numba.core.gone", "Numba", "numba.core.gone"),
        ("from numba.core.gone import x", "Numba", "numba.core.gone"),
        (
            "from numba import types; types.Array.gone",
            "Numba",
            "numba.core.types.npytypes.Array.gone",
        ),
        (
            "import numba; numba.njit(lambda: 0)._gone",
            "Numba",
            "numba.core.registry.CPUDispatcher._gone",
        ),
        ("from numba import cuda; cuda.gone", "Numba-CUDA", "numba.cuda.gone"),
        (
            "from llvmlite import ir; ir.IntType(8).gone",
            "llvmlite",
            "llvmlite.ir.types.IntType.gone",
        ),
    ],
)
def test_a_name_that_is_missing_is_named_with_the_version(code, package, name):
    error = frame_of("kernbridge", code=code)
    message = str(versions.missing_name(error))
    first, last = (".".join(map(str, v)) for v in versions.TESTED[package])
    version = versions._version(package)
    assert message.startswith(f"kernbridge does not support {package} {version}: `{name}` is ")
    assert f" missing. It is tested with versions {first} to {last}. Install" in message
    assert isinstance(versions.missing_name(error), kernbridge.UnknownVersionError)
    assert versions.missing_name(frame_of("numba", code=code)) is None  # an error of its own


@pytest.mark.once
@pytest.mark.parametrize(
    "code",
    ["''.gone", "import gone", "from math import gone", "import kernbridge; kernbridge.gone"],
)
def test_an_error_about_anything_else_stays(code):
    assert versions.missing_name(frame_of("kernbridge", code=code)) is None


@pytest.mark.once
def test_a_missing_name_is_found_behind_what_numba_raises():
    numba = importlib.import_module("numba")
    inner = frame_of("kernbridge", code="import numba; numba.gone")
    for outer, is_found in ((numba.core.errors.LoweringError("x"), True), (TypeError("x"), False)):
        outer.__context__ = inner
        assert (versions.missing_name(outer) is not None) == is_found


KERNELS = """
import jax, numba, kernbridge
from numba import cuda
x = jax.numpy.arange(4.0)
out = jax.ShapeDtypeStruct((4,), x.dtype)

@numba.njit
def on_cpu(x, out):
    out[:] = x + 1

@cuda.jit
def on_gpu(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + 1

def attempt(make):
    try:
        make()(x)
    except kernbridge.KernbridgeError as e:
        print(type(e).__name__, e)

def cpu():
    return kernbridge.numba_kernel(on_cpu, out)

def gpu():
    return kernbridge.numba_cuda_kernel(on_gpu, out, launch_dims=4)
"""


@pytest.mark.once
@pytest.mark.parametrize(
    ("owner", "name", "kind", "package"),
    [
        pytest.param(
            *("numba.core.compiler", "Flags", "cpu", "Numba"), marks=pytest.mark.exhaustive
        ),
        pytest.param(
            *("numba.cuda.dispatcher", "_Kernel", "gpu", "Numba-CUDA"), marks=pytest.mark.exhaustive
        ),
        pytest.param(
            *("numba.cuda.codegen.CUDACodeLibrary", "_ensure_cc", "gpu", "Numba-CUDA"),
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            *("llvmlite.binding.newpassmanagers.ModulePassManager", "add_always_inliner_pass"),
            *("gpu", "llvmlite"),
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_the_kernel_is_not_blamed_for_a_missing_name(owner, name, kind, package, run_python):
    said = run_python(
        f"{KERNELS}\nimport pkgutil\n"
        f"pkgutil.resolve_name('{owner}').__dict__  # imported\n"
        f"delattr(pkgutil.resolve_name('{owner}'), '{name}')\n"
        f"attempt({kind})\n"
    )
    assert said.startswith(f"UnknownVersionError kernbridge does not support {package} "), said
    assert f"{owner}.{name}" in said
    assert "cannot compile" not in said


@pytest.mark.once
@pytest.mark.exhaustive
def test_an_attribute_that_a_dispatcher_lacks_is_named(run_python):
    said = run_python(f"{KERNELS}\ndel on_cpu._compiler\nattempt(cpu)\n")
    assert "does not support Numba " in said
    assert "`numba.core.registry.CPUDispatcher._compiler` is missing" in said


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.parametrize(
    ("module", "package", "use"),
    [
        ("jax", "JAX", "import kernbridge"),
        ("numba", "Numba", f"{KERNELS}\nattempt(cpu)"),
        ("numba_cuda", "Numba-CUDA", f"{KERNELS}\nattempt(gpu)"),
        ("llvmlite", "llvmlite", f"{KERNELS}\nattempt(cpu)"),
    ],
)
def test_a_version_that_is_not_tested_is_warned_about(module, package, use, run_python):
    program = f"import {module}\n{module}.__version__ = '99.1.2'\n{use}\n{use}\n"
    said = run_python(program, check=False)
    first, last = (".".join(map(str, v)) for v in versions.TESTED[package])
    assert said.count("[KB8004]") == 1, said
    assert f"{package} 99.1.2 is not among the versions" in said
    assert f"versions {first} to {last}" in said
    named = module.replace("_", "-")
    assert re.search(rf"`pip install [^`]*'{named}<[^`]*` installs a tested one", said)


@pytest.mark.once
@pytest.mark.parametrize("package", versions.TESTED)
def test_the_line_that_a_message_names_installs_the_package(package, monkeypatch):
    monkeypatch.setattr(versions, "_version", lambda package: "99.1.2")
    said = str(versions._unknown(package, "a.name"))
    with pytest.warns(kernbridge.KernbridgeWarning) as warned:
        versions.warn_of_untested(package)
    for text in (said, str(warned[0].message)):
        assert re.search(rf"pip install [^)`]*'{package.lower()}<[^)`]*[)`]", text), text
        assert "kernbridge[" not in text


@pytest.mark.once
def test_the_tested_versions_stand_in_the_metadata():
    requires = metadata.requires("kernbridge")
    for package, (first, last) in versions.TESTED.items():
        behind = (last[0], last[1] + 1)
        bounds = f"<{'.'.join(map(str, behind))},>={'.'.join(map(str, first))}"
        wanted = f"{package.lower()}{bounds}; extra == "
        assert any(r.startswith(wanted) and "tested" in r for r in requires), wanted


UNKNOWN_JAX = """
import warnings
import jax, jax.numpy as jnp, numba
import jax._src.core
hidden = jax._src.core.standard_vma_rule
del jax._src.core.standard_vma_rule
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import kernbridge
jax._src.core.standard_vma_rule = hidden
(warning,) = [w for w in caught if w.category is kernbridge.KernbridgeWarning]
print(warning.message)

@numba.njit
def add(x, out):
    out[:] = x + 1

def attempt(function, *arguments, **keywords):
    try:
        return function(*arguments, **keywords)
    except kernbridge.UnknownVersionError as e:
        print(e)

x = jnp.arange(8.0)
like_x = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)
"""


def test_an_unknown_jax_refuses_side_effects_when_a_kernel_is_wrapped(run_python):
    said = run_python(
        UNKNOWN_JAX + "attempt(kernbridge.numba_kernel, add, like_x, has_side_effect=True)\n"
        "@numba.njit\ndef nothing(x): pass\n"
        "attempt(kernbridge.numba_kernel(nothing, []), x)\n"
    ).splitlines()
    assert said[0].startswith("kernbridge does not support JAX ")
    assert "has_side_effect=True and calls inside shard_map" in said[0]
    assert said[1].startswith("numba_kernel 'add' has has_side_effect=True: kernbridge does not")
    assert said[2].startswith("numba_kernel 'nothing' has no outputs, hence a side effect: kern")
    words = "`jax._src.core.standard_vma_rule` is missing. It is tested with versions 0.8"
    assert all(words in s for s in said)


@pytest.mark.exhaustive
def test_an_unknown_jax_refuses_shard_map_where_results_could_be_wrong(run_python):
    said = run_python(
        UNKNOWN_JAX
        + """
from jax.sharding import PartitionSpec as P
op = kernbridge.numba_kernel(add, like_x)
mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
def shared(**options):
    return jax.shard_map(op, mesh=mesh, in_specs=P("i"), out_specs=P("i"), **options)
attempt(shared(), x)
print(attempt(shared(check_vma=False), x).tolist(), attempt(op, x).tolist())
"""
    ).splitlines()
    assert said[1].startswith(
        "numba_kernel 'add' is called inside shard_map with check_vma=True: kernbridge does not"
    )
    right = [float(i) for i in range(1, 9)]
    assert said[-1] == f"{right} {right}"


UNKNOWN_PARTITIONER = """
import warnings
import jax, jax.numpy as jnp, numba
from jax._src.lib import xla_client
hidden = xla_client.register_custom_call_partitioner
del xla_client.register_custom_call_partitioner
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import kernbridge
xla_client.register_custom_call_partitioner = hidden
(warning,) = [w for w in caught if w.category is kernbridge.KernbridgeWarning]
print(warning.message)

@numba.njit
def add(x, out):
    out[:] = x + 1

op = kernbridge.numba_kernel(
    add, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), sharding_rule="i -> i"
)
for kind in (jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit):
    mesh = jax.make_mesh((4,), ("x",), axis_types=(kind,))
    where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    x = jax.device_put(jnp.arange(8.0).reshape(4, 2), where)
    print(op(x[:, 0]).tolist(), jax.jit(jax.vmap(op))(x).tolist())
"""


@pytest.mark.exhaustive
def test_an_unknown_jax_gathers_sharded_operands(run_python):
    said = run_python(UNKNOWN_PARTITIONER).splitlines()
    assert said[0].startswith("kernbridge does not support JAX ")
    assert "xla_client.register_custom_call_partitioner` is missing" in said[0]
    assert "a sharded operand is gathered before every call outside shard_map." in said[0]
    right = "[1.0, 3.0, 5.0, 7.0] [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]"
    assert said[1:] == [right, right]


@pytest.mark.once
def test_one_module_for_each_package_imports_its_names():
    """Elsewhere, `numba.cuda` and `numba` are imported for what they promise alone."""
    promised = {
        *("numba", "numba.cuda", "numba.cuda.bf16"),
        *("jax", "jax.export", "jax.numpy", "jax.sharding", "jax.extend.mlir.dialects.stablehlo"),
    }
    folder = Path(kernbridge.__file__).parent
    offending = []
    for path in folder.rglob("*.py"):
        if path.name.startswith("private_"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            for module in modules:
                package = module.split(".")[0]
                if package not in ("jax", "numba", "llvmlite"):
                    continue
                if module not in promised and not module.startswith(("jax.lax", "jax.tree_util")):
                    offending.append(f"{path.name}: {module}")
    assert not offending


@pytest.mark.once
def test_printing_for_the_cpu_holds_numbas_lock_and_leaves_other_threads_alone(gpu, monkeypatch):
    from llvmlite import ir
    from numba import cuda
    from numba.core.compiler_lock import global_compiler_lock

    pointer = ir.IntType(32).as_pointer()
    seen, printed, in_full = {}, [], ir.Module.__repr__

    def look():
        seen["held"] = not global_compiler_lock._lock.acquire(blocking=False)
        if not seen["held"]:
            global_compiler_lock._lock.release()
        seen["text"] = str(ir.FunctionType(pointer, [pointer]))

    def printing(module):
        text = in_full(module)
        if re.search(r"\bptr\b", text) and not re.search(r"[\w>]\*", text):
            other = threading.Thread(target=look)
            other.start()
            other.join()
            printed.append(text)
        return text

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + 40101

    monkeypatch.setattr(ir.Module, "__repr__", printing)
    x = jax.ShapeDtypeStruct((4,), jax.numpy.float32)
    jax.jit(kernbridge.numba_cuda_kernel(kernel, x, launch_dims=4)).lower(x)
    assert printed
    assert seen == {"held": True, "text": "i32* (i32*)"}
    assert str(ir.FunctionType(pointer, [pointer])) == "i32* (i32*)"


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_numpy_that_numba_cuda_cannot_use_is_named(run_python):
    """Numba-CUDA 0.30 cannot be imported with NumPy 2.5."""
    said = run_python(
        "import sys, numpy\n"
        "for name in [n for n in sys.modules if n.startswith('numba.cuda')]:\n"
        "    del sys.modules[name]\n"
        "vars(numpy).pop('row_stack', None)\n"
        f"{KERNELS.replace('@cuda.jit', '@numba.njit')}\nattempt(gpu)\n",
        check=False,
    )
    assert "KernelToolchainError" in said, said
    assert "no longer has numpy.row_stack" in said
