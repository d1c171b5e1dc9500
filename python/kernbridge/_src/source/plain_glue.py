"""The glue of functions of pointers and numbers, which signatures describe.

The compiler compares the type of each parameter with the signature. Each call finds the extents in
its arrays, checks that all arrays agree with them, and passes pointers and numbers.
"""

from __future__ import annotations

import itertools
import json
import re
import string
from collections.abc import Mapping

from kernbridge._src.base.dtypes import DTYPES
from kernbridge._src.scan.functions import ScannedFunction
from kernbridge._src.scan.plain import Passed
from kernbridge._src.signatures.array_types import LEADING, names_in

HEADER = '#include "kernbridge/plain.h"\n'
_RUNNER = """\
#line 1 "$glue:$name"
KB_HANDLER($i)
$types
static const signed char kb_types_$i[] = {'v', 0};
static int kb_${entry}_$i(const kb_call *call)
{
    const kb_tensor *const in = call->inputs, *const out = call->outputs;
    (void)in, (void)out;
$body
}
"""
_IN_CPP = """\
static int kb_run_$i(const kb_call *call)
{
    return kernbridge::detail::guard(call, [&]() -> int { return kb_call_$i(call); });
}
"""
_DETAIL = "kernbridge::detail"


def text_of(errors: Mapping[int, str] | str | None) -> str:
    """A function of C that returns the text of a code, or NULL."""
    cases, default, check = "", "0", ""
    if isinstance(errors, str):
        default = f"(&{errors})(code)"  # C takes a name without & for a function of ints
        check = f"typedef __typeof__(&{errors}) kb_text_function;\n"
        check += "KB_ASSERT_TEXT_OF(kb_text_function);\n"
    elif errors:
        cases = "".join(f"    case {code}: return {_quoted(t)};\n" for code, t in errors.items())
    return (
        f"{check}static const char *kb_text_of(int code)\n{{\n    switch (code) {{\n{cases}"
        f"    default: return {default};\n    }}\n}}\n"
    )


def runner(language: str, i: int, function: ScannedFunction, glue: str) -> str:
    made = _Runner(language, i, function)
    template, entry = (_RUNNER, "run") if made.in_c else (_RUNNER + _IN_CPP, "call")
    return string.Template(template).substitute(
        glue=glue, i=i, name=function.name, entry=entry, types=made.types(), body=made.body()
    )


