"""A module built from source, its functions, and their front end."""

from __future__ import annotations

import functools
import hashlib
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax

from kernbridge import _core
from kernbridge._src.base import debug
from kernbridge._src.base.errors import (
    KernelError,
    KernelLoadError,
    KernelRegistrationError,
    coded,
    counted,
)
from kernbridge._src.base.exact import exact_items
from kernbridge._src.base.html import table
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.options import read_flag
from kernbridge._src.base.reports import hide_frames, hides_frames
from kernbridge._src.base.struct import Struct
from kernbridge._src.keys.fingerprint import key_of
from kernbridge._src.operation import origin, signature
from kernbridge._src.operation.call_signature import CallSignature, ResultsOf
from kernbridge._src.operation.operation import Operation, spec_key
from kernbridge._src.operation.primitive import Differentiated, Frontend, NativeCall
from kernbridge._src.operation.sharding_rule import ShardingRule
from kernbridge._src.operation.signature import ScannedFunction
from kernbridge._src.operation.spec import ArrayType, Call, OperationSpec, rules_of

if TYPE_CHECKING:
    from kernbridge._src.operation.inspection import Inspection
    from kernbridge._src.toolchain.library import Request

ORIGIN = "source"  # kind of an origin, see operation/origin.py
_DTYPES = _core.dtypes()  # of each name: its code, and its bits
OPERATIONS_KEPT = 256  # of one function: outputs, options, attribute values
Buffers = tuple[tuple[int, int, str], ...]  # dtype, rank and name of inputs, then of outputs

# The latest of each content. Never released: a program from a file may name one, and its library,
# whose functions compiled programs call, is never closed.
_modules: dict[str, CompiledModule] = {}
# Public targets by name and platform: the slot of the handler that XLA has, and the content.
_targets: dict[tuple[str, str], tuple[int, tuple[object, ...]]] = {}
_lock = threading.Lock()


class Export(Struct):
    """A function of an open library: where it is, and how its calls are described."""

    label: str
    module: str
    digest: str  # of all that the module was built from
    function: ScannedFunction
    language: str
    graph: bool
    run: int
    handler: int
    slot: int
    last_error: int
    path: str  # of the library
    library: bytes = b""  # if exported programs hold it
    request: Request | None = None  # what it was built from, if there is a source
    # Of CUDA source: loads the function as it is compiled for the other of GPUs and the CPU.
    load_other: Callable[[], Export] | None = None

    @property
    def cuda(self) -> bool:
        """Whether the function runs on GPUs."""
        return self.language == "cuda"

    @property
    def of_cuda(self) -> bool:
        """Whether its source is CUDA C++."""
        return self.language in ("cuda", "cuda_on_cpu")

    def bind(self, slot: int, target: str) -> None:
        function = self.function
        _core.bind_slot(
            slot,
            f"{self.label.split(' ')[0]} {target!r}",
            -1 if function.takes_any else len(function.having("arg")),
            -1 if function.takes_any else len(function.having("ret")),
            tuple((a.name, _DTYPES[a.type][0]) for a in function.attributes),
            tuple(_DTYPES[d.dtype][0] if d and d.dtype else 0 for d in function.declared),
            self.run,
            self.last_error,
            self.cuda,
            self.graph,
        )


