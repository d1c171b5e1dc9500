"""Writes the part of a program that makes its operation, as text of Python."""

from pair_kernels import Operation, T
from pair_sources import N_BLOCKS, function_of_pointers, function_of_tensors, kernel_of_threads
from pair_table import CUDA_CPP, POINTERS, TENSORS

RULES = """
def pulled(given, ct):
    real = {{name: given[name] for name in {real}}}
    y, back = jax.vjp(lambda real: reference(**(given | real)), real)
    return back({ct})[0]

"""
RULE = {
    "rule by position": """
def rule(inputs, outputs, ct, **_):
    found = pulled(dict(zip({inputs}, inputs, strict=True)), ct)
    return tuple(found.get(name) for name in {inputs})
""",
    "rule by name": """
def rule(ct, *, {names}, **_):
    found = pulled(dict({given}), ct)
    return {{name: found[own] for name, own in {pairs} if own in found}}
""",
    "jvp rule": """
def rule(inputs, outputs, tangents, **_):
    given = dict(zip({inputs}, inputs, strict=True))
    moved = dict(zip({inputs}, tangents, strict=True))
    real = [{{name: of[name] for name in {real}}} for of in (given, moved)]
    dy = jax.jvp(lambda real: reference(**(given | real)), real[:1], real[1:])[1]
    return {dy}
""",
}


def written(op: Operation):
    """Return the definitions of a program: reference, rule, kernel, and `make`, which wraps it."""
    made = f"Given = namedtuple('Given', {list(op.arrays)!r})"
    parts = [made if op.has_fields else "", op.reference(), _rule(op)]
    if op.front in POINTERS | TENSORS or op.front == "cuda_kernel":
        parts.append(_source(op))
    else:
        parts.append(_kernel(op))
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _rule(op):
    kind = op.chosen["rule"]
    if kind not in RULE:
        return ""
    real = [name for name in op.inputs if op.is_real(name)]
    names = ", ".join(map(op.parameter, op.inputs))
    given = ", ".join(f"{name}={op.parameter(name)}" for name in op.inputs)
    pairs = [(op.parameter(name), name) for name in op.inputs]
    ct, dy = "ct", "dy"
    if op.front == "XLACustomKernel" and kind == "rule by position":
        ct = "ct[0]"
    if op.chosen["place"] == "explicit axes":  # the operation may have gathered what it got
        ct, dy = f"h.placed_as({ct}, y)", "h.placed_as(dy, outputs)"
    text = (RULES.lstrip() + RULE[kind].lstrip()).format(
        ct=ct,
        dy=dy,
        real=tuple(real),
        inputs=tuple(op.inputs),
        names=names,
        given=given,
        pairs=pairs,
    )
    is_widened = op.inside != op.out and op.front != "XLACustomKernel"
    return text.replace("reference(", "inside(") if is_widened else text


def _options(op):
    """Return the options of the operation but for those of launches."""
    chosen, options = op.chosen, []
    twice = chosen["care"] == "twice in place"
    if op.has_signature:
        options.append(f"signature={op.signature()!r}")
    elif op.memory == "in place":
        options.append(f"inplace={'a, a' if twice else 'a'!r}")
    if op.memory == "alias":
        options.append(_alias(op))
    if chosen["care"] in ("checked", "planted fault", "small launch"):
        options.append("check=True")
    if op.is_static and op.front not in CUDA_CPP:
        options.append("static={'s': SCALE, 'b': OFFSET}")
    if op.function == "static function":
        fixed = "'s': SCALE, 'b': OFFSET, " if op.is_static else ""
        options = [o for o in options if not o.startswith("static=")]
        options.append(f"static={{{fixed}'f': function}}")
    if op.body == "records":
        options.append("view={'a': RECORD}")
    if op.body == "atomics" and op.front != "numba_cuda_callable":
        options.append("zero_outputs=True")
    if op.sharded:
        options.append("sharding_rule=True")
    if chosen["names"] == "given name":
        options.append("name='given_name'")
    return [*options, *_derivatives(op)]


def _alias(op):
    arrays = [name for name in op.inputs if name in op.arrays]
    return f"input_output_aliases={{{arrays.index('a')}: 0}}"


def _derivatives(op):
    rule = op.chosen["rule"]
    linear = [f"linear={op.parameter('w')!r}"] * op.is_linear
    if rule == "Enzyme":
        return ['derivatives="enzyme"', *linear]
    return [*{"no rule": [], "jvp rule": ["jvp=rule"]}.get(rule, ["vjp=rule"]), *linear]


