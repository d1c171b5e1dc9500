"""Launchers in CUDA C++ that are drawn: loops, branches, offsets, temporaries, fills and copies."""

import random

HEAD = r"""
#include <cuda_runtime.h>
#include <cstdint>
#include "kernbridge/kernbridge.hpp"
template <typename T> struct How { const T *from; T factor; int n; };
template <typename T> __global__ void mix(How<T> how, T *to) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < how.n) to[i] = to[i] * how.factor + (how.from[i] ^ T(i));
}
template <typename T> __global__ void turn(const T *from, T *to, int n, int by) {
  extern __shared__ unsigned char memory[];
  T *s = reinterpret_cast<T *>(memory);
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? from[i] : T(0);
  __syncthreads();
  if (i < n) to[i] += s[(threadIdx.x + by) % blockDim.x] + gridDim.x;
}
template <typename T> T *of(const kernbridge::Tensor &x) { return static_cast<T *>(x.data_ptr()); }
"""
TYPES = {"int32": "uint32_t", "int64": "uint64_t"}


class Drawn:
    """One launcher: its text, the dtype and the sizes of its arrays, and its attributes."""

    def __init__(self, number: int, seed: int) -> None:
        self.r = r = random.Random(f"{seed}.{number}")
        self.name = f"drawn_{number}"
        self.dtype = r.choice(list(TYPES))
        self.T = TYPES[self.dtype]
        self.inputs = [r.choice((1, 31, 257, 1000, 4099)) for _ in range(r.randint(1, 3))]
        self.outputs = [r.choice((1, 33, 300, 2048)) for _ in range(r.randint(1, 2))]
        self.attributes = {"a": r.randint(0, 5), "b": r.randint(1, 9)}
        self.lines = []
        self.readable = {f"x{i}": n for i, n in enumerate(self.inputs)}
        self.writable = {f"y{i}": n for i, n in enumerate(self.outputs)}
        self.freed = []
        for name, n in self.writable.items():
            self.fill(name, n)
        for _ in range(r.randint(2, 7)):
            self.step()

    @property
    def text(self) -> str:
        arrays = [*(("arg", n) for n in self.inputs), *(("ret", n) for n in self.outputs)]
        tokens = " ".join(f"{role}:{self.dtype}[{n}]" for role, n in arrays)
        names = [f"x{i}" for i in range(len(self.inputs))]
        names += [f"y{i}" for i in range(len(self.outputs))]
        parameters = ", ".join(f"{'const ' * (n[0] == 'x')}kernbridge::Tensor {n}_" for n in names)
        own = "".join(f"  {self.T} *{n} = of<{self.T}>({n}_);\n" for n in names)
        body = "".join(f"  {line}\n" for line in (*self.lines, *self.freed))
        return (
            f"// @BE {self.name} {tokens} attr.a:int32 attr.b:int32 stream\n"
            f"void {self.name}({parameters}, int a, int b, cudaStream_t stream) {{\n{own}{body}}}\n"
        )

    def fill(self, name: str, n: int) -> None:
        value = self.r.randint(0, 255)
        self.lines.append(f"cudaMemsetAsync({name}, {value}, {n} * sizeof({self.T}), stream);")

    def step(self) -> None:
        kind = self.r.choice(("mix", "mix", "turn", "turn", "copy", "temporary", "loop", "branch"))
        if kind == "temporary":
            name, n = f"t{len(self.freed)}", self.r.choice((7, 64, 500))
            order = self.r.random() < 0.5
            more = ", stream" if order else ""
            call = "cudaMallocAsync" if order else "cudaMalloc"
            self.lines.append(
                f"{self.T} *{name}; {call}((void **)&{name}, {n} * sizeof({self.T}){more});"
            )
            self.freed.append(f"cudaFree{'Async' * order}({name}{more});")
            self.fill(name, n)
            self.readable[name] = self.writable[name] = n
        elif kind == "loop":
            self.lines.append(f"for (int k = 0; k < {self.r.choice(('a', 'b', '3'))}; k++) {{")
            self.lines += ["  " + self.launch("k"), "}"]
        elif kind == "branch":
            self.lines += [f"if (a > {self.r.randint(0, 4)})", "  " + self.launch("b"), "else"]
            self.lines.append("  " + self.launch("a"))
        elif kind == "copy":
            to, source, n, at, begin = self.places()
            self.lines.append(
                f"cudaMemcpyAsync({to} + {at}, {source} + {begin}, {n} * sizeof({self.T}), "
                "cudaMemcpyDeviceToDevice, stream);"
            )
        else:
            self.lines.append(self.launch("a", kind))

    def places(self) -> tuple[str, str, int, int, int]:
        """An array to write to and another one to read, and how much of them from where."""
        to = self.r.choice(list(self.writable))
        readable = {**self.readable, **self.writable}
        source = self.r.choice([name for name in readable if name != to])
        n = self.r.randint(1, min(self.writable[to], readable[source]))
        at, begin = (self.r.randint(0, x - n) for x in (self.writable[to], readable[source]))
        return to, source, n, at, begin

    def launch(self, number: str, kind: str | None = None) -> str:
        to, source, n, at, begin = self.places()
        block = self.r.choice((32, 64, 100, 256))
        T, grid = self.T, f"({n} + {block - 1}) / {block}"
        if (kind or self.r.choice(("mix", "turn"))) == "mix":
            return (
                f"mix<{T}><<<{grid}, {block}, 0, stream>>>"
                f"(How<{T}>{{{source} + {begin}, {T}({number} + 3), {n}}}, {to} + {at});"
            )
        return (
            f"turn<{T}><<<{grid}, {block}, {block} * sizeof({T}), stream>>>"
            f"({source} + {begin}, {to} + {at}, {n}, {number});"
        )


def drawn(count: int, seed: int) -> tuple[str, list[Drawn]]:
    """A source with so many launchers, and their descriptions."""
    found = [Drawn(number, seed) for number in range(count)]
    return HEAD + "\n".join(d.text for d in found), found
