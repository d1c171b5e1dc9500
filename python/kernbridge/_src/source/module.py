"""A module built from source, and its functions."""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax

from kernbridge import _core
from kernbridge._src.base import debug
from kernbridge._src.base.dtypes import CODES
from kernbridge._src.base.errors import KernelError, KernelLoadError, KernelRegistrationError, coded
from kernbridge._src.base.exact import exact_items
from kernbridge._src.base.html import table
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.options import read_flag
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.operation.operation import Operation, Verified, about, spec_key
from kernbridge._src.operation.spec import OperationSpec
from kernbridge._src.scan import functions as scanned
from kernbridge._src.sharding.rule import ShardingRule
from kernbridge._src.source import compiled_types
from kernbridge._src.source.frontend import Described, Export, SourceFrontend

if TYPE_CHECKING:
    from kernbridge._src.signatures.call_signature import CallSignature, ResultsOf
    from kernbridge._src.toolchain.library import Request

OPERATIONS_KEPT = 256  # of one function: outputs, options, attribute values

# The latest of each content. Never released: a program from a file may name one, and its library,
# whose functions compiled programs call, is never closed.
_modules: dict[str, CompiledModule] = {}
# Public targets by name and platform: the slot of the handler that XLA has, and the content.
_targets: dict[tuple[str, str], tuple[int, tuple[object, ...]]] = {}
_lock = threading.Lock()


def open_library(path: str | Path) -> tuple[int, int, dict[str, Described]]:
    """Open a shared library for good, or raise KernelLoadError.

    Returns its handle, the address of its function for CUDA's last error, and its functions.
    """
    try:
        handle, last_error, exports = _core.open_library(str(path))
    except OSError as e:
        why = str(e).removeprefix(f"{path}: ")  # the linker names the file, too
        raise KernelLoadError(f"{path} cannot be loaded: {why}.{_hint(why, path)} [KB5102]") from e
    except ValueError as e:
        raise KernelLoadError(f"{path}: {e} [KB5102]") from e
    return handle, last_error, {e[0]: Described(*e[1:]) for e in exports}


def _hint(why: str, path: str | Path) -> str:
    if not Path(path).exists():
        return " There is no such file: correct the path, or build it again"
    if "libcudart" in why:
        return (
            " It needs the CUDA runtime: pip install 'jax[cuda13]', or put the toolkit's lib64 on "
            "LD_LIBRARY_PATH"
        )
    if "cannot open shared object file" in why:
        return " It needs this library: put its folder on LD_LIBRARY_PATH, or link with -Wl,-rpath"
    if "undefined symbol" in why:
        return (
            " A function is declared and used, but not defined; pass its library in extra_ldflags"
        )
    if "static constructor" in why:
        return " Correct the cause, or make the object in the function that needs it"
    return " Build it again for this machine"


_NEEDED = r"\s*(?:(\S+) => )?(/.*) \(0x[0-9a-f]+\)"
_DELETED = " (deleted)"  # after the path of an open file that has gone or was replaced
_seen: dict[str, str] = {}  # the name by which libraries need one -> the digest of its file


def _check_needed(label: str, path: Path) -> None:
    """Raise KernelLoadError if a new process would run other code with a library than this one.

    The dynamic linker never opens a library again whose name it knows, even if it was rebuilt.
    """
    from kernbridge._src.toolchain import library, programs

    maps = Path("/proc/self/maps").read_text(errors="surrogateescape")
    mapped = {line.split(None, 5)[-1] for line in maps.splitlines()}
    linker = next(name for name in mapped if os.path.basename(name).startswith("ld-"))
    for name, found in re.findall(_NEEDED, programs.run([linker, "--list", str(path)]).text):
        digest = library.remembered(file := os.path.realpath(found), os.stat(file))
        is_known = (name or found) in _seen or file + _DELETED not in mapped
        if not is_known or _seen.setdefault(name or found, digest) != digest:
            raise KernelLoadError(
                f"{label} needs {found}, but this process has opened other code under the name of "
                "that library, which the dynamic linker would use: start Python again after a "
                "library has been rebuilt [KB5102]"
            )


