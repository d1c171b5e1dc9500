"""Rules, `outs`, launch functions and generators run again when a value that they read changes."""

import argparse
import array
import collections
import configparser
import contextvars
import ctypes
import dataclasses
import functools
import itertools
import math
import operator
import os
import queue
import sys
import tempfile
import threading
import types
import weakref

import jax
import jax.numpy as jnp
import kernbridge as kb
import numba
import numpy as np
import pytest

S = jax.ShapeDtypeStruct
x = jnp.ones(2, jnp.float32)
G, BOX = 1, types.SimpleNamespace(n=1)
MODULE = types.ModuleType("kernbridge_ways")


class Plain:
    def __init__(self, n=1):
        self.n = n

    def get(self):
        return self.n

    @property
    def twice(self):
        return 2 * self.n


class Slots:
    __slots__ = ("__n", "m")

    def __init__(self):
        self.__n = self.m = 1

    def hidden(self, n=None):
        self.__n = n or self.__n
        return self.__n


class Computed:
    def __init__(self, table):
        self.table = table

    def __getattr__(self, name):
        return self.table[name]


class Noted(np.ndarray):
    n = 1


@dataclasses.dataclass
class Data:
    n: int = 1


Heir = type("Heir", (collections.deque,), {})
HeirOfDict = type("HeirOfDict", (collections.UserDict,), {"__module__": __name__})


@pytest.fixture(autouse=True)
def one(monkeypatch):
    """What the ways below share has the value 1."""
    monkeypatch.setitem(globals(), "G", 1)
    monkeypatch.setattr(BOX, "n", 1)
    monkeypatch.setattr(MODULE, "n", 1, raising=False)
    monkeypatch.setitem(sys.modules, "kernbridge_ways", MODULE)
    monkeypatch.setenv("KERNBRIDGE_WAYS", "1")


def imports():
    import kernbridge_ways

    return kernbridge_ways.n


def imports_from():
    from kernbridge_ways import n

    return n


def imports_os():
    import os as system

    return int(system.environ["KERNBRIDGE_WAYS"])


def imports_by_name():
    import importlib

    return importlib.import_module("kernbridge_" + "ways").n


def default(n=1):
    return n


def keyword_default(*, n=1):
    return n


def in_namespace(source, change):
    space = {}
    exec(source, space)
    return space["read"], lambda: exec(change, space)


def cell():
    n = 1

    def change():
        nonlocal n
        n = 2

    return lambda: n, change


def attribute_of_the_function():
    def read():
        return read.n

    read.n = 1
    return read, lambda: setattr(read, "n", 2)


def file():
    with tempfile.NamedTemporaryFile(delete=False) as made:
        path = made.name

    def read():
        with open(path) as file:
            return 1 + len(file.read())

    def change():
        with open(path, "w") as file:
            file.write("1")

    return read, change


def cached():
    box = [1]
    read = functools.lru_cache(lambda: box[0])
    return lambda: read(), lambda: (box.insert(0, 2), read.cache_clear())


def cached_before():
    box = [1]
    read = functools.lru_cache(lambda: box[0])
    read()
    box[0] = 2
    return lambda: read(), lambda: read.cache_clear()


def dispatched():
    function = functools.singledispatch(lambda x: 1)
    return lambda: function(0), lambda: function.register(int, lambda x: 2)


def wrapped():
    box = [1]

    @functools.wraps(len)
    def read():
        return box[0]

    return read, lambda: box.insert(0, 2)


def computed_property():
    class Kind:
        n = 1
        value = functools.cached_property(lambda self: self.n)

    box = Kind()

    def change():
        Kind.n = 2
        vars(box).clear()

    return lambda: box.value, change


def constructor():
    box = [1]

    class Kind:
        def __init__(self):
            self.n = box[0]

    return lambda: Kind().n, lambda: box.insert(0, 2)


def generator():
    box = [1]

    def numbers():
        while True:
            yield box[0]

    source = numbers()
    return lambda: next(source), lambda: box.insert(0, 2)


def count():
    source = itertools.cycle((1, 2))
    box = [next(source)]
    return lambda: box[0], lambda: box.insert(0, next(source))