class SourceFrontend(Frontend):
    """One function with the values of its attributes, as a front end."""

    def __init__(self, export: Export, values: tuple[bytes, ...], zeroed: bool) -> None:
        self.label = export.label
        self.name = export.function.name
        self.function = export.function
        self.platforms: tuple[str, ...] = ("cpu",)
        if export.of_cuda:
            from kernbridge._src.plan.targets import gpu_platforms

            self.of_gpus = gpu_platforms()
            on_cpu = ("cpu",) if export.load_other else ()
            self.platforms = tuple(dict.fromkeys((*self.of_gpus, *on_cpu)))
        self.export = export
        self.values = values
        self.zeroed = zeroed
        self.differentiates = export.request is not None and not export.of_cuda
        if not self.differentiates:
            self.why_not_differentiated = (
                "Enzyme does not differentiate CUDA C++"
                if export.of_cuda
                else "there is no source to differentiate"
            )

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return self.function.parameter_names

    def buffer_names(self, n_inputs: int, scalars: Sequence[str], n_outputs: int) -> Sequence[str]:
        function = self.function
        inputs = [p.name for p in function.having("arg")][:n_inputs]
        missing = [""] * (n_inputs + len(scalars) - len(inputs))
        return (*inputs, *missing, *function.output_names)

    def check(self, operands: Sequence[ArrayType], call: Call) -> None:
        """Refuse a wrong number of inputs or outputs, and dtypes that no kernel has."""
        inputs, outs = operands, call.outs
        if call.scalars and not self.function.signature:
            raise TypeError(
                f"{self.label} has no keyword {call.scalars[0]!r}; pass the values of attributes "
                "where the operation is made, as attrs= [KB2006]"
            )
        if not self.function.takes_any:
            for what, given, role in (("input", inputs, "arg"), ("output", outs, "ret")):
                expected = len(self.function.having(role))
                if len(given) != expected:
                    where, remedy = "the call has", f"pass {counted(expected, 'array')}"
                    if role == "ret":
                        where, remedy = "`outs` describes", f"describe {expected} in `outs`"
                    raise TypeError(
                        f"{self.label} has {counted(expected, what)} ({self.function.tokens}), but "
                        f"{where} {len(given)}; {remedy} [KB2001]"
                    )
            self.function.check_arrays(self.label, inputs, call)
        for what, arrays in (("input", inputs), ("output", outs)):
            for i, array in enumerate(arrays):
                if array.dtype.name not in _DTYPES:
                    raise ValueError(
                        f"{self.label}: {what} {i} is {array.dtype.name}, which XLA cannot pass "
                        "to kernels; pass its bits as an integer array [KB2003]"
                    )
        for i, array in enumerate(outs if self.zeroed else ()):
            if _DTYPES[array.dtype.name][1] < 8:
                raise ValueError(
                    f"{self.label}: output {i} is {array.dtype.name}, whose elements are not "
                    "whole bytes, so zero_outputs=True cannot fill it; write every element "
                    "instead [KB2003]"
                )

    def check_described(self, arrays: Sequence[tuple[str, int]], n_inputs: int) -> None:
        """Raise ValueError if a call that a program describes is none of this function.

        The function reads its arguments and attributes without looking at their number or size.
        `arrays` are the dtype and the rank of each, which may have batch axes.
        """
        function, known = self.function, self.function.attributes
        counts = n_inputs, len(arrays) - n_inputs
        expected = len(function.having("arg")), len(function.having("ret"))
        if min(counts) < 0 or (not function.takes_any and counts != expected):
            raise ValueError(
                f"{counts[0]} inputs and {counts[1]} outputs, and the function has {expected[0]} "
                f"and {expected[1]}"
            )
        if len(self.values) != len(known):
            raise ValueError(f"{len(self.values)} attributes, and the function has {len(known)}")
        for array, (dtype, rank) in zip(function.declared, arrays, strict=not function.takes_any):
            if array is not None and not array.fits(dtype, rank, batched=True):
                raise ValueError(f"an array of {dtype} of rank {rank}, declared as {array}")
        for attribute, value in zip(known, self.values, strict=True):
            size = signature.size_of(attribute.type)
            if len(value) != size:
                raise ValueError(
                    f"attribute {attribute.name!r} of {len(value)} bytes, expected {size}"
                )
        for dtype, _ in arrays[n_inputs:] if self.zeroed else ():
            if _DTYPES[dtype][1] < 8:
                raise ValueError(f"it zeroes an output of {dtype}")

    def identity(self, buffers: Buffers, n_inputs: int) -> bytes:
        export, kinds = self.export, tuple((dtype, rank) for dtype, rank, _ in buffers)
        identity = f"{export.digest} {self.name}".encode()
        made_of = ("kernbridge.source", identity, self.values, kinds, n_inputs, export.cuda)
        options = ("zeroed",) if self.zeroed else ()
        return hashlib.sha256(repr((*made_of, *options)).encode()).digest()

    def register(self, buffers: Buffers, n_inputs: int) -> bytes:
        """Register the function for a call, and return the call's identity."""
        digest, export = self.identity(buffers, n_inputs), self.export
        if _core.kernel_name(digest) is None:
            _core.register_source(
                digest,
                self.label,
                "",
                n_inputs,
                len(buffers) - n_inputs,
                buffers,
                export.run,
                export.last_error,
                export.cuda,
                self.values,
                self.zeroed,
            )
        return digest

    def lower(self, platform: str, operands: Sequence[ArrayType], call: Call) -> NativeCall:
        export, arrays, n_inputs = self.export, (*operands, *call.outs), len(operands)
        if export.of_cuda and platform not in self.of_gpus:
            from kernbridge._src.toolchain import cuda

            cuda.tell_of_cpu(self.label)
        if export.load_other and export.cuda != (platform in self.of_gpus):
            other = SourceFrontend(export.load_other(), self.values, self.zeroed)
            return other.lower(platform, operands, call)
        names = self.function.names_of(n_inputs, len(call.outs))
        buffers = tuple(
            (_DTYPES[t.dtype.name][0], len(t.shape), name)
            for t, name in zip(arrays, names, strict=True)
        )
        digest = self.register(buffers, n_inputs)
        on_gpu = "kernbridge.cuda.graph" if export.graph else "kernbridge.cuda"
        return NativeCall(
            target=on_gpu if export.cuda else debug.host_target(),
            digest=digest,
            key=key_of(digest),
            origin=origin.write(
                ORIGIN,
                module=export.module,
                digest=export.digest,
                function=self.name,
                values=[v.hex() for v in self.values],
                arrays=[(t.dtype.name, len(t.shape)) for t in arrays],
                n_inputs=n_inputs,
                zeroed=self.zeroed,
            ),
            copied=(),
            why_not_portable="",
            program=self._program(digest, buffers, n_inputs) if export.library else b"",
        )

    def lower_derivative(self, platform: str, wanted: Differentiated) -> NativeCall:
        from kernbridge._src.operation import automatic
        from kernbridge._src.source.derivative import SourceDerivative

        operands, call, steps, *_ = wanted
        job = SourceDerivative(self.export, self.values, self.zeroed, operands, call, steps)
        return automatic.lowered(job, operands, call)

    def _program(self, digest: bytes, buffers: Buffers, n_inputs: int) -> bytes:
        """Return the library with the description of a call: see src/module/kb_library.h."""
        from kernbridge._src.base.packing import fields, sealed

        parts = (
            fields(self.label, ""),
            struct.pack("<III", n_inputs, len(buffers) - n_inputs, 0),
            *(fields(*buffer) for buffer in buffers),
            fields(self.name),
            struct.pack("<II", self.zeroed, len(self.values)),
            fields(*self.values, self.export.library),
        )
        return sealed(_core.LIBRARY_MAGIC, _core.LIBRARY_VERSION, digest, b"".join(parts))

    def inspect(self, operands: Sequence[ArrayType], call: Call) -> tuple[Inspection, ...]:
        raise KernelError(
            f"{self.label} was compiled by another program; objdump -d {self.export.path} "
            "disassembles it [KB2106]"
        )