class SourceFunction:
    """A function of a module, to be called as an operation.

    It is called as ``module.function(*inputs, outs=..., attribute=...)``. Inputs are arrays, and
    attributes are numbers that are known at trace time. A function with a signature is called with
    the inputs of the signature, by position or by name, and needs no `outs`. It works under
    `jax.jit`, `jax.vmap` and the other transformations, like an operation of `numba_kernel`.
    """

    __module__ = "kernbridge"
    __getattr__ = Operation.__getattr__

    def __init__(self, export: Export) -> None:
        self._export = export
        self._operations: LRUCache[Operation] = LRUCache(OPERATIONS_KEPT)
        self._signature: CallSignature | None = None
        self.__name__ = export.function.name
        if text := export.function.signature:
            from kernbridge._src.signatures.call_signature import CallSignature

            names = list(dict.fromkeys(p.name for p in export.function.parameters))
            self._signature = CallSignature.read(export.label, text, None, names, ())
            assert self._signature is not None
            self.__signature__ = self._signature.python
        self.__doc__ = about(self.__name__, export.function.place, self.tokens)

    def __repr__(self) -> str:
        return f"<{self._export.label} ({self._export.function.tokens})>"

    @property
    def tokens(self) -> str:
        """Its annotation, with every type written out."""
        return self._export.function.tokens

    @functools.cached_property
    def _declared(self) -> ResultsOf | None:
        """What `arg` and `ret` declare of the outputs; None if that is not all."""
        function = self._export.function
        if None in function.declared or not function.declared:
            return None
        from kernbridge._src.signatures.call_signature import ResultsOf

        types, n = list(map(str, function.declared)), len(function.having("arg"))
        names = [p.name for p in function.having("arg")]
        if len({*names}) < n or not all(names):
            names = [f"input{i}" for i in range(n)]
        given = ", ".join(f"{name}: {t}" for name, t in zip(names, types[:n], strict=True))
        try:
            return ResultsOf.read(self._export.label, f"{given} -> {', '.join(types[n:])}", names)
        except ValueError:  # such as a dimension that no input has
            return None

    @hides_frames
    def __call__(self, *inputs: Any, **options: Any) -> Any:
        more = {name: value for name, value in options.items() if name not in _DEFAULTS}
        named, attributes = ({}, more) if self._signature is None else (more, {})
        return self._operation({**_DEFAULTS, **options}, attributes)(*inputs, **named)

    @hides_frames
    def operation(
        self,
        outs: Any = ...,
        *,
        vmap_method: str | None = None,
        vmap_threads: bool | None = None,
        input_output_aliases: Mapping[int, int] | None = None,
        has_side_effect: bool = False,
        zero_outputs: bool = False,
        attrs: Mapping[str, Any] | None = None,
        jvp: Callable[..., Any] | Literal["enzyme"] | None = None,
        vjp: Callable[..., Any] | Literal["enzyme"] | None = None,
        derivatives: Literal["enzyme"] | None = None,
        linear: str | Sequence[str] = (),
        sharding_rule: str | ShardingRule | bool | None = None,
        **attributes: Any,
    ) -> Operation:
        """Return the operation for these outputs and attributes; call it with the inputs only.

        Parameters
        ----------
        outs, vmap_method, input_output_aliases, has_side_effect, jvp, vjp, derivatives, \
linear, sharding_rule
            See `numba_kernel`. By default, each slice of a batch is one call, in a loop in C.
            Derivatives get the attributes as additional keyword arguments.
        vmap_threads : bool, optional
            Pass True if calls of a C or C++ function may run at the same time. The slices of a
            batch are then distributed over threads if this saves time. By default, they run in
            order, since kernbridge cannot know whether a function keeps state between calls.
        zero_outputs : bool, default False
            Fill the outputs (not the aliased ones) with zeros before the function runs; not for
            CUDA.
        attrs : dict of str to number, optional
            Values of attributes that have the name of an option. Attributes are the same for all
            parts of a call that is split.

        Returns
        -------
        Operation
            The operation. Equal arguments return the same operation, as long as it is cached.
        """
        return self._operation(locals(), attributes)

    def _operation(self, given: Mapping[str, Any], more: Mapping[str, Any]) -> Operation:
        export, outs, attrs = self._export, given["outs"], {**(given["attrs"] or {}), **more}
        zeroed = read_flag(export.label, "zero_outputs", given["zero_outputs"])
        if outs is ... and self._signature is None and (outs := self._declared) is None:
            raise TypeError(
                f"{export.label} ({self.tokens}) needs outs=, the shape and the dtype of each "
                "output; pass outs=jax.ShapeDtypeStruct(shape, dtype), or a list of them [KB1002]"
            )
        if zeroed and export.of_cuda:
            raise TypeError(
                f"{export.label}: zero_outputs=True is for C and C++; fill the outputs in the "
                "function, with cudaMemsetAsync on its stream [KB5105]"
            )
        known = export.function.attributes
        spec = OperationSpec.of(given, export.label, outs, [a.name for a in known], self._signature)
        scanned.check_attributes(export.label, known, attrs)
        encoded = tuple(scanned.encode_attribute(export.label, a, attrs[a.name]) for a in known)
        plain, key = scanned.plain_attributes(attrs), spec_key(spec, [])

        def make() -> Operation:
            frontend = SourceFrontend(export, encoded, zeroed)
            made = Operation(spec, frontend, plain)
            if export.cuda and export.record != "never" and debug.verifies():
                direct = SourceFrontend(export._replace(record="never"), encoded, zeroed)
                made = Verified(spec, frontend, direct, plain)
            if self._signature is not None:
                vars(made).update(__signature__=self.__signature__)
            return made

        if key is None:
            return make()
        # Derivative rules get Python's numbers, which may differ where the bytes do not.
        numbers = exact_items(plain) if spec.is_differentiable else None
        return self._operations.find_or_make((key, zeroed, encoded, numbers), make)


