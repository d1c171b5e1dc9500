"""Launches of Numba's own on the CPU, in a process that uses a GPU before and afterwards."""

import gc
import threading

import kernbridge
import numpy as np
import pytest
from numba import cuda

pytestmark = [
    pytest.mark.gpu_only("is about a GPU that is used again"),
    pytest.mark.filterwarnings("ignore::numba.cuda.core.errors.NumbaPerformanceWarning"),
]
N = 1000


@cuda.jit(device=True)
def added(x, y):
    return x + y


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = added(x[i], 1)


def gpu_name():
    return str(cuda.get_current_device().name)


def test_a_kernel_runs_on_the_gpu_on_the_cpu_and_on_the_gpu_again():
    @cuda.jit("void(float64[::1])")
    def declared(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = added(x[i], 2)

    x, stream = np.zeros(N), cuda.stream()
    name, handle = gpu_name(), int(cuda.current_context().handle)
    on_gpu = cuda.to_device(x, stream=stream)
    add_one[4, 256, stream](on_gpu)
    declared[4, 256, stream](on_gpu)
    with kernbridge.cuda_on_cpu(check=True):
        assert gpu_name() == "the CPU, by kernbridge"
        on_cpu = cuda.to_device(x)
        add_one[4, 256](on_cpu)
        declared[4, 256](on_cpu)
        np.testing.assert_array_equal(on_cpu.copy_to_host(), np.full(N, 3.0))
        for use in (add_one[4, 256], lambda x: x.copy_to_host(), lambda x: x[0]):
            with pytest.raises(TypeError, match="copy it to the host first"):
                use(on_gpu)
    assert (gpu_name(), int(cuda.current_context().handle)) == (name, handle)
    add_one[4, 256, stream](on_gpu)
    declared[4, 256, stream](on_gpu)
    np.testing.assert_array_equal(on_gpu.copy_to_host(stream=stream), np.full(N, 6.0))
    assert "ld.global" in next(iter(add_one.inspect_asm().values()))


def test_a_kernel_made_inside_runs_on_the_gpu_outside():
    with kernbridge.cuda_on_cpu():

        @cuda.jit("void(float64[::1])")
        def made(x):
            i = cuda.grid(1)
            if i < x.size:
                x[i] = added(x[i], 5)

        x = np.zeros(N)
        configured = made[4, 256]
        configured(x)
    on_gpu = cuda.to_device(x)
    made[4, 256](on_gpu)
    configured(on_gpu)
    np.testing.assert_array_equal(on_gpu.copy_to_host(), np.full(N, 15.0))


def test_arrays_streams_and_events_end_anywhere():
    def kept():
        things = [cuda.device_array(N), cuda.pinned_array(N), cuda.mapped_array(N)]
        return [*things, cuda.managed_array(N), cuda.stream(), cuda.event()]

    for _ in range(20):  # more than Numba keeps before it frees
        on_gpu = kept()
        with kernbridge.cuda_on_cpu():
            on_cpu = kept()
            del on_gpu
            gc.collect()
        del on_cpu
        gc.collect()
    cuda.current_context().memory_manager.deallocations.clear()
    cuda.synchronize()
    x = cuda.to_device(np.zeros(N))
    add_one[4, 256](x)
    np.testing.assert_array_equal(x.copy_to_host(), np.ones(N))


def test_threads_on_the_gpu_and_on_the_cpu_at_once():
    faults = []

    def work(on_cpu):
        try:
            for _ in range(200):
                x = cuda.to_device(np.zeros(N))
                add_one[4, 256](x)
                assert (gpu_name() == "the CPU, by kernbridge") == on_cpu
                np.testing.assert_array_equal(x.copy_to_host(), np.ones(N))
        except BaseException as e:
            faults.append(e)

    def on_cpu():
        with kernbridge.cuda_on_cpu():
            work(True)

    threads = [threading.Thread(target=on_cpu), threading.Thread(target=work, args=(False,))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