class Described(Struct):
    """The description of one function in a library that kernbridge built."""

    tokens: str
    run: int
    handler: int
    slot: int
    types: bytes  # see `compiled_types.py`


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


class SourceFunction:
    """A function of a module, to be called as an operation.

    It is called as ``module.function(*inputs, outs=..., attribute=...)``. Inputs are arrays, and
    attributes are numbers that are known at trace time. A function with a signature is called with
    the inputs of the signature, by position or by name, and needs no `outs`. It works under
    `jax.jit`, `jax.vmap` and the other transformations, like an operation of `numba_kernel`.
    """

    __module__ = "kernbridge"

    def __init__(self, export: Export) -> None:
        self._export = export
        self._operations: LRUCache[Operation] = LRUCache(OPERATIONS_KEPT)
        self._signature: CallSignature | None = None
        self.__name__ = export.function.name
        if text := export.function.signature:
            names = list(dict.fromkeys(p.name for p in export.function.parameters))
            self._signature = CallSignature.read(export.label, text, None, names, ())
            assert self._signature is not None
            self.__signature__ = self._signature.python
        self._outs = None if text else _declared_outs(export)

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
        jvp: Callable[..., Any] | Literal["enzyme"] | None = None,
        vjp: Callable[..., Any] | Literal["enzyme"] | None = None,
        derivatives: Literal["enzyme"] | None = None,
        sharding_rule: str | ShardingRule | bool | None = None,
        **attributes: Any,
    ) -> Any:
        named: dict[str, Any] = {}
        if self._signature is not None:
            named, attributes = attributes, {}
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
                derivatives=derivatives,
                sharding_rule=sharding_rule,
            )
            return operation(*inputs, **named)
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
        jvp: Callable[..., Any] | Literal["enzyme"] | None = None,
        vjp: Callable[..., Any] | Literal["enzyme"] | None = None,
        derivatives: Literal["enzyme"] | None = None,
        sharding_rule: str | ShardingRule | bool | None = None,
    ) -> Operation:
        """Return the operation for these outputs and attributes; call it with the inputs only.

        Parameters
        ----------
        outs, vmap_method, input_output_aliases, has_side_effect, jvp, vjp, derivatives, \
sharding_rule
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
            Values of the attributes, which are the same for all parts of a call that is split.

        Returns
        -------
        Operation
            The operation. Equal arguments return the same operation, as long as it is cached.
        """
        export, attrs = self._export, attrs or {}
        zeroed = read_flag(export.label, "zero_outputs", zero_outputs)
        if outs is ... and self._outs is not None:
            outs = self._outs
        elif outs is ... and self._signature is None:
            raise TypeError(
                f"{export.label} ({self.tokens}) needs outs=, the shape and the dtype of each "
                "output; pass outs=jax.ShapeDtypeStruct(shape, dtype), or a list of them [KB1002]"
            )
        if zeroed and export.of_cuda:
            raise TypeError(
                f"{export.label}: zero_outputs=True is for C and C++; fill the outputs in the "
                "function, with cudaMemsetAsync on its stream"
                " [KB5105]"
            )
        known = export.function.attributes
        spec = OperationSpec(
            export.label,
            outs,
            vmap_method,
            input_output_aliases,
            has_side_effect,
            *rules_of(export.label, jvp, vjp, derivatives),
            [a.name for a in known],
            sharding_rule,
            vmap_threads,
            self._signature,
        )
        signature.check_names(export.label, known, attrs)
        encoded = tuple(signature.encode(export.label, a, attrs[a.name]) for a in known)
        plain, key = signature.plain(attrs), spec_key(spec, [])

        def make() -> Operation:
            made = Operation(spec, SourceFrontend(export, encoded, zeroed), plain)
            if self._signature is not None:
                vars(made).update(__signature__=self.__signature__)
            return made

        if key is None:
            return make()
        # Derivative rules get Python's numbers, which may differ where the bytes do not.
        numbers = exact_items(plain) if spec.is_differentiable else None
        return self._operations.find_or_make((key, zeroed, encoded, numbers), make)


