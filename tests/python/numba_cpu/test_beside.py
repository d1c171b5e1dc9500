"""LLVM finishes one Numba kernel in a thread while Numba compiles the next one of the program."""

import json
import os
import signal
import threading

import jax
import kernbridge
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel
from kernbridge._src.numba_cpu import beside, errors, optimise
from kernbridge._src.numba_cpu import compile as numba_cpu_compile
from kernbridge._src.numba_cpu import entry as numba_cpu_entry

S = jax.ShapeDtypeStruct
X = np.arange(1, 9, dtype=np.float32)
_fresh = iter(range(os.getpid() % 1000 * 1000, 1 << 30))


def scaled(factor=None):
    """An operation that no process has compiled, and what it adds."""
    factor = next(_fresh) if factor is None else factor

    @numba.njit
    def scaled(x, out):
        for i in range(out.size):
            out[i] = x[i] * 2 + factor

    return numba_kernel(scaled, S(X.shape, X.dtype)), factor


@pytest.fixture
def has_threads():
    """Skip where this Numba cannot be left before it optimises."""

    @numba.njit
    def kernel(x):
        return x + 1

    kernel(1)
    if not optimise.is_possible(next(iter(kernel.overloads.values())).library):
        pytest.skip("this Numba optimises by itself")


@pytest.fixture
def together(monkeypatch, has_threads):
    """A thread finishes a kernel only when Numba has begun as many kernels as this is set to."""
    begun, changed = [], threading.Condition()
    begin, make = numba_cpu_compile.Compiler._begin, beside._make
    wanted = [2]

    def beginning(self, *args, **kwargs):
        result = begin(self, *args, **kwargs)
        with changed:
            begun.append(self.label)
            changed.notify_all()
        return result

    def making(entry):
        with changed:
            assert changed.wait_for(lambda: len(begun) >= wanted[0], 60)
        return make(entry)

    monkeypatch.setattr(numba_cpu_compile.Compiler, "_begin", beginning)
    monkeypatch.setattr(beside, "_make", making)
    return begun, wanted


def check(outputs, *factors):
    for out, factor in zip(outputs, factors, strict=True):
        np.testing.assert_array_equal(out, X * 2 + np.float32(factor))


def test_numba_begins_the_next_kernels_while_llvm_finishes_one(together):
    begun, wanted = together
    wanted[0] = 3
    (a, p), (b, q), (c, r) = scaled(), scaled(), scaled()
    check(jax.jit(lambda x: (a(x), b(x), c(x)))(X), p, q, r)
    assert len(begun) == 3


def test_llvmlites_lock_is_free_while_llvm_works(monkeypatch, together):
    from llvmlite.binding import ffi

    held = {}

    def noting(function, original):
        def noted(*args):
            if threading.current_thread() is not threading.main_thread():
                held.setdefault(function, []).append(ffi.lib._lock._lock._is_owned())
            return original(*args)

        return noted

    for name in ("LLVMPY_RunNewModulePassManager", "LLVMPY_TargetMachineEmitToMemory"):
        wrapper = getattr(ffi.lib, name)
        monkeypatch.setattr(wrapper, "_cfn", noting(name, wrapper._cfn))
    (a, p), (b, q) = scaled(), scaled()
    check(jax.jit(lambda x: (a(x), b(x)))(X), p, q)
    passes, emissions = held.values()
    assert passes.count(False) == 4  # Numba has two sequences of passes
    assert emissions == [False, False]


def test_a_numba_that_cannot_be_left_before_it_optimises_does_so_itself(monkeypatch):
    monkeypatch.setattr(numba_cpu_entry, "is_possible", lambda library: False)
    (a, p), (b, q) = scaled(), scaled()
    check(jax.jit(lambda x: (a(x), b(x)))(X), p, q)


def test_a_kernel_alone_needs_no_thread(monkeypatch):
    monkeypatch.setattr(beside, "start", None)
    a, p = scaled()
    check([a(X), jax.jit(a)(X)], p, p)
    check(jax.jit(lambda x: (a(x), a(a(x) * 0)))(X)[:1], p)


