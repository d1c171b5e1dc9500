"""Writes operations in each front end, from one description of what they compute.

Each body applies a function to products, and is written once for loops of Numba, for threads of
Numba-CUDA, for C, and for threads of CUDA C++, and once for JAX, which is the referee.
"""

import zlib
from dataclasses import dataclass, field

from pair_table import CUDA_CPP, HALVES, NUMBA_CUDA, POINTERS

T = 4  # threads of a block
INPUTS = {
    "broadcasting": {"a": "n, m", "w": "m"},
    "row sums": {"a": "n, m", "w": "m"},
    "shared array": {"a": "n", "w": "m"},
    "atomics": {"a": "n", "w": "m", "at": "n"},
    "records": {"a": "n, 2"},
    "device variable": {"a": "n", "w": "m"},
    "only writes": {"a": "n"},
}
OUTPUT = {"broadcasting": "n, m", "atomics": "m", "device variable": "1"}
SIZES = {"n": 8, "m": 3, "2": 2, "1": 1}
C = {"float32": "float", "float64": "double", "int32": "int", "bool": "bool"}
SHORT = {"float32": "f32", "float64": "f64", "int32": "i32", "uint32": "u32", "bool": "bool"}
SHORT |= {"float16": "f16", "bfloat16": "bf16"}
REFERENCES = {
    "broadcasting": "{f}(a * w)",
    "row sums": "jnp.sum({f}(a * w), 1)",
    "shared array": "jnp.convolve({f}(a.astype(w.dtype)), w[::-1], 'same')",
    "atomics": "jnp.zeros_like(w).at[at].add({f}(a * w[at]))",
    "records": "{f}(jax.lax.bitcast_convert_type(a[:, 0], jnp.float32))",
    "device variable": "jnp.sum({f}(a.astype(w.dtype)))[None]",
    "only writes": "jnp.arange(a.size).astype(a.dtype)",
}


