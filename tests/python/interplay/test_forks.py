"""A process that is forked has no threads of XLA, and must not wait for them."""

import fake_gpu
import pytest

pytestmark = pytest.mark.once

IN_CHILD = """
def in_child(work):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60, exit=True)
        status = 1
        try:
            work()
            status = 0
        except BaseException as e:
            print(type(e).__name__, str(e).splitlines()[0], flush=True)
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""

KERNELS = """
import faulthandler, os, sys, threading, time, warnings
import jax, jax.numpy as jnp, numba, numpy as np
import kernbridge
warnings.simplefilter("ignore")  # JAX's, about fork

@numba.njit
def kernel(x, out):
    for i in range(len(x)):
        out[i] = 2 * x[i]

def make():
    return kernbridge.numba_kernel(kernel, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))

op = make()
x = np.arange(100_000, dtype=np.float32).reshape(100, 1000)

def right(function):
    assert np.array_equal(function(x), 2 * x)
"""
KERNELS += IN_CHILD

CHILDREN = {
    "the operation": "right(op)",
    "a function that is jitted in the child": "right(jax.jit(op))",
    "a vmap": "right(jax.vmap(op))",
    "an operation that is made in the child": "right(make())",
    "an export": "jax.export.export(jax.jit(op))(x)",
}
REFUSED = (
    "KernelError numba_kernel 'kernel': this process was forked after JAX had started, and does "
    'not have JAX\'s threads; start it with the method "spawn" or "forkserver" of '
    "multiprocessing, or fork before the first use of JAX [KB7008]"
)


@pytest.mark.exhaustive
def test_the_child_is_refused_and_the_parent_goes_on(run_python):
    work = [f"assert in_child(lambda: {call}) == 1" for call in CHILDREN.values()]
    printed = run_python(
        "\n".join(
            (
                KERNELS,
                "right(op); right(jax.vmap(op))",
                *work,
                "right(op)",
                "right(jax.jit(make()))",
            )
        )
    )
    assert printed.splitlines() == [REFUSED] * len(CHILDREN)


def test_a_child_of_a_process_that_has_not_started_jax_works(run_python):
    run_python(
        f"{KERNELS}\n"
        "def work():\n"
        "    right(op)\n"
        "    right(jax.vmap(op))\n"
        "assert in_child(work) == 0\n"
        "right(op)\n"
        "assert in_child(work) == 1\n"
    )


BUSY = """
right(op)
running = True

def call():
    while running:
        right(jax.jit(jax.vmap(make())))

threads = [threading.Thread(target=call) for _ in range(3)]
for thread in threads:
    thread.start()
statuses = []
for _ in range(10):
    statuses.append(in_child(lambda: right(op)))
    time.sleep(0.01)
running = False
for thread in threads:
    thread.join()
assert statuses == [1] * 10, statuses
right(op)
"""


@pytest.mark.exhaustive
def test_forks_while_threads_compile_and_call(run_python):
    run_python(KERNELS + BUSY)


STARTED = """
import multiprocessing, sys
import numpy as np

def work(queue):
    import kernels

    kernels.right(kernels.op)
    kernels.right(kernels.jax.vmap(kernels.op))
    queue.put("right")

if __name__ == "__main__":
    import kernels

    kernels.right(kernels.op)
    context = multiprocessing.get_context(sys.argv[1] if len(sys.argv) > 1 else METHOD)
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get(timeout=120))
    process.join(60)
    assert process.exitcode == 0
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_process_that_is_started_otherwise_works(method, run_python, tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    assert run_python(STARTED.replace("METHOD", repr(method))) == "right\n"


ON_A_GPU = """
import fake_gpu
fake_gpu.install()  # a driver that executes, in place of a GPU's
import faulthandler, os, sys, warnings
import jax, numpy as np
import kernbridge
from numba import cuda
warnings.simplefilter("ignore")

@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 2 * x[i]

def twice(x, out, stream):
    kernel[4, 64, stream](x, out)
    kernel[4, 64, stream](x, out)

def same(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)

def make():
    return kernbridge.numba_cuda_kernel(
        kernel, same, launch_dims=lambda x: x.size, threads_per_block=64
    )

op = make()
recorded = kernbridge.numba_cuda_callable(twice, same, record="always")
x = np.arange(200, dtype=np.float32)
driver = fake_gpu.FakeDriver()

def right(function):
    before = len(driver.launches)
    assert np.array_equal(function(x), 2 * x)
    assert len(driver.launches) > before
"""


@pytest.fixture
def with_fake_gpu():
    if fake_gpu.compiler() is None:
        pytest.skip("no C compiler to build the fake CUDA driver with")
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("with_fake_gpu")
def test_the_child_of_a_process_that_used_a_gpu_is_refused(run_python):
    printed = run_python(
        f"{ON_A_GPU}\n{IN_CHILD}\n"
        "right(op); right(recorded)\n"
        "for function in (op, recorded, jax.jit(op), make()):\n"
        "    assert in_child(lambda: right(function)) == 1\n"
        "right(op); right(recorded)\n"
    )
    assert printed.count("[KB7008]\n") == len(printed.splitlines()) == 4, printed


@pytest.mark.exhaustive
@pytest.mark.usefixtures("with_fake_gpu")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_process_that_is_started_otherwise_uses_the_gpu(method, run_python, tmp_path):
    (tmp_path / "kernels.py").write_text(ON_A_GPU)
    work = "kernels.right(kernels.op)\n    kernels.right(kernels.recorded)"
    program = STARTED.replace("kernels.right(kernels.jax.vmap(kernels.op))", work)
    assert run_python(program.replace("METHOD", repr(method))) == "right\n"
