"""Writes the functions of C, C++ and CUDA C++ of an operation."""

from pair_kernels import SHORT, C, Operation, T

HEADS = {
    "load_c": "#include <math.h>\n#include <stdbool.h>\n",
    "load_binary": "#include <math.h>\n#include <stdbool.h>\n",
    "load_cpp": "#include <cmath>\nusing std::sin;\n",
    "load_cpp of tensors": '#include "kernbridge/kernbridge.hpp"\n#include <cmath>\n',
    "load_cuda": '#include <cuda_runtime.h>\n#include "brainevent/common.h"\n',
    "cuda_kernel": "",
}
LOOPS = {
    "broadcasting": """
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) out[AT(i) * m + j] = VALUE(sin(1.0 * a[i * m + j] * w[j]));""",
    "row sums": """
    for (int i = 0; i < n; i++) {
        OUT total = 0;
        for (int j = 0; j < m; j++) total += sin(1.0 * a[i * m + j] * w[j]);
        out[AT(i)] = VALUE(total);
    }""",
    "only writes": """
    for (int i = 0; i < n; i++) out[AT(i)] = VALUE(i);""",
}
THREADS = {
    "broadcasting": """
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < n && j < m) out[AT(i) * m + j] = VALUE(sin(1.0 * a[i * m + j] * w[j]));""",
    "row sums": """
    if (i < n) {
        OUT total = 0;
        for (int j = 0; j < m; j++) total += sin(1.0 * a[i * m + j] * w[j]);
        out[AT(i)] = VALUE(total);
    }""",
    "only writes": """
    if (i < n) out[AT(i)] = VALUE(i);""",
    "shared array": f"""
    __shared__ OUT tile[{T + 2}];
    int t = threadIdx.x;
    tile[t + 1] = i < n ? sin(1.0 * a[i]) : 0;
    if (t == 0) tile[0] = i > 0 ? sin(1.0 * a[i - 1]) : 0;
    if (t == {T - 1}) tile[{T + 1}] = i + 1 < n ? sin(1.0 * a[i + 1]) : 0;
    BARRIER;
    if (i < n) {{
        OUT total = 0;
        for (int k = 0; k < m; k++) total += w[k] * tile[t + k];
        out[AT(i)] = VALUE(total);
    }}""",
    "atomics": """
    if (i < n) ADD(&out[at[i]], OUT(sin(1.0 * a[i] * w[at[i]]) * FACTOR * s));
    if (i < m) atomicAdd(&out[i], b);""",
    "device variable": """
    __shared__ OUT sums[32];
    __shared__ bool last;
    OUT sum = 0;
    for (int k = i; k < n; k += blockDim.x * gridDim.x) sum += sin(1.0 * a[k]);
    sums[threadIdx.x] = sum;
    BARRIER;
    if (threadIdx.x == 0) {
        sum = 0;
        for (int k = 0; k < 32; k++) sum += sums[k];
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(&done, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        sum = 0;
        for (int k = 0; k < gridDim.x; k++) sum += parts[k];
        out[0] = VALUE(sum);
        done = 0;
    }""",
}
ZERO = """
__global__ void zero(OUT *out, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m) out[i] = 0;
}"""
N_BLOCKS = 64


def _defined(op: Operation):
    """Return the macros of a source; a planted fault is an index, or a race of threads."""
    wrong = op.chosen["care"] == "planted fault"
    at = ("(i) / 2" if op.is_cuda else "1 + (i)") if wrong else "(i)"
    scale = "(on ? s : -s)" if op.has_bool else "s"
    macros = {
        "FACTOR": "{FACTOR}",
        "OUT": C[op.out],
        "VALUE(v)": f"((v) * FACTOR * {scale}{' + b' * (not op.is_linear)})",
        "AT(i)": f"({at})",
        "ADD(p, v)": "(*(p) += (v))" if wrong else "atomicAdd(p, v)",
        "BARRIER": "" if wrong else "__syncthreads()",
    }
    used = [f"#define {name} {text}\n" for name, text in macros.items()]
    return HEADS[op.front] + "".join(used if op.is_cuda else used[:4])


def function_of_pointers(op: Operation):
    """Return the source of a function that a signature describes, and its declaration."""
    parameters = []
    in_place = op.memory == "in place"
    for name in op.inputs:
        array = f"{_pointed(op, name)} *{op.parameter(name)}"
        parameters.append(array if name in op.arrays else f"{C[op.dtypes[name]]} {name}")
    parameters = _with_structure(op, parameters, len(op.arrays))
    parameters += ["int n", *["int m"] * ("w" in op.arrays)]
    parameters += [] if in_place else [f"{C[op.out]} *out"]
    head = f"void f({', '.join(parameters)})"
    alias = _named_as_arrays(op)
    alias += f"    {C[op.out]} *out = a;\n" if in_place else ""
    comment = "" if op.front == "load_binary" else f"// @BE f {op.signature()}\n"
    body = f"{head} {{\n{alias}{_applied(op, LOOPS)[1:]}\n}}\n"
    return f"{_defined(op)}{_structure(op)}{comment}{body}", f"{_structure(op)}{head};"