@dataclass
class Operation:
    """What a program asks of its operation, and names that follow from it."""

    chosen: dict
    result: str = "float32"  # the dtype of what the function returns
    order: list = field(default_factory=list)  # of the inputs in a signature
    sharded: bool = False

    def __post_init__(self):
        pick = self.chosen
        self.front, self.body = pick["front end"], pick["body"]
        self.memory, self.function = pick["memory"], pick["function"]
        self.has_signature = pick["description"] == "signature"
        self.is_static = pick["scalars"] == "static scalars"
        self.is_wrong = pick["care"] == "planted fault"
        self.has_bool = pick["scalars"] == "bool keyword"
        wide = "float64" if pick["dtypes"] == "mixed dtypes" else pick["dtypes"]
        narrow = "float32" if pick["dtypes"] == "mixed dtypes" else wide
        self.arrays = INPUTS[self.body]
        self.shape = OUTPUT.get(self.body, "n")
        self.dtypes = {"a": narrow, "w": wide, "at": "int32", "s": wide, "b": wide, "on": "bool"}
        if self.body == "records":
            self.dtypes["a"] = "uint32"
        self.out = wide
        self.inside = "float32" if wide in HALVES else wide  # what the kernel computes in
        self.has_fields = pick["arguments"] == "fields"
        self.is_linear = pick["linearity"] == "linear"
        if self.body == "only writes":
            self.out = self.dtypes["a"] = wide
        self.traced = [] if self.is_static else ["s", "b"]
        self.parameters = [*self.arrays, *self.traced]  # of the call, and of the reference
        self.also = (  # a second output, whose dtype is the function's
            self.front in ("kernel", "elementwise")
            and self.body == "broadcasting"
            and self.function != "written"
            and pick["rule"] != "Enzyme"
        )
        numbers = [*self.traced, *["on"] * self.has_bool]
        if self.has_signature:
            self.inputs = sorted([*self.arrays, *numbers], key=self.order.index)
        elif (
            pick["scalars"] == "by position"
            or self.front in ("kernel", "elementwise")
            or self.memory == "in place"  # inplace= makes a signature of the parameters
        ):
            self.inputs = [*self.arrays, *numbers]
        else:  # keywords of a kernel follow its arrays
            self.inputs = [*self.arrays, *sorted(numbers)]
        self.written = self.inputs  # the order of a signature, in which fields may stand apart
        if self.has_fields:
            first = [name in self.arrays or name for name in self.inputs]
            self.inputs = sorted(self.inputs, key=lambda x: first.index(x in self.arrays or x))
        number = zlib.crc32(repr([sorted(pick.items()), self.order]).encode())
        self.name = f"pair_{number:08x}"
        # A kernel of CUDA C++ needs a pointer of its own that it writes to.
        can = self.front in POINTERS or (self.front == "cuda_kernel" and self.memory != "in place")
        self.takes_structure = self.has_fields and can and number % 2 == 0

    @property
    def is_cuda(self):
        return self.front in NUMBA_CUDA or self.front in CUDA_CPP

    def is_real(self, name):
        return "float" in self.dtypes[name]

    # texts that the front ends share

    def merged(self, names, argument):
        """Return names of inputs, or of arguments, with one argument in place of its fields."""
        if not self.has_fields:
            return list(names)
        return list(dict.fromkeys(argument if n in self.arrays else n for n in names))

    def given(self):
        """Return the argument that has the arrays as its fields."""
        return f"Given({', '.join(f'{name}={name}' for name in self.arrays)})"

    def parameter(self, name):
        """Return the parameter of a kernel for an input."""
        return f"p_{name}" if self.has_fields and name in self.arrays else name

    def unpacked(self):
        """Return the line of Python that gives fields the names of arrays."""
        names = list(self.arrays)
        fields = ", ".join(f"p.{name}" for name in names)
        return [f"{', '.join(names)} = {fields}"] * self.has_fields

    def signature(self):
        """Return what the kernel takes and returns."""
        dot = [name.replace("p_", "p.") for name in map(self.parameter, self.written)]
        items = [f"{n}: {self._described(x)}" for n, x in zip(dot, self.written, strict=True)]
        if self.front in POINTERS:
            items += ["n", *["m"] * ("m" in "".join(self.arrays.values()))]
        out = f"{SHORT[self.out]}[{self.shape}]"
        if self.front == "kernel":
            results = [out, *[f"{SHORT[self.result]}[n, m]"] * self.also]
        elif self.memory == "in place":
            changed = self.parameter("a").replace("p_", "p.")
            results = [changed, *[f"out: {out}"] * (self.body == "records")]
            results *= 1 + (self.chosen["care"] == "twice in place")
        else:
            results = [f"out: {out}"]
        return f"{', '.join(items)} -> {', '.join(results)}"

    def _described(self, name):
        short = SHORT[self.dtypes[name]]
        if name in self.arrays:
            return f"{short}[{self.arrays[name]}]"
        return f"{short}[]" if self.front == "XLACustomKernel" else short

    def outs(self):
        """Return a function of the inputs that describes the outputs."""
        shape = {"n, m": "(a.shape[0], w.size)", "m": "w.shape", "1": "(1,)"}
        shape = shape.get(self.shape, "a.shape[:1]")
        if self.has_fields:
            for name in self.arrays:
                shape = shape.replace(f"{name}.s", f"p.{name}.s")
            return f"lambda p, *_, **__: S({shape}, jnp.{self.out})"
        return f"lambda a, w=None, *_, **__: S({shape}, jnp.{self.out})"

    def scale(self):
        is_array = (
            self.chosen["scalars"] == "by position"
            and not self.has_signature
            and self.memory != "in place"  # inplace= makes numbers of them, as a signature does
            and self.front not in ("kernel", "elementwise")
        ) or (self.front == "XLACustomKernel" and not self.is_static)
        s, b = ("s[()]", "b[()]") if is_array else ("s", "b")
        return (f"({s} if on else -{s})" if self.has_bool else s), b

    def applied(self, value):
        if self.is_linear:
            return value
        name = {"written": "math.sin", "inlined": "inlined"}.get(self.function, "f")
        return f"{name}({value})"

    def scaled(self, value):
        s, b = self.scale()
        return f"{value} * FACTOR * {s}" + f" + {b}" * (not self.is_linear)

    # the kernels of Numba

    def lines(self):
        """Return the body of a kernel of Numba or Numba-CUDA."""
        target = "a" if self.memory == "in place" and self.body != "records" else "out"
        at = "i"
        if self.is_wrong:
            at = "i // 2" if self.is_cuda else "1 + i"
        return getattr(self, "_" + self.body.replace(" ", "_"))(target, at)

    def _broadcasting(self, out, at):
        store = f"{out}[{at}, j] = {self.scaled(self.applied('a[i, j] * w[j]'))}"
        if self.front in NUMBA_CUDA:
            return ["i, j = cuda.grid(2)", f"if i < a.shape[0] and j < w.size: {store}"]
        return ["for i in range(a.shape[0]):", "    for j in range(w.size):", f"        {store}"]

    def _row_sums(self, out, at):
        rows = [
            f"total = {'np.float32(0)' if self.inside == 'float32' else '0.0'}",
            "for j in range(w.size):",
            f"    total += {self.applied('a[i, j] * w[j]')}",
            f"{out}[{at}] = {self.scaled('total')}",
        ]
        return self._each(rows)

    def _only_writes(self, out, at):
        return self._each([f"{out}[{at}] = {self.scaled('i')}"])

    def _each(self, rows):
        if self.front in NUMBA_CUDA:
            return ["i = cuda.grid(1)", "if i < a.shape[0]:", *_indented(rows)]
        return ["for i in range(a.shape[0]):", *_indented(rows)]

    def _records(self, out, at):
        changed = ["a[i].age += 1"] if self.memory == "in place" else []
        return self._each([f"{out}[{at}] = {self.scaled(self.applied('a[i].v'))}", *changed])

    def _shared_array(self, out, at):
        kind = f"numba.{self.out}"
        zero, item = f"{kind}(0)", self.applied(f"{kind}(a[{{}}])")
        return [
            f"tile = cuda.shared.array({T + 2}, {kind})",
            "i, t = cuda.grid(1), cuda.threadIdx.x",
            f"tile[t + 1] = {item.format('i')} if i < a.size else {zero}",
            "if t == 0:",
            f"    tile[0] = {item.format('i - 1')} if i > 0 else {zero}",
            f"if t == {T - 1}:",
            f"    tile[{T + 1}] = {item.format('i + 1')} if i + 1 < a.size else {zero}",
            *["cuda.syncthreads()"] * (not self.is_wrong),
            "if i < a.size:",
            f"    total = {zero}",
            "    for k in range(w.size):",
            "        total += w[k] * tile[t + k]",
            f"    {out}[i] = {self.scaled('total')}",
        ]

    def _atomics(self, out, at):
        s, b = self.scale()
        return [
            "i = cuda.grid(1)",
            "if i < a.size:",
            f"    v = {self.applied('a[i] * w[at[i]]')} * FACTOR * {s}",
            f"    {out}[at[i]] += v" if self.is_wrong else f"    cuda.atomic.add({out}, at[i], v)",
            "if i < w.size:",
            f"    cuda.atomic.add({out}, i, {b})",
        ]

    # JAX

    def reference(self):
        f = "jnp.sin" if self.function == "written" else "function"
        f = "" if self.is_linear else f
        value = REFERENCES[self.body].format(f=f)
        head = ", ".join([*self.arrays, "s=SCALE", "b=OFFSET", "on=True"])
        if self.memory == "in place" and self.body == "records":
            result = "a.at[:, 1].add(1), out"
        else:
            result = f"out, {f}(a * w)" if self.also else "out"
        plus = " + b" * (not self.is_linear)
        lines = [f"out = ({value} * FACTOR * s{plus}).astype({self.inside!r})", f"return {result}"]
        if self.inside == self.out:
            return "\n".join([f"def reference({head}):", *_indented(lines)])
        return "\n".join(
            [
                f"def inside({head}):",
                *_indented(lines),
                "",
                "",
                "def reference(*x, **named):",
                "    wide = lambda x: x.astype('float32') if h.is_real(x) else x",
                "    y = inside(*map(wide, map(jnp.asarray, x)), **jax.tree.map(wide, named))",
                f"    narrow = lambda y: y.astype({self.out!r}) if h.is_real(y) else y",
                "    return jax.tree.map(narrow, y)",
            ]
        )


def _indented(lines):
    return [f"    {line}" for line in lines]