# A call takes the options of `operation` by name, and says so where its signature is asked for.
_self, _outs, *_others = inspect.signature(SourceFunction.operation).parameters.values()
_inputs = inspect.Parameter("inputs", inspect.Parameter.VAR_POSITIONAL, annotation="Any")
_taken = [_self, _inputs, _outs.replace(kind=inspect.Parameter.KEYWORD_ONLY), *_others]
_called = inspect.Signature(_taken, return_annotation="Any")
vars(SourceFunction.__call__).update(__signature__=_called)
_DEFAULTS = {p.name: p.default for p in _taken if p.default is not p.empty}


class CompiledModule:
    """The functions that were built from one source.

    Attributes
    ----------
    name : str
        The module's name.
    path : str
        The path of the shared library.
    function_names : list of str
        The names of the functions. Each is available as ``module.function`` and
        ``module["function"]``.
    content_hash : str
        A digest of everything that determines the library, including headers and the compiler.
    """

    __module__ = "kernbridge"
    name = ""
    _functions: dict[str, SourceFunction] = {}  # noqa: RUF012 - before a module is complete

    def __init__(
        self,
        label: str,
        name: str,
        path: Path,
        digest: str,
        functions: Sequence[scanned.ScannedFunction],
        *,
        language: str,
        on_cpu: bool = False,
        graph: bool = True,
        carry: bool = False,
        record: str = "never",
        request: Request | None = None,
        load_other: Callable[[], CompiledModule] | None = None,
    ) -> None:
        self.name = name
        self.path = str(path)
        self.digest = digest
        self.content_hash = f"sha256:{digest[:16]}"
        if request is None or request.ldflags:
            _check_needed(f"{label} {name!r}", path)
        handle, last_error, exports = open_library(path)
        try:
            carried = path.read_bytes() if carry and (on_cpu or language != "cuda") else b""
        except OSError as e:
            why = f"{e}.{_hint(str(e), path)}"
            raise KernelLoadError(f"{path} cannot be read: {why} [KB5102]") from e
        self._functions = {}
        for function in functions:
            found = exports.get(function.name)
            if found is None:
                found = Described("", _find(handle, path, function.name), None, 0, b"")
            elif function.place and not function.passed:
                function = compiled_types.check(
                    f"{label} {name!r}", function, found.types, language
                )
            export = Export(
                label=f"{label} '{name}.{function.name}'",
                module=name,
                digest=digest,
                function=function,
                of_cuda=language == "cuda",
                cuda=language == "cuda" and not on_cpu,
                graph=graph,
                built=found,
                last_error=last_error,
                path=self.path,
                library=carried,
                request=request,
                load_other=load_other,
                record=record,
            )
            self._functions[function.name] = SourceFunction(export)
        _modules[digest] = self

    @property
    def function_names(self) -> list[str]:
        return list(self._functions)

    def get_handler(self, name: str) -> Any:
        """Return the capsule for `jax.ffi.register_ffi_target`.

        Raises
        ------
        KeyError
            If there is no such function, or if it has no handler, since kernbridge did not build
            the module.
        """
        export = self[name]._export
        if not export.built.handler:
            raise KeyError(
                f"{self!r}: {name!r} has no handler, since kernbridge did not build it; call "
                f"module.{name}, or build the module with load_c_file or load_cpp_file [KB5104]"
            )
        export.bind(export.built.slot, f"{self.name}.{name}")
        return export.built.handler

    @hides_frames
    def __getattr__(self, name: str) -> SourceFunction:
        try:
            return self[name]
        except KeyError as e:
            raise AttributeError(*e.args) from None

    def __getitem__(self, name: str) -> SourceFunction:
        if name not in self._functions:
            raise KeyError(
                f"module {self.name!r} has no function {name!r}; it has "
                f"{', '.join(self._functions) or 'none'}: correct the name, or annotate the "
                "function in the source [KB5104]"
            )
        return self._functions[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __repr__(self) -> str:
        listed = (f"  {name}({f.tokens})" for name, f in self._functions.items())
        return "\n".join([f"<module {self.name!r}: {self.path}>", *listed])

    def _repr_html_(self) -> str:
        rows = [(name, function.tokens) for name, function in self._functions.items()]
        return table(f"module {self.name!r}: {self.path}", ("function", "parameters"), rows)


def _find(handle: int, path: Path, name: str) -> int:
    try:
        function = ctypes.CDLL(str(path), handle=handle)[name]
    except AttributeError as e:
        raise KernelError(
            f"{path} exports no function {name!r}; declare it "
            f'extern "C" int {name}(const kb_call *call) [KB5104]'
        ) from e
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def resolve(digest: bytes, origin: dict[str, Any]) -> None:
    """Register what a program from another process calls, if its module is loaded here.

    ValueError is raised if the program describes no call of the function, or a call
    with another digest than the given one, under which it would be found from then on.
    """
    module = _modules.get(str(origin["digest"]))
    name, function = origin["module"], str(origin["function"])
    if module is None or function not in module.function_names:
        raise KernelError(
            f"the program calls the function {name}.{function}, which was built from source: load "
            f"its module {name!r} here, with the same sources, options and compiler, before the "
            "program is run [KB5107]"
        )
    arrays = [(str(dtype), int(rank)) for dtype, rank in origin["arrays"]]
    values = tuple(bytes.fromhex(v) for v in origin["values"])
    frontend = SourceFrontend(module[function]._export, values, bool(origin.get("zeroed")))
    n_inputs = int(origin["n_inputs"])
    frontend.check_described(arrays, n_inputs)
    buffers = tuple((CODES[dtype], rank, "") for dtype, rank in arrays)
    if frontend.identity(buffers, n_inputs) != digest:
        raise ValueError("its digest belongs to another call")
    frontend.register(buffers, n_inputs)


# Public targets: the names for `jax.ffi.ffi_call`, and the functions that they refer to.
# XLA keeps the handler of a name until the process ends, and compiled code calls it. If a target is
# replaced, its handler therefore remains, and calls the new function. Libraries are never closed.


@hides_frames
def register_ffi_target(
    target_name: str,
    module: CompiledModule,
    func_name: str,
    *,
    platform: str = "CUDA",
    replace: bool = False,
    content_id: str | None = None,
) -> None:
    """Register a function of a module under a name for `jax.ffi.ffi_call`.

    Registering the same content under the same name again has no effect.

    Parameters
    ----------
    target_name : str
        The name.
    module : CompiledModule
        What a ``load_*`` function returned.
    func_name : str
        The function.
    platform : str, default "CUDA"
        "CUDA" or "cpu".
    replace : bool, default False
        Replace a target of the same name that has other content. JAX's caches are cleared
        (`jax.clear_caches`), and programs that were compiled before call the new function from then
        on.
    content_id : str, optional
        An identifier of the content, instead of the module's hash.

    Raises
    ------
    KernelRegistrationError
        If a target of this name has other content and `replace` is false, or if a target that XLA
        may record into CUDA graphs would be replaced by one that must not be recorded.
    KeyError
        If the module has no such function.
    """
    export = module[func_name]._export
    content = (content_id or module.content_hash, func_name, export.graph)
    key = (target_name, platform)
    with _lock:
        slot, before = _targets.get(key, (export.built.slot, None))
        if before == content:
            return
        if before is not None and not replace:
            raise KernelRegistrationError(
                f"the target {target_name!r} on {platform} is already registered with other code: "
                "load with replace=True to replace that code, or choose another name (name= or "
                "target_prefix=) [KB5101]"
            )
        try:
            export.bind(slot, target_name)
        except ValueError as e:
            raise KernelRegistrationError(coded(str(e), "KB5101")) from e
        if before is None:
            jax.ffi.register_ffi_target(target_name, export.built.handler, platform=platform)
        _targets[key] = (slot, content)
    if before is not None:
        jax.clear_caches()


def register_all(module: CompiledModule, prefix: str, replace: bool) -> None:
    for name, function in module._functions.items():
        on = "CUDA" if function._export.cuda else "cpu"
        register_ffi_target(f"{prefix}.{name}", module, name, platform=on, replace=replace)


def list_registered_targets() -> list[str]:
    """Return the names of the public targets, sorted."""
    with _lock:
        return sorted({name for name, _ in _targets})