class _Runner:
    def __init__(self, language: str, i: int, function: ScannedFunction) -> None:
        self.in_c, self.i, self.function = language == "c", i, function
        self.name = function.name if self.in_c else function.qualified
        results: list[Passed] = [p for p in function.passed if p.role in ("return", "nothing")]
        self.taken: list[Passed] = [p for p in function.passed if p not in results]
        self.result = results[0] if results else None
        replaced = {p.name: i for i, p in enumerate(function.having("arg"))}
        self.replaced = [replaced.get(p.name, -1) for p in function.having("ret")]

    def _type(self, k: int | str) -> str:
        return f"kb_{self.i}_{k}"

    def types(self) -> str:
        """The types of the parameters and of what is returned, which are compared."""
        n, kind, lines = len(self.taken), f"kb_{self.i}_returned", list[str]()
        types = [self._type(k) for k in range(n)]
        if self.in_c:
            # An array, such as double[2], is a pointer.
            as_pointers = (re.sub(r"\[[^\]]*\]", "(*)", p.ctype, count=1) for p in self.taken)
            spelled = [f"__typeof__({ctype})" for ctype in as_pointers]
            returned = f"__typeof__((&{self.name})({', '.join(f'*({t} *)0' for t in types)}))"
        else:
            signature = f"decltype({_DETAIL}::signature_of(&{self.name}))"
            spelled = [f"{_DETAIL}::parameter<{k}, {signature}>::type" for k in range(n)]
            of_signature = f"{_DETAIL}::returned<{signature}>"
            returned = f"{of_signature}::type"
            what = f"the compiler finds another number of parameters than {n}"
            lines.append(self._assert(f"int({of_signature}::n_parameters) == {n}", what))
        for k, p in enumerate(self.taken):
            checks = self._structure(k, p) if p.members else self._checks(types[k], k, p)
            lines += [f"typedef {spelled[k]} {types[k]};", *checks]
        lines.append(f"typedef {returned} {kind};")
        if self.in_c:
            taken = ", ".join(types) or "void"
            what = (
                "the compiler finds another declaration, behind #if or made by a macro; write out "
                "the one that is compiled"
            )
            same = f"__builtin_types_compatible_p(__typeof__(&{self.name}), {kind} (*)({taken}))"
            lines.append(self._assert(same, what))
        if self.result is None:
            what = (
                "it returns neither void, nor an int or an enumeration (0 for success), nor a text "
                "(NULL for success); name it as an output, such as -> return: f64"
            )
            lines.append(self._assert(f"KB_IS_STATUS({kind})", what))
        elif self.result.role == "return":
            what = f"it does not return {_spelled(self.result.dtype)}, which {self.result.what} is"
            number = f"KB_TYPE_{self.result.dtype.upper()}"
            lines.append(self._assert(f"KB_FITS_NUMBER_OF({kind}, {number})", what))
        return "\n".join(lines)

    def _structure(self, k: int, p: Passed) -> list[str]:
        """The types of a structure and of its members, all of which the signature must name."""
        kind, whole, bare = self._type(k), f"kb_whole_{self.i}_{k}", f"{_DETAIL}::bare"
        pointed = f"{bare}<std::remove_pointer_t<{bare}<{kind}>>>"
        if self.in_c:
            pointed = f"__typeof__({'*' * (p.look == 'pointer')}*({kind} *)0)"
        lines, names = [f"typedef {pointed} {whole};"], [name for name, _ in p.members]
        for name, member in p.members:
            lines.append(f"typedef __typeof__((({whole} *)0)->{name}) {kind}_{name};")
            lines += self._checks(f"{kind}_{name}", k, member)
        sizes = " + ".join(f"sizeof({kind}_{name})" for name in names)
        apart = [f"KB_APART({whole}, {a}, {b})" for a, b in itertools.combinations(names, 2)]
        what = f"parameter {k + 1}, {_declared(p)}, has other members than {', '.join(names)}, or "
        what += "bytes between them; name all members, or pass the arrays one by one"
        filled = " && ".join([f"{sizes} == sizeof({whole})", *apart])
        return [*lines, self._assert(filled, what)]

    def _checks(self, kind: str, k: int, p: Passed) -> list[str]:
        where, fits = f"parameter {k + 1}, {_declared(p)}, ", ""
        if p.look == "member":  # an array is a pointer, and a number a value
            where += "is missing, or of another type: it "
            letter = "!= 't'" if p.role in ("in", "out") else "== '?'"
            fits = f"KB_POINTER_LETTER({kind}) {letter} && "
        number = f"KB_TYPE_{p.dtype.upper()}" if p.dtype else "-1"
        if p.role in ("call", "stream"):
            return []
        if p.role == "extent":
            what = f"{where}receives the extent {p.what}; it must be an integer"
            return [self._assert(f"{fits}KB_FITS_EXTENT({kind})", what)]
        spelled = _spelled(p.dtype)
        if p.role == "number":
            what = f"{where}cannot be {p.what}, which is {spelled} or a pointer to it"
            what += "; correct the signature"
            return [self._assert(f"{fits}KB_FITS_NUMBER_OF({kind}, {number})", what)]
        what = f"{where}cannot be {p.what}, which is a pointer to {spelled}; correct the signature"
        checked = kind
        if self.in_c and p.ctype.count("[") > 1:  # elements of arrays of arrays
            element = re.sub(r"\[[^\]]*\]", "", p.ctype)
            checked = f"__typeof__({element} *)"
        checks = [self._assert(f"{fits}KB_FITS_ARRAY({checked}, {number})", what)]
        if p.role == "out":
            what = f"{where}is the output {p.what}, and must not be const"
            checks.append(self._assert(self._may_write(kind, p, tensors=True), what))
        return checks

    def _assert(self, condition: str, what: str) -> str:
        """What refuses a type when the glue is compiled; see `compiled_types.explain`."""
        return f"KB_ASSERT({condition}, {_quoted(f'[signature of {self.function.name}] {what}')});"

    def _may_write(self, kind: str, p: Passed, tensors: bool = False) -> str:
        """Whether a function can write to the elements of an array."""
        if self.in_c:
            never = p.constant or (p.look == "bytes" and not tensors)
            return "0" if never else f"KB_MAY_WRITE({kind})"
        tensor = f" || KB_POINTER_LETTER({kind}) == 't'" if tensors else ""
        return f"({_DETAIL}::may_write<{kind}>{tensor})"

    def body(self) -> str:
        lines = self._extents()
        given = [self._given(k, p, lines) for k, p in enumerate(self.taken)]
        called = f"(&{self.name})({', '.join(given)})"
        kind = f"kb_{self.i}_returned"
        if self.result is None:
            lines.append(f"return KB_STATUS({kind}, call, {called});")
        elif self.result.role == "nothing":
            lines += [f"{called};", "return 0;"]
        else:
            lines += [f"*({kind} *)out[{self.result.at}].data = {called};", "return 0;"]
        return "\n".join(f"    {line}" for line in lines)

    def _given(self, k: int | str, p: Passed, lines: list[str]) -> str:
        """The argument for a parameter; what is needed before the call is added to lines."""
        kind, given = self._type(k), f"{_DETAIL}::Given<{self._type(k)}>"
        if p.members:
            values = {name: self._given(f"{k}_{name}", m, lines) for name, m in p.members}
            listed = ", ".join(f".{name} = {value}" for name, value in values.items())
            lines.append(f"kb_whole_{self.i}_{k} kb_s{k} = {{{listed if self.in_c else ''}}};")
            if self.in_c:
                return f"{'&' * (p.look == 'pointer')}kb_s{k}"
            lines += [f"kb_s{k}.{name} = {value};" for name, value in values.items()]
            return f"{given}::extent(kb_s{k})"
        if p.role == "call":
            return "call"
        if p.role == "stream":
            return f"({kind})call->stream"
        if p.role == "extent":
            integer = f"{given}::integer"
            if self.in_c:
                integer = f"__typeof__(*({kind})0)" if p.look == "pointer" else kind
            value = _in_c(p.what)
            lines.append(f"typedef {integer} kb_integer_{k};")
            lines.append(f"kb_integer_{k} kb_e{k} = (kb_integer_{k})({value});")
            said = f'"%lld, which is {p.what}, is out of range for the parameter {p.name}"'
            lines.append(
                f"if (!KB_HOLDS(kb_integer_{k}, (int64_t)({value}))) return kb_fail(call, "
                f"KB_INVALID_ARGUMENT, {said}, (long long)({value}));"
            )
            if not self.in_c:
                return f"{given}::extent(kb_e{k})"
            return f"&kb_e{k}" if p.look == "pointer" else f"kb_e{k}"
        tensor = f"{'out' if p.role == 'out' else 'in'}[{p.at}]"
        if p.role == "number" and self.in_c and p.look != "pointer":
            return f"*({kind} *){tensor}.data"
        data = f"{tensor}.data"
        if p.role != "out":
            copied = f"{self._may_write(kind, p)} ? kb_copy(call, &{tensor}) : {data}"
            lines.append(f"void *kb_a{k} = {copied};")
            lines.append(
                f"if (!kb_a{k} && {tensor}.size) return kb_fail(call, KB_RESOURCE_EXHAUSTED, "
                f'"no memory for a copy of {p.name}");'
            )
            data = f"kb_a{k}"
        elif (i := self.replaced[p.at]) >= 0:  # a call by jax.ffi may not say so
            lines.append(
                f"if (in[{i}].data != {data}) memcpy({data}, in[{i}].data, kb_bytes(&{tensor}));"
            )
        if self.in_c:
            return f"(kb_tensor *)&{tensor}" if p.look == "bytes" else data
        return f'{given}::array(&{tensor}, {data}, "{p.name}")'

    def _extents(self) -> list[str]:
        """What finds the extents of a call in its arrays, and checks that they agree."""
        function = self.function
        ranks, found, checks = [], [], []
        dims: list[tuple[str, str | int]] = []
        for role, text in (("arg", "in"), ("ret", "out")):
            for i, p in enumerate(function.having(role)):
                assert p.array is not None
                array, shape, n = f"{text}[{i}]", p.array.dims, len(p.array.dims)
                is_open = LEADING in shape
                ranks.append(f"{array}.ndim {'>=' if is_open else '=='} {n - is_open}")
                for d, dim in enumerate(shape):
                    after = is_open and d > shape.index(LEADING)
                    place = f"{array}.ndim - {n - d}" if after else str(d)
                    if dim != LEADING:
                        dims.append((f"{array}.shape[{place}]", dim))
        known: set[str] = set()
        left: list[tuple[str, str | int]] = []
        for extent, dim in dims:
            if isinstance(dim, str) and dim.isidentifier() and dim not in known:
                known.add(dim)
                found.append(f"const int64_t kb_d_{dim} = {extent};")
            else:
                left.append((extent, dim))
        while left:
            later = []
            for extent, dim in left:
                names = names_in(dim) if isinstance(dim, str) else ()
                unknown = [n for n in names if n not in known]
                if len(unknown) > 1:
                    later.append((extent, dim))
                    continue
                if unknown:  # an expression of one unknown, of which it is a multiple and a sum
                    (name,) = unknown
                    at = [_in_c(re.sub(rf"\b{name}\b", str(x), str(dim))) for x in (0, 1)]
                    slope = f"(({at[1]}) - ({at[0]}))"
                    value = f"{slope} ? ({extent} - ({at[0]})) / {slope} : -1"
                    found.append(f"const int64_t kb_d_{name} = {value};")
                    checks.append(f"kb_d_{name} >= 0")
                    known.add(name)
                checks.append(f"{extent} == {_in_c(dim)}")
            if len(later) == len(left):
                break  # refused when the call is traced
            left = later
        said = f'"the arrays do not fit the signature %s", {_quoted(function.signature)}'
        refuse = f"return kb_fail(call, KB_INVALID_ARGUMENT, {said});"
        return [
            f"if (!({' && '.join(ranks)})) {refuse}",
            *found,
            *([f"if (!({' && '.join(checks)})) {refuse}"] if checks else []),
        ]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _in_c(dim: str | int) -> str:
    return re.sub(r"([A-Za-z_]\w*)", r"kb_d_\1", str(dim))


def _spelled(dtype: str) -> str:
    return DTYPES[dtype].c if dtype in DTYPES else "void"


def _declared(p: Passed) -> str:
    base, bracket, rest = p.ctype.partition("[")
    spelled = f"{base.rstrip()} {p.name}{bracket}{rest}".replace("* ", "*")
    return f"`{spelled.lstrip()}`"