def vectorized(make):
    box = [1]
    function = make(lambda x: box[0])
    return lambda: int(function(0)), lambda: box.insert(0, 2)


def holds(box, read, change):
    """A way that reads an object and changes it."""
    return lambda: (lambda: read(box), lambda: change(box))


def to_two(box):
    box.n = 2


def put_two(box):
    box["n"] = 2


def first_two(box):
    box[0] = 2


def of_weak(make, read):
    def way():
        box = Plain()
        held = make(box)
        return lambda: (read(held), box)[0], lambda: to_two(box)

    return way


def of_dict(make, read):
    def way():
        box = {"n": 1}
        held = make(box)
        return lambda: read(held), lambda: put_two(box)

    return way


def variable():
    box = contextvars.ContextVar("box", default=1)
    return box.get, lambda: box.set(2)


def local():
    box = threading.local()
    box.n = 1
    return lambda: box.n, lambda: to_two(box)


def memory():
    box = bytearray([1])
    view = memoryview(box)
    return lambda: view[0], lambda: first_two(box)


def change_global(space=globals()):  # noqa: B008
    space["G"] = 2


def of_module(read):
    return lambda: (read, lambda: setattr(MODULE, "n", 2))


def of_environment(read):
    return lambda: (read, lambda: os.environ.update(KERNBRIDGE_WAYS="2"))


def globals_of_one_name():
    one, other = {"C": 0}, {"C": 1}
    for space in (one, other):
        exec("def read(): return C", space)
    return (lambda: one["read"]() + other["read"]()), lambda: other.update(C=2)