def test_equal_kernels_are_compiled_once(monkeypatch, together):
    _, wanted = together
    wanted[0] = 1
    built = []
    build = numba_cpu_entry.build_entry
    monkeypatch.setattr(
        numba_cpu_entry, "build_entry", lambda *args: built.append(args) or build(*args)
    )
    (a, p), (b, q) = scaled(), scaled()
    again, _ = scaled(q)
    check(jax.jit(lambda x: (a(x), b(x), again(x), b(x + 0)))(X), p, q, q, q)
    assert len(built) == 2
    check([again(X), a(X)], q, p)
    assert len(built) == 2


def test_an_error_is_that_of_its_call_and_the_others_are_compiled(together):
    @numba.njit
    def wrong(x, out):
        out[0] = x.nothing

    (a, p), (b, q) = scaled(), scaled()
    op = numba_kernel(wrong, S(X.shape, X.dtype))
    with pytest.raises(kernbridge.errors.KernelCompilationError, match="numba_kernel 'wrong'"):
        jax.jit(lambda x: (a(x), op(x), b(x))).lower(X)
    check(jax.jit(lambda x: (a(x), b(x)))(X), p, q)


def test_what_llvm_cannot_finish_is_compiled_again_and_raised(monkeypatch, has_threads):
    """An error in the thread is that of the call."""

    def fail(*args):
        raise RuntimeError("LLVM failed")

    (a, p), (b, q) = scaled(), scaled()
    f = jax.jit(lambda x: (a(x), b(x)))
    with monkeypatch.context() as patch:
        patch.setattr(optimise.Unoptimised, "optimised", fail)
        with pytest.raises(RuntimeError, match="LLVM failed"):
            f.lower(X)
    assert not numba_cpu_compile._begun.keys() & numba_cpu_compile._registered.keys()
    check(f(X), p, q)


def test_texts_of_the_users_exceptions_are_made_by_the_thread_that_lowers(monkeypatch, together):
    callers = []
    describe = errors.message

    def noting(kind, args):
        if "Refusal" in str(kind):
            callers.append(threading.current_thread())
        return describe(kind, args)

    monkeypatch.setattr(errors, "message", noting)
    (a, p), (b, q) = refusing(), scaled()
    check(jax.jit(lambda x: (a(x), b(x)))(X), p, q)
    assert set(callers) == {threading.current_thread()}
    with pytest.raises(jax.errors.JaxRuntimeError, match="Refusal: it is 7, sorry"):
        jax.block_until_ready(a(np.full_like(X, -1)))


class Refusal(Exception):
    def __str__(self):
        return f"it is {self.args[0]}, sorry"


def refusing():
    factor = next(_fresh)

    @numba.njit
    def refusing(x, out):
        for i in range(out.size):
            if x[i] < 0:
                raise Refusal(7)
            out[i] = x[i] * 2 + factor

    return numba_kernel(refusing, S(X.shape, X.dtype)), factor


SUMMAND = 0


def test_what_was_begun_is_not_used_when_a_global_has_changed(together):
    """The call of `late` was traced, and its kernel begun, with another program."""
    global SUMMAND
    SUMMAND = next(_fresh)

    @numba.njit
    def late(x, out):
        for i in range(out.size):
            out[i] = x[i] * 2 + SUMMAND

    begun, _ = together
    (a, p), op = scaled(), numba_kernel(late, S(X.shape, X.dtype))
    jax.eval_shape(lambda x: (a(x), op(x)), X)
    check([a(X)], p)
    assert len(begun) == 2
    SUMMAND = next(_fresh)
    check([op(X)], SUMMAND)
    assert len(begun) == 3


