"""Derivatives of functions of C and C++ modules, by Enzyme, as kernels of their own.

The module's translation unit is compiled once more, by clang and without vectorising loops,
together with a function of the form that enzyme/function.py describes, which calls the user's.
Attributes are constants of it. Imported only when a derivative is lowered.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernbridge._ext.enzyme import clang
from kernbridge._ext.enzyme import function as ir
from kernbridge._ext.enzyme.function import Buffer, Function, Refused
from kernbridge._ext.enzyme.guards import reinterprets, signature
from kernbridge._ext.enzyme.kernel import HostDerivativeJob, Kernel, Steps
from kernbridge._src.base.dtypes import BITS, DTYPES
from kernbridge._src.base.packing import HostCode
from kernbridge._src.calls.call import Call, Types
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.llvm.text import Module
from kernbridge._src.operation.derivatives import Differentiated, Differentiator
from kernbridge._src.operation.primitive import NativeCall
from kernbridge._src.source.frontend import SourceFrontend
from kernbridge._src.toolchain import compilers, library

_PRIMAL = "kb_primal"
_UNIT = """
#line 1 "kernbridge"
int kb_failed(const kb_call *call, int code, const char *format, ...);
void *_Znwm(size_t bytes); /* operator new, which Enzyme knows; kb_thrown.c frees it */
static void *kb_scratch_here(const kb_call *call, size_t bytes)
{{
    return _Znwm(bytes);
}}
static void kb_serial(const kb_call *call, int64_t count, kb_range_function *f, void *data)
{{
    if (count > 0)
        f(data, 0, count);
}}
/* Of complex numbers, without the rules for infinities. */
#define KB_COMPLEX(T, multiply, divide)                                             \
    __complex__ T multiply(T a, T b, T c, T d)                                      \
    {{                                                                               \
        return __builtin_complex(a * c - b * d, a * d + b * c);                     \
    }}                                                                               \
    __complex__ T divide(T a, T b, T c, T d)                                        \
    {{                                                                               \
        T x = c < 0 ? -c : c, y = d < 0 ? -d : d, r = x < y ? c / d : d / c;        \
        T n = x < y ? c * r + d : c + d * r;                                        \
        return x < y ? __builtin_complex((a * r + b) / n, (b * r - a) / n)          \
                     : __builtin_complex((a + b * r) / n, (b - a * r) / n);         \
    }}
