"""Versions of JAX, Numba, Numba-CUDA and llvmlite that kernbridge does not know."""

import ast
import importlib
import re
import threading
import types
from importlib import metadata
from pathlib import Path

import kernbridge
import pytest
from kernbridge import UnknownVersionError
from kernbridge._src.base import private_jax, versions

numba_cuda = pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
from kernbridge._src.numba_common import (  # noqa: E402
    numba_cuda_device_inside,
    numba_cuda_impl_inside,
    private_llvmlite,
    private_numba,
    private_numba_cuda,
)

PACKAGES = {
    "JAX": (
        *private_jax.NAMES,
        *private_jax.INSIDES,
        *private_jax.PARTITIONING,
        private_jax.STABLE_TARGETS,
    ),
    "Numba": private_numba.NAMES,
    "Numba-CUDA": (
        *private_numba_cuda.NAMES,
        *numba_cuda_device_inside.NAMES,
        *numba_cuda_impl_inside.NAMES,
    ),
    "llvmlite": (
        *private_llvmlite.NAMES,
        *private_llvmlite.CUDA_ON_CPU_NAMES,
        *private_llvmlite.OBJECT_CODE_NAMES,
        *private_llvmlite.OWN_CONTEXT_NAMES,
        *private_llvmlite.PASS_MANAGER_NAMES,
    ),
}
ALL = [(package, name) for package, names in PACKAGES.items() for name in names]

# numba-cuda-mlir need not be installed: what is handed out, and its names, are read.
_MLIR, _MLIR_DEVICE = (
    ast.parse((Path(private_numba.__file__).parents[1] / name).read_text())
    for name in ("mlir/private_mlir.py", "numba_common/private_mlir_host.py")
)


def listed_in(module, variable):
    """What a variable of a module is."""
    return next(
        ast.literal_eval(node.value)
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == variable
    )


MLIR_NAMES = listed_in(_MLIR, "NAMES")
MLIR_DEVICE_NAMES = listed_in(_MLIR_DEVICE, "NAMES")
MLIR_HANDED, MLIR_DEVICE_HANDED = (
    {
        alias.asname or alias.name: alias.name
        for node in module.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numba_cuda_mlir")
        for alias in node.names
    }
    for module in (_MLIR, _MLIR_DEVICE)
)


def take_away(monkeypatch, dotted):
    """Remove a name from the module or class that has it."""
    path, name = dotted.rsplit(".", 1)
    parts = path.split(".")
    owner = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], start=2):
        try:
            owner = getattr(owner, part)
        except AttributeError:
            owner = importlib.import_module(".".join(parts[:i]))
    if isinstance(owner, type):
        fields = owner.__dict__.get("__dataclass_fields__", {})
        if name in fields:
            monkeypatch.delitem(fields, name)
        for base in owner.__mro__:
            if name in base.__dict__:
                monkeypatch.delattr(base, name)
    else:
        monkeypatch.delattr(owner, name)


@pytest.mark.parametrize(
    ("package", "names"),
    [
        pytest.param(package, name, id=name, marks=() if package == "JAX" else pytest.mark.once)
        for package, name in ALL
    ],
)
def test_a_name_that_is_missing_is_named_with_the_version(package, names, monkeypatch):
    versions.look_up(package, [names])
    for name in names.split(" or "):
        if versions._exists(name):
            take_away(monkeypatch, name)
    with pytest.raises(UnknownVersionError) as raised:
        versions.look_up(package, PACKAGES[package])
    monkeypatch.undo()
    message = str(raised.value)
    first, last = (".".join(map(str, v)) for v in versions.TESTED[package])
    version = versions._version(package)
    assert message.startswith(f"kernbridge does not support {package} {version}: ")
    assert f"`{names}`" in message
    assert f" missing. It is tested with versions {first} to {last}. Install" in message
    assert isinstance(raised.value, kernbridge.KernbridgeError)


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
            *("numba.cuda.dispatcher", "_Kernel", "gpu", "Numba-CUDA"),
            marks=pytest.mark.exhaustive,
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
    assert "`numba.core.registry.CPUDispatcher._compiler`, `" in said


@pytest.mark.once
@pytest.mark.parametrize(
    ("module", "package", "use"),
    [
        ("jax", "JAX", "import kernbridge"),
        ("numba", "Numba", "import kernbridge._src.numba_common.private_numba"),
        ("numba_cuda", "Numba-CUDA", "import kernbridge._src.numba_common.private_numba_cuda"),
        ("llvmlite", "llvmlite", "import kernbridge._src.numba_common.private_llvmlite"),
    ],
)
def test_a_version_that_is_not_tested_is_warned_about(module, package, use, run_python):
    program = f"import {module}\n{module}.__version__ = '99.1.2'\n{use}\n{use}\n"
    said = run_python(program, check=False)
    first, last = (".".join(map(str, v)) for v in versions.TESTED[package])
    assert said.count("KernbridgeWarning") == 1, said
    assert f"{package} 99.1.2 is not among the versions" in said
    assert f"versions {first} to {last}" in said
    extra = "tested-cuda" if package == "Numba-CUDA" else "tested"
    assert f"pip install 'kernbridge[{extra}]'" in said


@pytest.mark.once
@pytest.mark.parametrize("package", versions.TESTED)
def test_the_extra_that_a_message_names_contains_the_package(package, monkeypatch):
    monkeypatch.setattr(versions, "_version", lambda package: "99.1.2")
    said = str(versions.unknown(package, ["a.name"]))
    with pytest.warns(kernbridge.KernbridgeWarning) as warned:
        versions.warn_of_untested(package)
    (extra,) = set(re.findall(r"kernbridge\[(.*?)\]", f"{said} {warned[0].message}"))
    requires = [r for r in metadata.requires("kernbridge") if f'extra == "{extra}"' in r]
    assert any(re.match(rf"{package}\b(?!-)", r, re.I) for r in requires)


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