def _launch(op):
    """Return the options of a launch."""
    care = op.chosen["care"]
    rows = "a.shape[0] - 4" if care == "small launch" else "a.shape[0]"
    if care == "empty block":
        return ["grid=1", "block=0"]
    if op.body == "device variable":
        return [f"grid={N_BLOCKS}", "block=32"]
    if op.has_signature and care != "small launch":
        names = ("n", "m") if op.body == "broadcasting" else "n"
        return [f"launch_dims={names!r}", *[f"threads_per_block={T}"] * (names == "n")]
    dims = f"({rows}, w.size)" if op.body == "broadcasting" else rows
    launch = f"launch_dims=lambda a, w=None, *_, **__: {dims}"
    return [launch, *[f"threads_per_block={T}"] * (dims == rows)]


def _named(op):
    """Return the parameters of a kernel of Numba in front of its outputs, and behind them."""
    if op.has_signature:
        named = [*op.merged(op.inputs, "p"), *["s", "b"] * op.is_static]
    else:
        named = [*op.merged(op.arrays, "p"), "s", "b", *["on"] * op.has_bool]
    if op.function == "as an argument" and op.has_signature:
        return named, ["f=None"]  # which the signature does not describe
    return [*named, *["f"] * (op.function in ("as an argument", "static function"))], []


def _given(op):
    """Return the arguments of the call of an operation."""
    more = ["f=function"] * (op.function == "as an argument") + ["on=True"] * op.has_bool
    if op.is_static:
        arrays = [name for name in op.inputs if name in op.arrays]
        return [*op.merged(arrays, op.given()), *more]
    if op.chosen["scalars"] == "by position":
        return [*op.merged(op.inputs, op.given()), *more]
    named = op.inputs if op.has_signature else ["s", "b"]
    named = [name for name in named if name != "on"]
    texts = {"p": f"p={op.given()}"}
    named = [texts.get(name, f"{name}={name}") for name in op.merged(named, "p")]
    arrays = [] if op.has_signature else op.merged(op.arrays, op.given())
    return [*arrays, *named, *more]


def _call(op, wrapped):
    return [
        "def make():",
        *[f"    {line}" for line in wrapped],
        *["    assert op.__name__ == 'given_name'"] * (op.chosen["names"] == "given name"),
        f"    return lambda {', '.join(op.parameters)}: op({', '.join(_given(op))})",
    ]


def _kernel(op):
    lines = ["inlined = kernbridge.inline(function)"] * (op.function == "inlined")
    (named, behind), body = _named(op), op.lines()
    outputs = [] if op.memory == "in place" and op.body != "records" else ["out"]
    if op.front == "elementwise":
        value = op.applied("a * w")
        result = op.scaled(value) + (f", {value}" if op.also else "")
        unpacked = [f"    {line}" for line in op.unpacked()]
        lines += [f"def kernel({', '.join(named + behind)}):", *unpacked, f"    return {result}"]
        wrapped = [f"op = kernbridge.elementwise(kernel, {', '.join(_options(op))})"]
        return "\n".join([*lines, "", *_call(op, wrapped)])
    if op.front == "kernel":
        shape = op.outs().split("S(")[1].rpartition(", jnp.")[0]
        lines += [
            f"def kernel({', '.join(named + behind)}):",
            *[f"    {line}" for line in op.unpacked()],
            f"    out = np.empty({shape}, np.{op.inside})",
        ]
        lines += [f"    {line}" for line in body]
        if op.also:
            f = op.applied("a[i, j] * w[j]")
            lines += [
                f"    row = np.array([{op.applied('a[0, j] * w[j]')} for j in range(w.size)])"
            ]
            lines += ["    also = np.empty(out.shape, row.dtype)"]
            lines += ["    for i in range(a.shape[0]):", "        for j in range(w.size):"]
            lines += [f"            also[i, j] = {f}"]
        lines += [f"    return out{', also' if op.also else ''}"]
        options = _options(op)
        described = [repr(op.signature())] * op.has_signature
        options = [o for o in options if not o.startswith("signature=")]
        made = f"kernbridge.kernel({', '.join([*described, *options])})"
        return "\n".join([*lines, "", *_call(op, [f"op = {made}(numba.njit(kernel))"])])
    lines += [
        f"def kernel({', '.join([*named, *outputs, *behind])}):",
        *[f"    {line}" for line in [*op.unpacked(), *body]],
    ]
    if op.front == "XLACustomKernel":
        return "\n".join([*lines, "", *_custom(op)])
    outs = [] if op.has_signature or op.memory == "in place" else [op.outs()]
    if op.front == "numba_kernel":
        options = ", ".join([*outs, *_options(op)])
        wrapped = [f"op = kernbridge.numba_kernel(numba.njit(kernel), {options})"]
    elif op.front == "numba_cuda_kernel":
        options = ", ".join([*outs, *_options(op), *_launch(op)])
        wrapped = [f"op = kernbridge.numba_cuda_kernel(cuda.jit(kernel), {options})"]
    else:
        grid = "((a.shape[0] + 3) // 4, (w.size + 3) // 4), (4, 4)"
        grid = grid if op.body == "broadcasting" else f"(a.shape[0] + 3) // 4, {T}"
        inside = ", ".join([*named, *outputs])
        launched = inside
        if op.chosen["names"] == "launch by keywords":
            launched = ", ".join(f"{name}={name}" for name in [*outputs, *named])
        wrapped = [
            "threads = cuda.jit(kernel)",
            f"def launch({inside}, stream):",
            *[f"    {line}" for line in op.unpacked()],
            *["    out[:] = 0"] * (op.body == "atomics"),
            f"    threads[{grid}, stream]({launched})",
            f"op = kernbridge.numba_cuda_callable(launch, {', '.join([*outs, *_options(op)])})",
        ]
    return "\n".join([*lines, "", *_call(op, wrapped)])


