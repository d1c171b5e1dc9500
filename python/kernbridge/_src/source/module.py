"""A module built from source, and its functions."""

from __future__ import annotations

import functools
import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernbridge import _core
from kernbridge._src.base.errors import KernelError, KernelLoadError
from kernbridge._src.operation import origin as operation_origin
from kernbridge._src.operation.operation import Operation
from kernbridge._src.operation.spec import ArrayType, OperationSpec
from kernbridge._src.scan.signature import ScannedFunction
from kernbridge._src.source import compiled_types
from kernbridge._src.source.frontend import Attributed, SourceCode, SourceFrontend, register

ORIGIN = "source"  # kind of an origin, see operation/origin.py

# The latest of each content. Never released: a program from a file may name one, and its library,
# whose functions compiled programs call, is never closed.
_modules: dict[str, CompiledModule] = {}
_lock = threading.Lock()


class Library(NamedTuple):
    """An open shared library."""

    handle: int
    last_error: int
    exports: dict[str, tuple[str, int, int, int, bytes]]  # tokens, runner, handler, slot, types


def open_library(path: str | Path) -> Library:
    """Open a shared library for good, or raise KernelLoadError."""
    try:
        handle, last_error, exports = _core.open_library(str(path))
    except OSError as e:
        raise KernelLoadError(f"[E-LOAD] {path} cannot be loaded: {e}.{_hint(str(e), path)}") from e
    except ValueError as e:
        raise KernelLoadError(f"[E-LOAD] {path}: {e}") from e
    return Library(
        handle,
        last_error,
        {
            name: (compiled_types.fill(tokens, types), run, handler, slot, types)
            for name, tokens, run, handler, slot, types in exports
        },
    )


def _hint(why: str, path: str | Path) -> str:
    if not Path(path).exists():
        return " [E-LOAD-MISSING] There is no such file"
    if "libcudart" in why:
        return (
            " It needs the CUDA runtime: pip install 'jax[cuda13]', or put the toolkit's lib64 on "
            "LD_LIBRARY_PATH"
        )
    if "undefined symbol" in why:
        return " A function is declared and used, but nowhere defined; name its library in ldflags"
    return ""


class Export:
    """A function of a library: where it is, and how it is checked."""

    def __init__(
        self,
        label: str,
        function: ScannedFunction,
        library: Library,
        cuda: bool,
        graph: bool,
        run: int,
    ) -> None:
        _, self.run, self.handler, self.slot, _ = library.exports.get(
            function.name, ("", run, 0, 0, b"")
        )
        self.label = label
        self.function = function
        self.cuda = cuda
        self.graph = graph
        self.last_error = library.last_error

    def bind(self, slot: int, target: str) -> None:
        """Let the handler of a slot call this function."""
        types = _core.attribute_types()
        function = self.function
        _core.bind_slot(
            slot,
            f"{self.label.split(' ')[0]} {target!r}",
            -1 if function.takes_any else function.count("arg"),
            -1 if function.takes_any else function.count("ret"),
            tuple((a.name, types[a.type][0]) for a in function.attributes),
            self.run,
            self.last_error,
            self.cuda,
            self.graph,
        )


class SourceFunction:
    """A function of a module, to be called as an operation.

    Called as ``module.function(*inputs, outs=..., attribute=...)``. Inputs are arrays, attributes
    numbers that are known while tracing. It works under `jax.jit`, `jax.vmap` and the other
    transformations, as `numba_kernel` does.
    """

    __module__ = "kernbridge"

    def __init__(self, module: CompiledModule, export: Export) -> None:
        self._module = module
        self._export = export
        self._attributed = {
            zeroed: Attributed(
                export.label,
                export.function.attributes,
                functools.partial(self._frontend, zeroed=zeroed),
            )
            for zeroed in (False, True)
        }
        self.__name__ = export.function.name

    def __repr__(self) -> str:
        return f"<{self._export.label} ({self._export.function.tokens})>"

    @property
    def tokens(self) -> str:
        """Its annotation, with every type written out."""
        return self._export.function.tokens

    def __call__(
        self,
        *inputs: Any,
        outs: Any,
        vmap_method: str | None = None,
        input_output_aliases: Mapping[int, int] | None = None,
        has_side_effect: bool = False,
        zero_outputs: bool = False,
        attrs: Mapping[str, Any] | None = None,
        jvp: Callable[..., Any] | None = None,
        vjp: Callable[..., Any] | None = None,
        **attributes: Any,
    ) -> Any:
        operation = self.operation(
            outs,
            vmap_method=vmap_method,
            input_output_aliases=input_output_aliases,
            has_side_effect=has_side_effect,
            zero_outputs=zero_outputs,
            attrs={**(attrs or {}), **attributes},
            jvp=jvp,
            vjp=vjp,
        )
        return operation(*inputs)

    def operation(
        self,
        outs: Any,
        *,
        vmap_method: str | None = None,
        input_output_aliases: Mapping[int, int] | None = None,
        has_side_effect: bool = False,
        zero_outputs: bool = False,
        attrs: Mapping[str, Any] | None = None,
        jvp: Callable[..., Any] | None = None,
        vjp: Callable[..., Any] | None = None,
    ) -> Operation:
        """The operation for these outputs and attributes, to be called with the inputs alone.

        Parameters
        ----------
        outs : pytree of jax.ShapeDtypeStruct, or a function
            As of `numba_kernel`.
        vmap_method : str, optional
            As of `numba_kernel`: by default one call per slice, in a loop in C.
        input_output_aliases : dict of int to int, optional
            From the index of an input to that of an output that takes its memory.
        has_side_effect : bool, default False
            Run even if nothing reads the outputs.
        zero_outputs : bool, default False
            Fill the outputs (not the aliased ones) with zeros before the function runs; not for
            CUDA.
        attrs : dict of str to number, optional
            Values of the attributes.
        jvp, vjp : function, optional
            The derivative, as of `numba_kernel`; called with the attributes by name besides.

        Returns
        -------
        Operation
            The same one for equal arguments, while it is remembered.
        """
        if zero_outputs and self._export.cuda:
            raise TypeError(
                f"{self._export.label}: zero_outputs=True is for C and C++; fill the outputs in "
                "the function, with cudaMemsetAsync on its stream"
            )
        spec = OperationSpec.of(
            self._export.label,
            outs,
            vmap_method,
            input_output_aliases,
            has_side_effect,
            jvp,
            vjp,
            [a.name for a in self._export.function.attributes],
        )
        return self._attributed[bool(zero_outputs)].operation(spec, attrs or {})

    def _frontend(self, values: tuple[bytes, ...], *, zeroed: bool) -> SourceFrontend:
        export = self._export
        return SourceFrontend(export.label, export.function, self._native(zeroed), values)

    def _native(self, zeroed: bool) -> SourceCode:
        module, export = self._module, self._export
        return SourceCode(
            run=export.run,
            last_error=export.last_error,
            cuda=export.cuda,
            graph=export.graph,
            identity=f"{module.digest} {export.function.name}".encode(),
            origin=functools.partial(self._origin, zeroed=zeroed),
            zeroed=zeroed,
        )

    def _origin(
        self,
        values: tuple[bytes, ...],
        arrays: Sequence[ArrayType],
        n_inputs: int,
        *,
        zeroed: bool,
    ) -> str:
        return operation_origin.write(
            ORIGIN,
            module=self._module.name,
            digest=self._module.digest,
            function=self.__name__,
            values=[v.hex() for v in values],
            arrays=[(t.dtype.name, len(t.shape)) for t in arrays],
            n_inputs=n_inputs,
            zeroed=zeroed,
        )