def _applied(op, bodies):
    return bodies[op.body].replace("sin(1.0 * ", "(1.0 * ") if op.is_linear else bodies[op.body]


def _named_as_arrays(op):
    """Return lines that give parameters for fields the names of arrays."""
    mark = "." if op.takes_structure else "_"
    lines = [f"    {_pointed(op, name)} *{name} = p{mark}{name};\n" for name in op.arrays]
    return "".join(lines) if op.has_fields else ""


def _pointed(op, name):
    return f"{'' if name == 'a' and op.memory == 'in place' else 'const '}{C[op.dtypes[name]]}"


def _structure(op):
    """Return the structure that has the fields as members, in another order than the signature."""
    members = [f"{_pointed(op, name)} *{name};" for name in sorted(op.arrays, reverse=True)]
    return f"struct given {{ {' '.join(members)} }};\n" * op.takes_structure


def _with_structure(op, parameters, n_arrays):
    """Return parameters with a structure in place of the fields, which follow each other."""
    if not op.takes_structure:
        return parameters
    at = next(i for i, p in enumerate(parameters) if "*p_" in p)
    return [*parameters[:at], "struct given p", *parameters[at + n_arrays :]]


def function_of_tensors(op: Operation):
    """Return the source of a function of tensors: a loop, or a launch."""
    is_cuda = op.front == "load_cuda"
    space = "BE" if is_cuda else "kernbridge"
    parameters = [f"const {space}::Tensor {name}" for name in op.arrays]
    parameters += [f"{space}::Tensor out", f"{C[op.out]} s", f"{C[op.out]} b"]
    parameters += ["int64_t stream"] * is_cuda
    types = [f"arg:{SHORT[op.dtypes[name]]}[{shape}]" for name, shape in op.arrays.items()]
    tokens = " ".join([*types, "ret", "attr.s", "attr.b", *["stream"] * is_cuda])
    kinds = {name: C[op.dtypes[name]] for name in op.arrays} | {"out": C[op.out]}
    pointers = [f"{name}.data_ptr<{kind}>()" for name, kind in kinds.items()]
    given = ", ".join([*pointers, "n", "m", "s", "b"])
    sizes = f"int n = a.shape(0), m = {'w.shape(0)' if 'w' in op.arrays else 0};\n"
    head = f"// @BE f {tokens}\nvoid f({', '.join(parameters)}) {{\n    {sizes}"
    if not is_cuda:
        kinds = ", ".join(f"class {name.upper()}" for name in [*op.arrays, "out_"])
        taken = ", ".join(f"{name.upper()} {name.rstrip('_')}" for name in [*op.arrays, "out_"])
        taken = f"{taken}, int n, int m, {C[op.out]} s, {C[op.out]} b"
        loop = f"template <{kinds}> static void loop({taken}) {{{_applied(op, LOOPS)}\n}}\n"
        return f"{_defined(op)}{loop}{head}    loop({given});\n}}\n"
    blocks = {"broadcasting": f"dim3((n + 3) / 4, (m + 3) / 4), dim3(4, {T})"}
    launch = blocks.get(op.body, f"{N_BLOCKS}, 32" if "device" in op.body else f"(n + 3) / 4, {T}")
    end = f"    kernel<<<{launch}, 0, (cudaStream_t)stream>>>({given});\n}}\n"
    zero = f"    zero<<<1, {T}, 0, (cudaStream_t)stream>>>({pointers[-1]}, m);\n"
    before, first = (ZERO[1:] + "\n", zero) if op.body == "atomics" else ("", "")
    return f"{_defined(op)}{before}{kernel_of_threads(op)}{head}{first}{end}"


def kernel_of_threads(op: Operation):
    """Return the source of a CUDA kernel."""
    in_place = op.memory == "in place"
    parameters = [f"{_pointed(op, name)} *{op.parameter(name)}" for name in op.arrays]
    parameters = _with_structure(op, parameters, len(op.arrays))
    parameters += [] if in_place else [f"{C[op.out]} *out"]
    parameters += ["int n", "int m", f"{C[op.out]} s", f"{C[op.out]} b"]
    if op.front == "cuda_kernel" and op.has_signature and "w" not in op.arrays:
        parameters.remove("int m")
    lines = [f"__global__ void kernel({', '.join(parameters)}) {{"]
    lines += [_named_as_arrays(op)] * op.has_fields
    lines += [f"    {C[op.out]} *out = a;"] * in_place
    lines += ["    int i = blockIdx.x * blockDim.x + threadIdx.x;"]
    variables = f"__device__ unsigned done = 0;\n__device__ OUT parts[{N_BLOCKS}];\n"
    extern = 'extern "C" ' if op.front == "cuda_kernel" else ""
    text = _structure(op) + extern + "\n".join(lines) + _applied(op, THREADS) + "\n}\n"
    text = (variables if op.body == "device variable" else "") + text
    return f"{_defined(op)}{text}" if op.front == "cuda_kernel" else text
