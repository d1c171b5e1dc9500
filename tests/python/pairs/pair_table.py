"""The features of operations, and which of them cannot meet in one program.

A program has one feature of each axis. The first one of an axis is what a user has who asks for
nothing. Every two features that are not set apart here are drawn together (test_pairs.py).
"""

import itertools
from functools import cache

CPU = {"numba_kernel", "kernel", "elementwise", "XLACustomKernel"}
POINTERS = {"load_c", "load_cpp", "load_binary"}
TENSORS = {"load_cpp of tensors", "load_cuda"}
NUMBA_CUDA = {"numba_cuda_kernel", "numba_cuda_callable"}
CUDA_CPP = {"load_cuda", "cuda_kernel"}
NUMBA = CPU | NUMBA_CUDA

AXES = {
    "front end": (
        *("numba_kernel", "kernel", "elementwise", "numba_cuda_kernel", "numba_cuda_callable"),
        *("load_c", "load_cpp", "load_cpp of tensors", "load_binary", "load_cuda", "cuda_kernel"),
        "XLACustomKernel",
    ),
    "body": (
        *("broadcasting", "row sums", "shared array", "atomics", "records", "device variable"),
        "only writes",
    ),
    "description": ("outs", "signature"),
    "memory": ("new outputs", "in place", "alias"),
    "function": ("written", "inlined", "as an argument", "static function"),
    "scalars": ("by keyword", "by position", "bool keyword", "static scalars"),
    "arguments": ("arrays", "fields"),
    "dtypes": ("float32", "float64", "mixed dtypes", "float16", "bfloat16"),
    "names": ("own names", "given name", "launch by keywords"),
    "linearity": ("any function", "linear"),
    "rule": ("no rule", "rule by position", "rule by name", "jvp rule", "Enzyme"),
    "derivative": ("value", "grad", "jvp", "hessian", "jacrev of grad", "jacfwd"),
    "around": ("plain call", "jit", "vmap", "nested vmap", "scan", "cond"),
    "place": ("one device", "automatic axes", "explicit axes", "shard_map", "threads"),
    "process": ("this process", "second process", "export", "edited source", "changed global"),
    "care": (
        *("unchecked", "checked", "planted fault", "small launch", "empty block"),
        "twice in place",
    ),
}
AXIS = {feature: axis for axis, features in AXES.items() for feature in features}
HALVES = {"float16", "bfloat16"}
MISTAKES = {"planted fault", "small launch", "empty block", "twice in place"}
SECOND_ORDER = {"hessian", "jacrev of grad"}


def but(axis, *features):
    """All other features of an axis."""
    return set(AXES[axis]) - set(features)


def no(*features):
    """All other features of the axis of these."""
    return but(AXIS[features[0]], *features)