class CompiledModule:
    """Functions that were built from one source.

    Attributes
    ----------
    name : str
        Of the module.
    path : str
        Of the shared library.
    function_names : list of str
        Its functions: each is an attribute, ``module.function``, and ``module["function"]``.
    content_hash : str
        Of all that it was built from, headers and compiler included.
    """

    __module__ = "kernbridge"

    def __init__(
        self,
        label: str,
        name: str,
        path: Path,
        digest: str,
        functions: Sequence[ScannedFunction],
        *,
        cuda: bool,
        graph: bool = True,
    ) -> None:
        self.name = name
        self.path = str(path)
        self.digest = digest
        self.content_hash = f"sha256:{digest[:16]}"
        library = open_library(path)
        self._exports: dict[str, Export] = {}
        for function in functions:
            of = f"{label} '{name}.{function.name}'"
            run = 0 if function.name in library.exports else _find(library, path, function.name)
            if function.place and function.name in library.exports:  # built from its source
                types = library.exports[function.name][-1]
                function = compiled_types.check(f"{label} {name!r}", function, types)
            self._exports[function.name] = Export(of, function, library, cuda, graph, run)
        self._functions = {n: SourceFunction(self, e) for n, e in self._exports.items()}
        with _lock:
            _modules[digest] = self

    @property
    def function_names(self) -> list[str]:
        return list(self._exports)

    def get_handler(self, name: str) -> Any:
        """The capsule that `jax.ffi.register_ffi_target` takes.

        Raises
        ------
        KeyError
            If there is no such function, or no handler: only modules that kernbridge built have.
        """
        export = self.export(name)
        if not export.handler:
            raise KeyError(f"{self!r}: {name!r} has no handler, since kernbridge did not build it")
        export.bind(export.slot, f"{self.name}.{name}")
        return _core.handler_capsule(export.handler)

    def export(self, name: str) -> Export:
        """The function of a name, or KeyError."""
        if name not in self._exports:
            raise KeyError(f"{self!r} has no function {name!r}")
        return self._exports[name]

    def __getattr__(self, name: str) -> SourceFunction:
        functions = self.__dict__.get("_functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(
            f"module {self.__dict__.get('name')!r} has no function {name!r}; it has "
            f"{', '.join(functions) or 'none'}"
        )

    def __getitem__(self, name: str) -> SourceFunction:
        self.export(name)
        return self._functions[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._exports]

    def __repr__(self) -> str:
        return f"CompiledModule({self.path!r}, {self.function_names})"


def _find(library: Library, path: Path, name: str) -> int:
    try:
        return _core.find_symbol(library.handle, name)
    except LookupError as e:
        raise KernelError(
            f"{path} exports no function {name!r}; declare it "
            f'extern "C" int {name}(const kb_call *call)'
        ) from e


def _resolve(digest: bytes, origin: dict[str, Any]) -> None:
    """Register what a program from another process calls, if its module is loaded here."""
    module = _modules.get(str(origin["digest"]))
    name, function = origin["module"], str(origin["function"])
    if module is None or function not in module.function_names:
        raise KernelError(
            f"the program calls the function {name}.{function}, which was built from source: load "
            f"its module {name!r} here, with the same sources, options and compiler, before the "
            "program is run"
        )
    export = module.export(function)
    dtypes = _core.dtypes()
    buffers = tuple((dtypes[str(d)][0], int(rank), "") for d, rank in origin["arrays"])
    values = tuple(bytes.fromhex(v) for v in origin["values"])
    native = module[function]._native(bool(origin.get("zeroed")))
    register(export.label, native, values, buffers, int(origin["n_inputs"]), digest)


operation_origin.register(ORIGIN, _resolve)


def digest_of(*parts: object) -> str:
    """64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()