def test_a_call_that_was_only_traced_keeps_nothing_of_a_global(together):
    """Not even if the machine code of its kernel is known already."""
    global SUMMAND
    SUMMAND = first = next(_fresh)

    def make():
        @numba.njit
        def late(x, out):
            for i in range(out.size):
                out[i] = x[i] * 2 + SUMMAND

        return numba_kernel(late, S(X.shape, X.dtype))

    begun, wanted = together
    wanted[0] = 1
    check([make()(X)], first)
    (a, p), (b, q), op = scaled(), scaled(), make()
    jax.eval_shape(lambda x: (a(x), op(x), b(x)), X)
    wanted[0] = 3  # until `b`, which comes after `op`
    check([a(X)], p)
    assert len(begun) == 3
    SUMMAND = next(_fresh)
    check([op(X), b(X)], SUMMAND, q)


def test_two_threads_jit_programs_of_several_kernels_at_the_same_time():
    programs = [[scaled() for _ in range(3)] for _ in range(2)]
    shared = scaled()
    start, failures = threading.Barrier(2), []

    def work(program):
        try:
            start.wait(30)
            ops = [*program, shared]
            check(jax.jit(lambda x: [op(x) for op, _ in ops])(X), *(n for _, n in ops))
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(program,)) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


def test_ctrl_c_stops_beginning_kernels_and_leaves_everything_usable(monkeypatch, has_threads):
    ops = [scaled() for _ in range(3)]
    f = jax.jit(lambda x: [op(x) for op, _ in ops])
    begin, begun = numba_cpu_compile.Compiler._begin, []

    def pressing(self, *args, **kwargs):
        begun.append(self.label)
        if len(begun) == 2:
            signal.raise_signal(signal.SIGINT)
        return begin(self, *args, **kwargs)

    waiting = threading.Event()
    make = beside._make
    with monkeypatch.context() as patch:
        patch.setattr(numba_cpu_compile.Compiler, "_begin", pressing)
        patch.setattr(beside, "_make", lambda entry: (waiting.wait(0.5), make(entry))[1])
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                f.lower(X)
        finally:
            signal.signal(signal.SIGINT, before)
    assert len(begun) == 2
    check(f(X), *(factor for _, factor in ops))


@pytest.mark.once
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_child_is_forked_when_no_thread_is_in_llvm(has_threads):
    entered, leave = threading.Event(), threading.Event()

    def task():
        entered.set()
        leave.wait(30)

    thread = beside.futures.ThreadPoolExecutor(1)
    beside._running.add(running := thread.submit(task))
    entered.wait(30)
    threading.Timer(0.2, leave.set).start()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert running.done()
    beside._running.discard(running)
    thread.shutdown()


PROGRAM = """
import hashlib, json
import jax, jax.numpy as jnp
import carried_kernels as kernels
import numba
from kernbridge import numba_kernel
from kernbridge._src.numba_cpu import beside, carried

started, start = [], beside.start
beside.start = lambda entry: (started.append(entry.name), start(entry))[1]
made, make = {}, carried.make

def noting(key, digest, about, *rest):
    result = make(key, digest, about, *rest)
    made[about.kernel] = hashlib.sha256(result.program).hexdigest()
    return result

carried.make = noting

def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)

functions = [getattr(kernels, name) for name in NAMES]
ops = [numba_kernel(f if hasattr(f, "py_func") else numba.njit(f), like) for f in functions]
x = jnp.arange(1.0, 6.0, dtype=jnp.float32)
if TOGETHER:
    jax.jit(lambda x: [op(x) for op in ops]).lower(x)
else:
    for op in reversed(ops):
        jax.jit(op).lower(x)
print(json.dumps([made, len(started)]))
"""


@pytest.mark.once
def test_the_machine_code_is_the_same_as_that_of_a_kernel_compiled_alone(
    run_python, tmp_path, has_threads
):
    names = ["double", "mathematics", "division", "of_a_callee", "writes"]

    def run(together):
        source = f"NAMES = {names!r}\nTOGETHER = {together}\n{PROGRAM}"
        return json.loads(run_python(source, KERNBRIDGE_CACHE_DIR=str(tmp_path / str(together))))

    (made, threads), (alone, none) = run(True), run(False)
    assert threads == len(names)
    assert none == 0
    assert made == alone
    assert len(made) == len(names)
    assert all(made.values())