def _custom(op):
    rule, named = op.chosen["rule"], ", ".join(op.inputs)
    enzyme = ', derivatives="enzyme"' * (rule == "Enzyme")
    fixed = [f"{name}={value}" for name, value in (("s", "SCALE"), ("b", "OFFSET"))]
    keywords = ", s, b" * op.is_static
    given = op.merged(op.inputs, op.given())
    inside = f"lambda {named}: operation({', '.join([*given, *['s=s', 'b=b'] * op.is_static])})"
    wrapped = [
        f"op = kernbridge.XLACustomKernel(f'{op.name}_{{next(NUMBERS)}}', "
        f"signature={op.signature()!r}{enzyme})",
        f"def generated(*, outs{keywords}):",
        "    operation = kernbridge.numba_kernel(numba.njit(kernel), outs)",
        f"    return {inside}",
        "op.def_numba_kernel(generated)",
    ]
    if rule in ("rule by position", "rule by name"):
        wrapped += ["op.def_vjp_rule(rule)"]
    elif rule == "jvp rule":
        wrapped += [
            "def both(primals, tangents, **_):",
            f"    of = lambda *x: reference(**dict(zip({tuple(op.inputs)}, x)))",
            f"    {named}, = primals",
            f"    y = op({', '.join([*given, *fixed * op.is_static])})",
            "    return [y], [rule(primals, y, tangents)]",
            "op.def_jvp_rule(both, symbolic_zeros=False)",
        ]
    lines = _call(op, wrapped)
    if op.is_static:
        lines[-1] = f"    return lambda {named}: op({', '.join([*given, *fixed])})"
    return lines


def _source(op):
    """Return the loading of a source; `FACTOR` is a macro in it."""
    attributes = f"s=np.{op.out}(SCALE), b=np.{op.out}(OFFSET)"
    aliases = [_alias(op)] * (op.memory == "alias")
    care = ["check=True"] * (op.chosen["care"] in ("checked", "planted fault", "small launch"))
    fill = '.replace("{FACTOR}", str(FACTOR))'
    if op.front == "cuda_kernel":
        source = kernel_of_threads(op)
        sizes = "n=lambda a, *_, **__: a.shape[0], m=lambda a, w=None, *_, **__: "
        sizes += "w.size" if "w" in op.arrays else "0"
        attributes = f"attrs=dict({attributes}{'' if op.has_signature else ', ' + sizes})"
        options = [*_options(op), attributes, *_launch(op)]
        outs = [] if op.has_signature or op.memory == "in place" else [op.outs()]
        text = (
            f"op = kernbridge.cuda_kernel(SOURCE{fill}, 'kernel', {', '.join([*outs, *options])})"
        )
        return "\n".join([_quoted(source), "", *_call(op, [text])])
    options = [*_derivatives(op), *aliases, *["sharding_rule=True"] * op.sharded]
    load = {"load_cpp of tensors": "load_cpp"}.get(op.front, op.front) + "_inline"
    carry = ["carry=True"] * (op.chosen["process"] == "export")
    loading = ["replace=True", *carry, *care]
    if op.front == "load_binary":
        source, declaration = function_of_pointers(op)
        wrapped = [
            f"library, header = built({op.name!r}, SOURCE{fill}, {declaration!r})",
            f"module = kernbridge.load_binary(library, {{'f': {op.signature()!r}}}, header=header, "
            f"name={op.name!r}, {', '.join(loading)})",
            f"op = module.f.operation({', '.join(options)})",
        ]
        return "\n".join([_quoted(source), "", *_call(op, wrapped)])
    if op.front in TENSORS:
        source = function_of_tensors(op)
        options = [attributes, *options]
        outs = [f"outs={op.outs()}"]
    else:
        source, outs = function_of_pointers(op)[0], []
    wrapped = [
        f"module = kernbridge.{load}({op.name!r}, SOURCE{fill}, {', '.join(loading)})",
        f"op = module.f.operation({', '.join([*outs, *options])})",
    ]
    return "\n".join([_quoted(source), "", *_call(op, wrapped)])


def _quoted(source):
    return f'SOURCE = r"""\n{source}"""'
