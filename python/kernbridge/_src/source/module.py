"""A module built from source, and its functions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernbridge import _core
from kernbridge._src.base.errors import KernelError, KernelLoadError
from kernbridge._src.base.exact import exact_items
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.options import read_flag
from kernbridge._src.base.reports import hide_frames, hides_frames
from kernbridge._src.operation.operation import Operation, spec_key
from kernbridge._src.operation.sharding_rule import ShardingRule
from kernbridge._src.operation.spec import OperationSpec
from kernbridge._src.scan import attributes as scan_attributes
from kernbridge._src.scan.signature import ScannedFunction
from kernbridge._src.source import compiled_types
from kernbridge._src.source.frontend import Export, SourceFrontend

OPERATIONS_KEPT = 256  # of one function: outputs, options, attribute values

# The latest of each content. Never released: a program from a file may name one, and its library,
# whose functions compiled programs call, is never closed.
_modules: dict[str, CompiledModule] = {}
_lock = threading.Lock()


class Described(NamedTuple):
    """The description of one function in a library that kernbridge built."""

    tokens: str
    run: int
    handler: int
    slot: int
    types: bytes  # see `compiled_types.py`


class Library(NamedTuple):
    """An open shared library."""

    handle: int
    last_error: int
    exports: dict[str, Described]


def open_library(path: str | Path) -> Library:
    """Open a shared library for good, or raise KernelLoadError."""
    try:
        handle, last_error, exports = _core.open_library(str(path))
    except OSError as e:
        why = str(e).removeprefix(f"{path}: ")  # the linker names the file, too
        raise KernelLoadError(f"{path} cannot be loaded: {why}.{_hint(why, path)} [KB5102]") from e
    except ValueError as e:
        raise KernelLoadError(f"{path}: {e} [KB5102]") from e
    return Library(handle, last_error, {e[0]: Described(*e[1:]) for e in exports})


def _read(path: Path) -> bytes:
    """Return the bytes of a shared library, or raise KernelLoadError."""
    try:
        return path.read_bytes()
    except OSError as e:
        raise KernelLoadError(f"{path} cannot be read: {e}.{_hint(str(e), path)} [KB5102]") from e


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


class SourceFunction:
    """A function of a module, to be called as an operation.

    It is called as ``module.function(*inputs, outs=..., attribute=...)``. Inputs are arrays, and
    attributes are numbers that are known at trace time. It works under `jax.jit`, `jax.vmap` and
    the other transformations, like an operation of `numba_kernel`.
    """

    __module__ = "kernbridge"

    def __init__(self, export: Export) -> None:
        self._export = export
        self._operations: LRUCache[Operation] = LRUCache(OPERATIONS_KEPT)
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
        outs: Any = ...,
        vmap_method: str | None = None,
        vmap_threads: bool | None = None,
        input_output_aliases: Mapping[int, int] | None = None,
        has_side_effect: bool = False,
        zero_outputs: bool = False,
        attrs: Mapping[str, Any] | None = None,
        jvp: Callable[..., Any] | None = None,
        vjp: Callable[..., Any] | None = None,
        sharding_rule: str | ShardingRule | None = None,
        **attributes: Any,
    ) -> Any:
        try:
            operation = self.operation(
                outs,
                vmap_method=vmap_method,
                vmap_threads=vmap_threads,
                input_output_aliases=input_output_aliases,
                has_side_effect=has_side_effect,
                zero_outputs=zero_outputs,
                attrs={**(attrs or {}), **attributes},
                jvp=jvp,
                vjp=vjp,
                sharding_rule=sharding_rule,
            )
            return operation(*inputs)
        except Exception as e:
            hide_frames(e)
            raise

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
        jvp: Callable[..., Any] | None = None,
        vjp: Callable[..., Any] | None = None,
        sharding_rule: str | ShardingRule | None = None,
    ) -> Operation:
        """Return the operation for these outputs and attributes; call it with the inputs only.

        Parameters
        ----------
        outs : pytree of jax.ShapeDtypeStruct, or a function
            See `numba_kernel`.
        vmap_method : str, optional
            See `numba_kernel`. By default, each slice is one call, in a loop in C.
        vmap_threads : bool, optional
            Pass True if calls of a C or C++ function may run at the same time. The slices of a
            batch are then distributed over threads if this saves time. By default, they run in
            order, since kernbridge cannot know whether a function keeps state between calls.
        input_output_aliases : dict of int to int, optional
            A dict from the index of an input to the index of an output, which share the same
            memory.
        has_side_effect : bool, default False
            Run even if nothing reads the outputs.
        zero_outputs : bool, default False
            Fill the outputs (not the aliased ones) with zeros before the function runs; not for
            CUDA.
        attrs : dict of str to number, optional
            Values of the attributes.
        jvp, vjp : function, optional
            The derivative; see `numba_kernel`. The attributes are passed as additional keyword
            arguments.
        sharding_rule : str or ShardingRule, optional
            The dimensions along which a call may be split among devices; see `numba_kernel`. The
            values of attributes are the same for all parts.

        Returns
        -------
        Operation
            The operation. Equal arguments return the same operation, as long as it is cached.
        """
        export, attrs = self._export, attrs or {}
        zeroed = read_flag(export.label, "zero_outputs", zero_outputs)
        if outs is ...:
            raise TypeError(
                f"{export.label} ({self.tokens}) needs outs=, the shape and the dtype of each "
                "output; pass outs=jax.ShapeDtypeStruct(shape, dtype), or a list of them [KB1002]"
            )
        if zeroed and export.cuda:
            raise TypeError(
                f"{export.label}: zero_outputs=True is for C and C++; fill the outputs in the "
                "function, with cudaMemsetAsync on its stream"
                " [KB5105]"
            )
        known = export.function.attributes
        spec = OperationSpec.of(
            export.label,
            outs,
            vmap_method,
            input_output_aliases,
            has_side_effect,
            jvp,
            vjp,
            [a.name for a in known],
            sharding_rule,
            vmap_threads,
        )
        encoded = scan_attributes.encode_all(export.label, known, attrs)
        plain, key = scan_attributes.plain(attrs), spec_key(spec, [])

        def make() -> Operation:
            return Operation(spec, SourceFrontend(export, encoded, zeroed), plain)

        if key is None:
            return make()
        # Derivative rules get Python's numbers, which may differ where the bytes do not.
        numbers = exact_items(plain) if spec.is_differentiable else None
        return self._operations.find_or_make((key, zeroed, encoded, numbers), make)


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

    def __init__(
        self,
        label: str,
        name: str,
        path: Path,
        digest: str,
        functions: Sequence[ScannedFunction],
        *,
        language: str,
        graph: bool = True,
        carry: bool = False,
    ) -> None:
        self.name = name
        self.path = str(path)
        self.digest = digest
        self.content_hash = f"sha256:{digest[:16]}"
        library = open_library(path)
        carried = _read(path) if carry else b""
        self._functions: dict[str, SourceFunction] = {}
        for function in functions:
            found = library.exports.get(function.name)
            if found is None:
                found = Described("", _find(library, path, function.name), 0, 0, b"")
            elif function.place:  # built from its source
                function = compiled_types.check(
                    f"{label} {name!r}", function, found.types, language
                )
            export = Export(
                label=f"{label} '{name}.{function.name}'",
                module=name,
                digest=digest,
                function=function,
                cuda=language == "cuda",
                graph=graph,
                run=found.run,
                handler=found.handler,
                slot=found.slot,
                last_error=library.last_error,
                path=self.path,
                library=carried,
            )
            self._functions[function.name] = SourceFunction(export)
        with _lock:
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
        export = self.export(name)
        if not export.handler:
            raise KeyError(
                f"{self!r}: {name!r} has no handler, since kernbridge did not build it; call "
                f"module.{name}, or build the module with load_c_file or load_cpp_file [KB5104]"
            )
        export.bind(export.slot, f"{self.name}.{name}")
        return _core.handler_capsule(export.handler)

    def export(self, name: str) -> Export:
        """Return the function of a name, or raise KeyError."""
        return self[name]._export

    @hides_frames
    def __getattr__(self, name: str) -> SourceFunction:
        functions = self.__dict__.get("_functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(self._no_function(name))

    def _no_function(self, name: str) -> str:
        listed = ", ".join(self.__dict__.get("_functions", ())) or "none"
        return (
            f"module {self.__dict__.get('name')!r} has no function {name!r}; it has {listed}: "
            "correct the name, or annotate the function in the source [KB5104]"
        )

    def __getitem__(self, name: str) -> SourceFunction:
        if name not in self._functions:
            raise KeyError(self._no_function(name))
        return self._functions[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __repr__(self) -> str:
        return f"CompiledModule({self.path!r}, {self.function_names})"


def _find(library: Library, path: Path, name: str) -> int:
    try:
        return _core.find_symbol(library.handle, name)
    except LookupError as e:
        raise KernelError(
            f"{path} exports no function {name!r}; declare it "
            f'extern "C" int {name}(const kb_call *call)'
            " [KB5104]"
        ) from e


def resolve(digest: bytes, origin: dict[str, Any]) -> None:
    """Register what a program from another process calls, if its module is loaded here.

    ValueError is raised if the program describes no call of the function, or another one than that
    of the digest, under which it would be found from then on.
    """
    module = _modules.get(str(origin["digest"]))
    name, function = origin["module"], str(origin["function"])
    if module is None or function not in module.function_names:
        raise KernelError(
            f"the program calls the function {name}.{function}, which was built from source: load "
            f"its module {name!r} here, with the same sources, options and compiler, before the "
            "program is run"
            " [KB5107]"
        )
    codes = _core.dtypes()
    arrays = [(str(dtype), int(rank)) for dtype, rank in origin["arrays"]]
    values = tuple(bytes.fromhex(v) for v in origin["values"])
    zeroed, n_inputs = bool(origin.get("zeroed")), int(origin["n_inputs"])
    export = module.export(function)
    export.check(values, zeroed, arrays, n_inputs)
    buffers = tuple((codes[dtype][0], rank, "") for dtype, rank in arrays)
    if export.identity(values, zeroed, buffers, n_inputs) != digest:
        raise ValueError("its digest is that of another call")
    export.register(values, zeroed, buffers, n_inputs)