KB_COMPLEX(float, __mulsc3, __divsc3)
KB_COMPLEX(double, __muldc3, __divdc3)
{attributes}
void kb_primal(int *status, void **exception, {parameters})
{{
    {dims}
    const kb_tensor inputs[] = {{{inputs}}};
    const kb_tensor outputs[] = {{{outputs}}};
    const void *const attributes[] = {{{listed}}};
    const kb_services services = {{sizeof services, KB_ABI, kb_failed, kb_scratch_here, kb_serial}};
    const kb_call call = {{sizeof call, KB_ABI, &services, 0, 0, 0, {n_inputs}, {n_outputs},
                          {n_attributes}, inputs, outputs, attributes}};
    *status = kb_run_{index}(&call);
}}
"""


class OfFunction(Differentiator):
    frontend: SourceFrontend

    @property
    def why_not(self) -> str:  # type: ignore[override]
        return "" if self.frontend.export.request else "there is no source to differentiate"

    def lower(self, platform: str, wanted: Differentiated) -> NativeCall:
        operands, call, steps, *_ = wanted
        if self.frontend.export.of_cuda:
            from kernbridge._ext.enzyme import cuda_cpp  # which needs more than functions in C do

            return cuda_cpp.lower_function(self.frontend, platform, wanted)
        return SourceDerivative(self.frontend, operands, call, steps).lowered(operands, call)


class SourceDerivative(HostDerivativeJob):
    """The compilation of a derivative of one function, given the types of a call."""

    kind = "source_derivative"
    by_clang = True

    def __init__(self, frontend: SourceFrontend, operands: Types, call: Call, steps: Steps) -> None:
        export, values, zeroed = frontend.export, frontend.values, frontend.zeroed
        self._export, self._values, self._zeroed = export, values, zeroed
        assert export.request is not None  # see `why_not`
        self._request = export.request
        self._arrays = [(t.dtype.name, len(t.shape)) for t in (*operands, *call.outs)]
        self._n_inputs, self._aliases = len(operands), call.aliases
        self.source = export.function.place or export.module
        kernel = f"{export.digest} {export.function.name}".encode()
        given = (tuple(values), zeroed, self._arrays, self._n_inputs, self._aliases)
        name = f"{export.module}.{export.function.name}"
        super().__init__(export.label, name, kernel, given, steps, lasting=True)

    def made_of(self) -> tuple[Any, ...]:
        return (*super().made_of(), clang.target())

    def compiled(self) -> Artefact:
        """Refuse sources whose headers have changed since; keep nothing if that is not known."""
        digest, folder = self._export.digest, Path(self._export.path).parent
        job = library.LibraryJob(self._request._replace(force_rebuild=False))
        found = library.find(job, folder.parents[2])
        self.lasting = found is not None and found.digest == digest
        noted = any(known["digest"] == digest for known in library.read(folder, job.key))
        if not self.lasting and (noted or found is not None):
            raise Refused("what its module includes has changed since it was loaded: load it again")
        return super().compiled()

    def primal(self) -> Kernel:
        for dtype, _ in self._arrays:
            if not ir.can_hold(dtype):
                raise Refused(f"it has arrays of {dtype}, whose numbers are bits to Enzyme")
        request = self._request
        assert request.finish is not None
        finished = request.finish()
        index = [function[0] for function in finished.notes].index(self._export.function.name)
        n, everywhere = self._n_inputs, range(len(self._arrays))
        zeroed = everywhere[n:] if self._zeroed else ()
        roles = ir.roles_of(n, len(everywhere), self._aliases, zeroed)
        buffers, places = ir.buffers_of(dict(enumerate(self._arrays)), roles)
        of_call = [places[i] for i in everywhere]
        unit = finished.source + self._unit(index, buffers, of_call)
        host = compilers.find_c() if request.language == "c" else compilers.find_cxx()
        flags = [
            "-std=c11" if request.language == "c" else "-std=c++17",
            *(f"-I{folder}" for folder in (*library.include_paths(), *request.include_paths)),
            *(*host.arguments, *finished.flags, *request.cflags),
        ]
        read = Module(clang.to_ir(unit, request.language, flags, host))
        if failed := read.functions.get("kb_failed"):
            failed.head = f'{signature(failed)} nofree "enzyme_inactive"'
        read = clang.simplified(str(read), _PRIMAL)
        if found := reinterprets(read, _PRIMAL, [b.is_inexact for b in buffers]):
            place = clang.place_of(read, found)
            raise Refused("it uses the bits of real numbers as integers", place)
        primal = read.functions[_PRIMAL]
        for k, said in enumerate(primal.parameters[2 : 2 + len(buffers)]):
            b = buffers[k]
            is_read = b.kind in ("in", "inout") or b.begins_as_zeros
            is_read |= "writeonly" not in said and "readnone" not in said
            if b.kind == "in" and "readonly" not in said and "readnone" not in said:
                b = b._replace(kind="work")
            buffers[k] = b._replace(is_read=is_read)
        head = primal.head[primal.head.index("void @") :]
        placed = head.replace(" local_unnamed_addr", " local_unnamed_addr alwaysinline", 1)
        primal.head = f"define internal {placed}"
        return ir.around(str(read), _PRIMAL, buffers, of_call[:n], of_call[n:]), None

    def _unit(self, index: int, buffers: Sequence[Buffer], of_call: Sequence[int]) -> str:
        """The end of the translation unit: a function of buffers that calls the user's."""
        parameters = [f"void *__restrict__ b{k}" for k in range(len(buffers))]
        parameters += [f"int64_t e{e}" for b in buffers for e in b.extents]
        dims, tensors = [], []
        for i, ((dtype, rank), k) in enumerate(zip(self._arrays, of_call, strict=True)):
            names, bits = [f"e{e}" for e in buffers[k].extents], BITS[dtype]
            dims.append(f"int64_t s{i}[{rank + 1}], t{i}[{rank + 1}];")
            for d, name in enumerate(names):  # one by one, since Enzyme knows no copy of constants
                dims.append(f"s{i}[{d}] = {name}, t{i}[{d}] = {' * '.join(names[d + 1 :]) or 1};")
            tensors.append(
                f"{{b{k}, {{KB_DEVICE_CPU, 0}}, {rank}, {{{DTYPES[dtype].dlpack}, {bits}, 1}}, "
                f"s{i}, t{i}, 0, KB_TYPE_{dtype.upper()}, 0, {' * '.join(names) or '1'}}}"
            )
        constants = [
            f"static const unsigned char kb_attribute_{k}[] __attribute__((aligned(16))) = "
            f"{{{', '.join(map(str, value))}}};"
            for k, value in enumerate(self._values)
        ]
        n = self._n_inputs
        unit = _UNIT.format(
            attributes="\n".join(constants),
            parameters=", ".join(parameters) or "int unused",
            dims="\n    ".join(dims),
            inputs=", ".join(tensors[:n]) or "{0}",
            outputs=", ".join(tensors[n:]) or "{0}",
            listed=", ".join(f"kb_attribute_{k}" for k in range(len(constants))) or "0",
            n_inputs=n,
            n_outputs=len(tensors) - n,
            n_attributes=len(constants),
            index=index,
        )
        return unit if self._request.language == "c" else f'\nextern "C" {{{unit}}}\n'

    def machine_code(self, function: Function, text: str) -> HostCode:
        text, name = ir.guarded(text, function.name, "icmp eq i32 %code, 0")
        return clang.machine_code(text, name)