def _declared_outs(export: Export) -> ResultsOf | None:
    """What `arg` and `ret` declare of the outputs; None if that is not all."""
    declared = export.function.declared
    if None in declared or not declared:
        return None
    types, n = list(map(str, declared)), len(export.function.having("arg"))
    names = [f"input{i}" for i in range(n)]
    given = ", ".join(f"{name}: {t}" for name, t in zip(names, types[:n], strict=True))
    try:
        return ResultsOf.read(export.label, f"{given} -> {', '.join(types[n:])}", names)
    except ValueError:  # such as a dimension that no input has
        return None


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
    load_other: Callable[[], CompiledModule] | None = None
    _functions: dict[str, SourceFunction] = {}  # noqa: RUF012 - before a module is complete

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
        request: Request | None = None,
    ) -> None:
        self.name = name
        self.path = str(path)
        self.digest = digest
        self.content_hash = f"sha256:{digest[:16]}"
        handle, last_error, exports = open_library(path)
        try:
            carried = path.read_bytes() if carry and language != "cuda" else b""
        except OSError as e:
            why = f"{e}.{_hint(str(e), path)}"
            raise KernelLoadError(f"{path} cannot be read: {why} [KB5102]") from e
        self._functions = {}
        for function in functions:
            found = exports.get(function.name)
            if found is None:
                found = Described("", _find(handle, path, function.name), 0, 0, b"")
            elif function.place and not (function.passed or _fits(function, found.types)):
                from kernbridge._src.source import compiled_types

                function = compiled_types.check(
                    f"{label} {name!r}", function, found.types, language
                )
            export = Export(
                label=f"{label} '{name}.{function.name}'",
                module=name,
                digest=digest,
                function=function,
                language=language,
                graph=graph,
                run=found.run,
                handler=found.handler,
                slot=found.slot,
                last_error=last_error,
                path=self.path,
                library=carried,
                request=request,
                load_other=functools.partial(self._other, function.name)
                if request is not None and language in ("cuda", "cuda_on_cpu")
                else None,
            )
            self._functions[function.name] = SourceFunction(export)
        _modules[digest] = self

    def _other(self, name: str) -> Export:
        """The function as it is compiled for the other of GPUs and the CPU."""
        assert self.load_other is not None
        return self.load_other()[name]._export

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
        if not export.handler:
            raise KeyError(
                f"{self!r}: {name!r} has no handler, since kernbridge did not build it; call "
                f"module.{name}, or build the module with load_c_file or load_cpp_file [KB5104]"
            )
        export.bind(export.slot, f"{self.name}.{name}")
        return _core.handler_capsule(export.handler)

    @hides_frames
    def __getattr__(self, name: str) -> SourceFunction:
        if name in self._functions:
            return self._functions[name]
        raise AttributeError(self._no_function(name))

    def _no_function(self, name: str) -> str:
        return (
            f"module {self.name!r} has no function {name!r}; it has "
            f"{', '.join(self._functions) or 'none'}: correct the name, or annotate the function "
            "in the source [KB5104]"
        )

    def __getitem__(self, name: str) -> SourceFunction:
        if name not in self._functions:
            raise KeyError(self._no_function(name))
        return self._functions[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __repr__(self) -> str:
        listed = (f"  {name}({f.tokens})" for name, f in self._functions.items())
        return "\n".join([f"<module {self.name!r}: {self.path}>", *listed])

    def _repr_html_(self) -> str:
        rows = [(name, function.tokens) for name, function in self._functions.items()]
        return table(f"module {self.name!r}: {self.path}", ("function", "parameters"), rows)


def _fits(function: ScannedFunction, types: bytes) -> bool:
    """Whether every type is known, and is what the annotation says: see `compiled_types.check`."""
    n_parameters = 1 if function.whole_call else len(function.parameters)
    return (
        len(types) == n_parameters + 1
        and max(types) < 128
        and types[:1] in (b"v", b"G")
        and all(a.type for a in function.attributes)
    )


def _find(handle: int, path: Path, name: str) -> int:
    try:
        return _core.find_symbol(handle, name)
    except LookupError as e:
        raise KernelError(
            f"{path} exports no function {name!r}; declare it "
            f'extern "C" int {name}(const kb_call *call)'
            " [KB5104]"
        ) from e


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
            "program is run"
            " [KB5107]"
        )
    arrays = [(str(dtype), int(rank)) for dtype, rank in origin["arrays"]]
    values = tuple(bytes.fromhex(v) for v in origin["values"])
    frontend = SourceFrontend(module[function]._export, values, bool(origin.get("zeroed")))
    n_inputs = int(origin["n_inputs"])
    frontend.check_described(arrays, n_inputs)
    buffers = tuple((_DTYPES[dtype][0], rank, "") for dtype, rank in arrays)
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
        slot, before = _targets.get(key, (export.slot, None))
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
            capsule = _core.handler_capsule(export.handler)
            jax.ffi.register_ffi_target(target_name, capsule, platform=platform)
        _targets[key] = (slot, content)
    if before is not None:
        jax.clear_caches()


def list_registered_targets() -> list[str]:
    """Return the names of the public targets, sorted."""
    with _lock:
        return sorted({name for name, _ in _targets})