def test_an_unknown_jax_gathers_sharded_operands(run_python):
    said = run_python(UNKNOWN_PARTITIONER).splitlines()
    assert said[0].startswith("kernbridge does not support JAX ")
    assert "`jax._src.lib.xla_client.register_custom_call_partitioner` is missing" in said[0]
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
        if path.name.startswith("private_") or path.name.endswith("_inside.py"):
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
def test_what_modules_use_of_numba_is_looked_up():
    """Every attribute of a module that an _inside module hands out is one of its names."""
    public = {"cuda", "jax", "numba"}
    handed = {
        inside.__name__.rsplit(".", 1)[1]: (
            {
                name: value.__name__.rsplit(".", 1)[-1]
                for name, value in vars(inside).items()
                if isinstance(value, types.ModuleType) and name not in public
            },
            names,
        )
        for inside, names in [
            (private_numba, private_numba.NAMES),
            (private_numba_cuda, PACKAGES["Numba-CUDA"]),
            (numba_cuda_device_inside, PACKAGES["Numba-CUDA"]),
            (numba_cuda_impl_inside, PACKAGES["Numba-CUDA"]),
            (private_llvmlite, PACKAGES["llvmlite"]),
            (private_jax, private_jax.NAMES),
        ]
    }
    handed["private_mlir"] = MLIR_HANDED, MLIR_NAMES
    handed["private_mlir_host"] = MLIR_DEVICE_HANDED, MLIR_DEVICE_NAMES
    unlisted = []
    for path in Path(kernbridge.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        local = {}
        for node in ast.walk(tree):
            from_inside = re.search("private_|_inside", getattr(node, "module", "") or "")
            if isinstance(node, ast.ImportFrom) and from_inside:
                modules, names = handed[node.module.rsplit(".", 1)[1]]
                for alias in node.names:
                    if alias.name in modules:
                        local[alias.asname or alias.name] = modules[alias.name], names
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module, names = local.get(node.value.id, (None, ()))
                if node.attr.startswith("__"):
                    continue
                tail = f".{module}.{node.attr}"
                if module and not any(tail in f".{name}" for name in names):
                    unlisted.append(f"{path.name}: {module}.{node.attr}")
    assert not unlisted


@pytest.mark.once
def test_private_attributes_of_other_packages_are_looked_up():
    """Every private attribute that kernbridge does not define itself is part of a listed name."""
    listed = {part for _, name in ALL for part in name.split(".")}
    for name in (*MLIR_NAMES, *MLIR_DEVICE_NAMES):
        listed |= set(name.split("."))
    for names in (
        listed_in(_MLIR_DEVICE, "OF_MARSHALLERS"),
        private_numba.OF_DISPATCHERS,
        private_numba.OF_CODEGEN,
        private_numba.OF_LIBRARIES,
        private_numba.OF_OPEN_LIBRARIES,
        private_numba.OF_OPTIMISERS,
        private_numba.OF_UFUNCS,
        private_numba_cuda.OF_KERNELS,
        private_numba_cuda.OF_DISPATCHERS,
        numba_cuda_device_inside.OF_LIBRARIES,
    ):
        listed |= {part for name in names for part in name.split(".")}
    listed.add("_registries")  # of contexts; the tests of keys/extensions.py notice its absence
    listed |= {
        "_asdict",
        "_current_frames",
        "_fields",
        "_getframe",
        "_replace",
        "_SimpleCData",
    }  # of Python
    defined, used = set(), set()
    for path in Path(kernbridge.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                defined.add(node.name)
            elif isinstance(node, ast.alias):
                defined.add((node.asname or node.name).rsplit(".", 1)[-1])
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined.add(node.id)
            elif isinstance(node, ast.Attribute):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                if own and isinstance(node.ctx, ast.Store):
                    defined.add(node.attr)
                elif not own and node.attr.startswith("_kernbridge"):
                    continue
                elif not own and node.attr.startswith("_") and not node.attr.endswith("__"):
                    used.add((node.attr, path.name))
    assert not {(name, file) for name, file in used if name not in listed | defined}


@pytest.mark.once
def test_printing_for_the_cpu_holds_numbas_lock_and_leaves_other_threads_alone(gpu, monkeypatch):
    from kernbridge._src.cuda_on_cpu import ir as cuda_on_cpu_ir
    from llvmlite import ir
    from numba.core.compiler_lock import global_compiler_lock

    pointer = ir.IntType(32).as_pointer()
    module = ir.Module()
    ir.Function(module, ir.FunctionType(pointer, [pointer]), "f")
    seen = {}

    def look():
        seen["held"] = not global_compiler_lock._lock.acquire(blocking=False)
        if not seen["held"]:
            global_compiler_lock._lock.release()
        seen["text"] = str(ir.FunctionType(pointer, [pointer]))

    with cuda_on_cpu_ir.opaque_pointers():
        other = threading.Thread(target=look)
        other.start()
        other.join()
        here = str(module)
    assert "ptr" in here
    assert "i32*" not in here
    assert seen == {"held": True, "text": "i32* (i32*)"}
    assert "i32*" in str(module)


def test_a_numpy_that_numba_cuda_cannot_use_is_named(monkeypatch):
    """Numba-CUDA 0.30 cannot be imported with NumPy 2.5."""

    def fail(package, names):
        raise AttributeError("module 'numpy' has no attribute 'row_stack'")

    monkeypatch.setattr(versions, "look_up", fail)
    with pytest.raises(kernbridge.KernelToolchainError, match=r"no longer has numpy\.row_stack"):
        private_numba_cuda.check()