get_n = operator.attrgetter("n")
WAYS = {
    "a global": lambda: (lambda: G, change_global),
    "globals()": lambda: (lambda: globals()["G"], change_global),
    "eval": lambda: (lambda: eval("G"), change_global),
    "a helper that is replaced": lambda: in_namespace(
        "def helper(): return 1\ndef read(): return helper()", "def helper(): return 2"
    ),
    "a global that comes later": lambda: in_namespace(
        "def read():\n    try: return late\n    except NameError: return 1", "late = 2"
    ),
    "a closure": cell,
    "a default": lambda: (default, lambda: setattr(default, "__defaults__", (2,))),
    "a keyword default": lambda: (
        keyword_default,
        lambda: keyword_default.__kwdefaults__.update(n=2),
    ),
    "an attribute of the function": attribute_of_the_function,
    "functools.wraps of a builtin": wrapped,
    "an import": of_module(imports),
    "an import of a name": of_module(imports_from),
    "importlib": of_module(imports_by_name),
    "sys.modules": of_module(lambda: sys.modules["kernbridge_ways"].n),
    "a module": of_module(lambda: MODULE.n),
    "vars of a module": of_module(lambda: vars(MODULE)["n"]),
    "getattr": of_module(lambda: getattr(MODULE, "n")),  # noqa: B009
    "getattr of a computed name": of_module(lambda: getattr(MODULE, chr(110))),
    "attrgetter": of_module(lambda: get_n(MODULE)),
    "os.environ": of_environment(lambda: int(os.environ["KERNBRIDGE_WAYS"])),
    "os.getenv": of_environment(lambda: int(os.getenv("KERNBRIDGE_WAYS"))),
    "an import of os": of_environment(imports_os),
    "a file": file,
    "an object": holds(Plain(), lambda b: b.n, to_two),
    "a class": holds(type("Kind", (), {"n": 1}), lambda b: b.n, to_two),
    "a base class": holds(
        type("Heir", (type("Base", (), {"n": 1}),), {})(),
        lambda b: b.n,
        lambda b: to_two(type(b).__base__),
    ),
    "a method": lambda: (lambda box: (box.get, lambda: to_two(box)))(Plain()),
    "a constructor": constructor,
    "a property": holds(Plain(), lambda b: b.twice // 2, to_two),
    "a cached property": computed_property,
    "slots": holds(Slots(), lambda b: b.m, lambda b: setattr(b, "m", 2)),
    "private slots": holds(Slots(), lambda b: b.hidden(), lambda b: b.hidden(2)),
    "__getattr__": of_dict(Computed, lambda b: b.n),
    "a dataclass": holds(Data(), lambda b: b.n, to_two),
    "a partial function": lambda: (
        lambda box: (functools.partial(lambda b: b[0], box), lambda: first_two(box))
    )([1]),
    "a keyword of a partial function": of_dict(
        lambda b: functools.partial(lambda b: b["n"], b=b), lambda f: f()
    ),
    "lru_cache": cached,
    "a cache that is cleared": cached_before,
    "singledispatch": dispatched,
    "a list": holds([1], lambda b: b[0], first_two),
    "the type of a number": holds(
        [[1]], lambda b: 1 + isinstance(b[0][0], bool), lambda b: b[0].__setitem__(0, True)
    ),
    "the type of a number in a long list": holds(
        [1] * 1000, lambda b: 1 + isinstance(b[500], float), lambda b: b.__setitem__(500, 1.0)
    ),
    "the sign of a zero": holds(
        [[0.0]], lambda b: 1 + int(np.signbit(b[0][0])), lambda b: b[0].__setitem__(0, -0.0)
    ),
    "the sign of a zero in an array": holds(
        np.zeros(3), lambda b: 1 + int(np.signbit(b[1])), lambda b: b.__setitem__(1, -0.0)
    ),
    "a global of the name of another module's": globals_of_one_name,
    "a long list": holds([1] * 1000, lambda b: b[0], first_two),
    "a dict": of_dict(lambda b: b, lambda b: b["n"]),
    "a set": holds({1}, max, lambda b: b.add(2)),
    "a set of pairs": holds({(1, 1)}, len, lambda b: b.add((2, 1))),
    "nested containers": of_dict(lambda b: {"a": [({"b": b},)]}, lambda b: b["a"][0][0]["b"]["n"]),
    "SimpleNamespace": lambda: (lambda: BOX.n, lambda: to_two(BOX)),
    "argparse.Namespace": holds(argparse.Namespace(n=1), lambda b: b.n, to_two),
    "deque": holds(collections.deque([1]), lambda b: b[0], first_two),
    "an heir of deque": holds(Heir([1]), lambda b: b[0], first_two),
    "UserDict": holds(collections.UserDict(n=1), lambda b: b["n"], put_two),
    "an heir of UserDict": holds(HeirOfDict(n=1), lambda b: b["n"], put_two),
    "UserList": holds(collections.UserList([1]), lambda b: b[0], first_two),
    "UserString": holds(
        collections.UserString("1"), lambda b: int(str(b)), lambda b: setattr(b, "data", "2")
    ),
    "ChainMap": of_dict(lambda b: collections.ChainMap({}, b), lambda b: b["n"]),
    "the order of a dict": holds(
        collections.OrderedDict(n=1, m=2),
        lambda b: next(iter(b.values())),
        lambda b: b.move_to_end("n"),
    ),
    "defaultdict": holds(
        collections.defaultdict(lambda: 1),
        lambda b: b.default_factory(),
        lambda b: setattr(b, "default_factory", lambda: 2),
    ),
    "Counter": holds(collections.Counter("a"), lambda b: b["a"], lambda b: b.update("a")),
    "MappingProxyType": of_dict(types.MappingProxyType, lambda b: b["n"]),
    "a view of a dict": of_dict(lambda b: b.values(), lambda b: max(b)),
    "a method of a dict": of_dict(lambda b: b.get, lambda b: b("n")),
    "an operator of a dict": of_dict(lambda b: b.__getitem__, lambda b: b("n")),
    "weakref.ref": of_weak(weakref.ref, lambda b: b().n),
    "weakref.proxy": of_weak(weakref.proxy, lambda b: b.n),
    "WeakMethod": of_weak(lambda b: weakref.WeakMethod(b.get), lambda b: b()()),
    "WeakValueDictionary": of_weak(lambda b: weakref.WeakValueDictionary(n=b), lambda b: b["n"].n),
    "WeakKeyDictionary": of_weak(
        lambda b: weakref.WeakKeyDictionary({b: 1}), lambda b: next(iter(b)).n
    ),
    "ContextVar": variable,
    "threading.local": local,
    "Event": holds(threading.Event(), lambda b: 1 + b.is_set(), lambda b: b.set()),
    "Queue": holds(queue.Queue(), lambda b: 1 + len(b.queue), lambda b: b.put(2)),
    "ConfigParser": holds(
        configparser.ConfigParser({"n": "1"}),
        lambda b: b.getint("DEFAULT", "n"),
        lambda b: b["DEFAULT"].update(n="2"),
    ),
    "bytearray": holds(bytearray([1]), lambda b: b[0], first_two),
    "memoryview": memory,
    "array.array": holds(array.array("i", [1]), lambda b: b[0], first_two),
    "ctypes": holds(ctypes.c_int(1), lambda b: b.value, lambda b: setattr(b, "value", 2)),
    "a generator": generator,
    "an iterator": count,
    "an array": holds(np.ones(3, np.int32), lambda b: int(b[0]), first_two),
    "an heir of arrays": holds(np.ones(3).view(Noted), lambda b: b.n, to_two),
    "an array of objects": holds(np.array([1, None]), lambda b: b[0], first_two),
    "a list in an array": holds(
        np.array([[1], None], object), lambda b: b[0][0], lambda b: first_two(b[0])
    ),
    "a masked array": holds(
        np.ma.array([1, 2], mask=[False, False]),
        lambda b: int(b.compressed()[0]),
        lambda b: b.__setitem__(0, np.ma.masked),
    ),
    "np.vectorize": lambda: vectorized(np.vectorize),
    "np.frompyfunc": lambda: vectorized(lambda f: np.frompyfunc(f, 1, 1)),
    "the state of a generator": holds(
        np.random.RandomState(0), lambda b: 1 + (b.get_state()[2] != 624), lambda b: b.rand()
    ),
    "a list in numba.typed": holds(numba.typed.List([1]), lambda b: b[0], first_two),
    "a function of a library": holds(
        types.SimpleNamespace(f=math.floor),
        lambda b: b.f(1.5),
        lambda b: setattr(b, "f", math.ceil),
    ),
    "an array of JAX": holds(
        [np.int32(1)], lambda b: int(b[0]), lambda b: b.insert(0, jax.device_put(2))
    ),
}


@numba.njit
def kernel(x, out):
    for i in range(out.size):
        out[i] = 1


def same(x):
    return S(x.shape, x.dtype)


def custom(name, generator=lambda outs: kb.numba_kernel(kernel, outs), **rules):
    op = kb.XLACustomKernel(f"what rules read: {name}")
    op.def_numba_kernel(generator)
    for define, rule in rules.items():
        getattr(op, define)(rule)
    return lambda x: op(x, outs=same(x))


def tangent(op, x):
    return jax.jvp(op, (x,), (x,))[1]


def gradient(op, x):
    return jax.grad(lambda x: op(x).sum())(x)


@pytest.mark.brief
@pytest.mark.once
@pytest.mark.filterwarnings("ignore:XLACustomKernel. an operation named")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_change_is_seen_in_every_way(way):
    read, change = way()
    ops = [
        kb.numba_kernel(
            kernel,
            lambda x: S((16 + read(),), x.dtype),
            jvp=lambda i, o, t: jnp.full(o.shape, 32.0 + read(), o.dtype),
        ),
        custom("jvp2", def_jvp_rule2=lambda t, x, outs: t * (32.0 + read()) + (16 + read())),
    ]

    def seen():
        texts = [str(jax.make_jaxpr(functools.partial(tangent, op))(x)) for op in ops]
        return [{n for n in ("17", "18", "33.0", "34.0") if n in text} for text in texts]

    assert seen() == [{"17", "33.0"}] * 2
    change()
    assert seen() == [{"18", "34.0"}] * 2


def plus(n, outs):
    @numba.njit
    def kernel(x, out):
        for i in range(out.size):
            out[i] = n

    return kb.numba_kernel(kernel, outs)


def whole(read):
    return lambda p, t, outs: ([jnp.ones_like(p[0])], [t[0] * read()])


linear = kb.numba_kernel(kernel, same, jvp=lambda i, o, t: t[0])
KINDS = {
    "jvp": (tangent, lambda r: kb.numba_kernel(kernel, same, jvp=lambda i, o, t: t[0] * r())),
    "vjp": (gradient, lambda r: kb.numba_kernel(kernel, same, vjp=lambda i, o, t: t * r())),
    "jvp of vjp": (tangent, lambda r: kb.numba_kernel(kernel, same, vjp=lambda i, o, t: t * r())),
    "def_jvp_rule": (tangent, lambda r: custom("jvp", def_jvp_rule=whole(r))),
    "grad of def_jvp_rule": (gradient, lambda r: custom("grad", def_jvp_rule=whole(r))),
    "def_jvp_rule2": (gradient, lambda r: custom("2", def_jvp_rule2=lambda t, x, outs: t * r())),
    "def_vjp_rule": (
        gradient,
        lambda r: custom("v", def_vjp_rule=lambda i, o, t, outs: t[0] * r()),
    ),
    "jvp of def_vjp_rule": (
        tangent,
        lambda r: custom("jv", def_vjp_rule=lambda i, o, t, outs: t[0] * r()),
    ),
    "def_transpose_rule": (
        lambda op, x: jax.linear_transpose(op, x)(x)[0],
        lambda r: custom("t", def_transpose_rule=lambda ct, x, outs: [ct[0] * r()]),
    ),
    "def_batching_rule": (
        lambda op, x: jax.vmap(op)(x[:, None])[:, 0],
        lambda r: custom("b", def_batching_rule=lambda a, d, outs: ([a[0] * r()], [0])),
    ),
    "a generator": (
        lambda op, x: jax.vmap(op)(x[:, None])[:, 0],
        lambda r: custom("g", generator=lambda outs: plus(r(), outs)),
    ),
    "an operation that a rule calls": (
        tangent,
        lambda r: (
            lambda inner: kb.numba_kernel(kernel, same, jvp=lambda i, o, t: tangent(inner, t[0]))
        )(kb.numba_kernel(kernel, same, jvp=lambda i, o, t: t[0] * r())),
    ),
    "a function of JAX that a rule calls": (
        tangent,
        lambda r: (
            lambda inner: kb.numba_kernel(kernel, same, jvp=lambda i, o, t: inner(t[0][None])[0])
        )(jax.vmap(lambda t: t * r())),
    ),
}


@pytest.mark.brief
@pytest.mark.filterwarnings("ignore:XLACustomKernel. an operation named")
@pytest.mark.parametrize("way", ["a global", "globals()"])
@pytest.mark.parametrize(("apply", "make"), KINDS.values(), ids=KINDS)
def test_a_change_is_seen_in_every_kind_of_rule(apply, make, way):
    read, change = WAYS[way]()
    op = make(read)
    for n in (1, 2):
        for run in (apply, jax.jit(lambda op, x: apply(op, x), static_argnums=0)):
            np.testing.assert_array_equal(run(op, x), np.full(2, n), strict=False)
        change()


def test_a_value_that_changes_back_while_another_shape_is_traced():
    box = [1]
    op = kb.numba_kernel(kernel, lambda x: S((x.size + box[0],), x.dtype))
    assert op(x).shape == (3,)
    box[0] = 2
    assert op(x[:1]).shape == (3,)
    box[0] = 1
    assert jax.eval_shape(op, x[:1]).shape == (2,)


def test_a_call_that_is_not_traced_runs_what_was_compiled():
    box = [1]
    op = kb.numba_kernel(kernel, lambda x: S((box[0],), x.dtype))
    assert op(x).shape == (1,)
    box[0] = 2
    assert op(x).shape == (1,)
    assert jax.jit(op)(x).shape == (2,)


@pytest.mark.usefixtures("gpu")
def test_a_change_of_a_launch_is_seen_under_vmap():
    cuda = pytest.importorskip("numba.cuda")
    box = types.SimpleNamespace(n=1)

    @cuda.jit
    def blocks(x, out):
        out[0] = cuda.gridDim.x

    grid = kb.numba_cuda_kernel(
        blocks, S((1,), jnp.float32), launch_dims=lambda x: box.n, threads_per_block=1
    )
    called = kb.numba_cuda_callable(
        lambda x, out, stream: blocks[box.n, 1, stream](x, out), S((1,), jnp.float32)
    )
    for n in (1, 2):
        box.n = n
        assert jax.vmap(grid)(x[:, None]).tolist() == [[n]] * 2
        assert jax.vmap(called)(x[:, None]).tolist() == [[n]] * 2