# Features that do not meet, and why. With three sets, any two of them do.
APART = (
    ({"elementwise"}, no("broadcasting"), "the function sees one number of each array"),
    (no(*NUMBA_CUDA, *CUDA_CPP), {"shared array", "atomics"}, "CUDA alone has them"),
    (no("numba_cuda_kernel"), {"records"}, "view= is an option of numba_cuda_kernel"),
    (no(*CUDA_CPP), {"device variable"}, "only sources in CUDA C++ have such variables"),
    ({"elementwise"}, {"signature"}, "Numba infers what the function returns"),
    (POINTERS | {"XLACustomKernel"}, {"outs"}, "they are described by their signature"),
    (TENSORS, {"signature"}, "functions of tensors are described by tokens"),
    # memory
    ({"kernel", "elementwise"}, {"in place"}, "they return new arrays"),
    ({"kernel"}, {"alias"}, "it returns new arrays"),
    (TENSORS, {"in place"}, "functions of tensors have inputs and outputs"),
    ({"XLACustomKernel"}, {"in place", "alias"}, "an option of the kernels inside"),
    (
        no("broadcasting", "records", "only writes"),
        {"in place", "alias"},
        "they read elements that another thread or row may have changed, or change the shape",
    ),
    ({"records"}, {"alias"}, "words of records have another shape than the output"),
    ({"in place", "alias"}, {"mixed dtypes"}, "the dtypes of input and output differ"),
    # functions
    (POINTERS | TENSORS | CUDA_CPP, no("written"), "only Numba's kernels call JAX's functions"),
    (
        {"numba_cuda_callable", "XLACustomKernel"},
        {"as an argument", "static function"},
        "the Python function around the kernel closes over it",
    ),
    ({"only writes"}, no("written"), "the kernel reads nothing to which it could be applied"),
    ({"records"}, {"outs"}, {"in place"}, "an output beside an array in place needs a signature"),
    # scalars
    (TENSORS | CUDA_CPP, no("static scalars"), "scalars are attributes, which are static"),
    (
        POINTERS | {"numba_cuda_callable"},
        {"static scalars"},
        "they have no static=; write the number, or close over it",
    ),
    ({"XLACustomKernel"}, {"by keyword", "bool keyword"}, "keywords are static"),
    (
        {"numba_cuda_callable"},
        {"outs"},
        {"by position"},
        "Numba's device arrays have an axis; a signature makes numbers of them",
    ),
    ({"records"}, no("float32"), "the record is of float32"),
    # fields, halves, names, linear operations
    (TENSORS, {"fields"}, "functions of tensors are described by tokens"),
    (
        {"numba_cuda_callable", "cuda_kernel"},
        {"outs"},
        {"fields"},
        "a signature names the fields of what they launch",
    ),
    ({"outs"}, {"in place"}, {"fields"}, "inplace= names whole parameters"),
    ({"outs"}, {"fields"}, {"rule by name"}, "a signature names the fields"),
    ({"records"}, {"fields"}, "view= names whole parameters"),
    (
        no("numba_kernel", "kernel", "elementwise", "XLACustomKernel"),
        HALVES,
        "they compute in half precision, or get bits",
    ),
    (
        no("numba_kernel", "kernel", "elementwise", *NUMBA_CUDA),
        {"given name"},
        "they have names of their own",
    ),
    (no("numba_cuda_callable"), {"launch by keywords"}, "they are launched by kernbridge"),
    (
        {"launch by keywords"},
        {"records", "device variable", "as an argument", "static function", "static scalars"}
        | {*HALVES, "checked", "planted fault", "small launch", "empty block"},
        "numba_cuda_callable has none of them",
    ),
    ({"device variable"}, {"given name"}, "only sources in CUDA C++ have such variables"),
    (
        HALVES,
        {"shared array", "atomics", "device variable", "small launch", "empty block"},
        "CUDA alone has them",
    ),
    ({"XLACustomKernel"}, {"linear"}, "an option of the kernels inside"),
    (no("broadcasting", "row sums"), {"linear"}, "they are not linear in an array"),
    (no("written"), {"linear"}, "the function is not linear"),
    ({"linear"}, {"jvp rule"}, {"grad", *SECOND_ORDER}, "a vjp rule is the transpose"),
    # derivatives
    ({"records"}, no("no rule"), "words of records are integers"),
    ({"no rule"}, no("value"), "there is no derivative"),
    ({"records"}, no("value"), "words of records are integers"),
    ({"load_binary"} | CUDA_CPP, {"Enzyme"}, "there is no source, or it is CUDA C++"),
    ({"device variable"}, {"Enzyme"}, "only sources in CUDA C++ have such variables"),
    (
        {"numba_cuda_callable"},
        {"Enzyme"},
        SECOND_ORDER,
        "a function of several launches has first derivatives",
    ),
    # places and processes
    (
        {"shared array", "atomics", "device variable", "only writes"},
        {"shard_map"},
        "what they compute of a part is not a part of what they compute",
    ),
    (no("one device"), {"export"}, "such programs are of tests/python/operation"),
    (POINTERS | TENSORS | CUDA_CPP, {"changed global"}, "a change of the source"),
    ({"device variable"}, {"changed global"}, "a change of the source"),
    ({"device variable"}, no("static scalars"), "scalars are attributes, which are static"),
    ({"device variable"}, no("written"), "only Numba's kernels call JAX's functions"),
    # checks
    (
        {"load_c", "load_binary", "numba_cuda_callable", "XLACustomKernel"},
        {"checked", "planted fault"},
        "they have no check=",
    ),
    ({"elementwise", "load_cpp"}, {"planted fault"}, "there is no index that is checked"),
    (no("numba_cuda_kernel", "cuda_kernel"), {"small launch", "empty block"}, "no such option"),
    (
        {"atomics", "device variable"},
        {"small launch"},
        "their outputs are filled with zeros, or every thread strides",
    ),
    ({"in place", "alias"}, {"small launch"}, "an array of the caller is never unwritten"),
    (
        no("numba_kernel", "numba_cuda_kernel", "numba_cuda_callable", "cuda_kernel"),
        {"twice in place"},
        "they have no inplace=",
    ),
    (no("in place"), {"twice in place"}, "one array that is named twice"),
    (no("broadcasting", "records", "only writes"), {"twice in place"}, "no array is in place"),
    ({"mixed dtypes"}, {"twice in place"}, "the dtypes of input and output differ"),
    (MISTAKES, no("value"), "the call fails"),
    (MISTAKES, no("one device"), "the call fails"),
    (MISTAKES, no("this process"), "the call fails"),
)


def apart(features):
    """Return why these features cannot meet, or None."""
    features = set(features)
    for *sets, why in APART:
        if not any(features.isdisjoint(some) for some in sets):
            return why
    return None


@cache
def _fitting(feature):
    """The features of other axes that can meet this one."""
    others = (other for other in AXIS if AXIS[other] != AXIS[feature])
    return frozenset(other for other in others if not apart((feature, other)))


def completed(some, rng):
    """Draw the features of the other axes; None if nothing fits."""

    def fill(chosen, left):
        """Choose from what is left of each axis, the one with the fewest features first."""
        if not left:
            return chosen
        axis = min(left, key=lambda axis: len(left[axis]))
        usual, *others = left[axis]
        rng.shuffle(others)
        for feature in [*others, usual] if rng.random() < 0.5 else [usual, *others]:
            now, fitting = {**chosen, axis: feature}, _fitting(feature)
            rest = {a: [x for x in of if x in fitting] for a, of in left.items() if a != axis}
            if all(rest.values()) and not apart(now.values()) and (done := fill(now, rest)):
                return done
        return None

    given = {AXIS[feature]: [feature] for feature in some}
    found = fill({}, {axis: given.get(axis, features) for axis, features in AXES.items()})
    return found and {axis: found[axis] for axis in AXES}


@cache
def pairs():
    """Every two features that can meet."""
    return tuple((a, b) for a, b in itertools.combinations(AXIS, 2) if b in _fitting(a))
