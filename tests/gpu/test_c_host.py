"""The C host on a GPU: the network of the demo with CUDA kernels, by JAX's own plugin.

KERNBRIDGE_PJRT_INCLUDE is the folder of a pjrt_c_api.h (by default that of the package
xla-cpu-pjrt), and KERNBRIDGE_PJRT_PLUGIN the plugin (by default that of JAX's CUDA wheel). With
`pytest -s` the time of a step is printed, of the host and of JAX.
"""

import importlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import coba_cuda
import jax
import kernbridge
import numpy as np
import pytest
from c_flags import c_flags

coba = coba_cuda.coba
ROOT = Path(__file__).parents[2]
STEPS, SPIKES = 10_000, 77_906

pytestmark = pytest.mark.gpu_only("tests/python/ext/embed runs a C host on the CPU")


def folder_of(*packages):
    """The folder of the first of these packages that is installed, or None."""
    for name in packages:
        try:
            return Path(next(iter(importlib.import_module(name).__path__)))
        except ImportError:
            continue
    return None


def plugin():
    """JAX's plugin for CUDA."""
    if given := os.environ.get("KERNBRIDGE_PJRT_PLUGIN"):
        return given
    folder = folder_of("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12")
    if folder is None or not (folder / "xla_cuda_plugin.so").is_file():
        pytest.skip("JAX's CUDA plugin is not installed")
    return str(folder / "xla_cuda_plugin.so")


def include():
    """The folder of pjrt_c_api.h."""
    if given := os.environ.get("KERNBRIDGE_PJRT_INCLUDE"):
        return given
    folder = folder_of("xla_plugins.xla_cpu_pjrt")
    if folder is None:
        pytest.skip("no pjrt_c_api.h: set KERNBRIDGE_PJRT_INCLUDE, or install xla-cpu-pjrt")
    return str(folder / "include")


@pytest.fixture(scope="module")
def network():
    """The parameters, the network and its model."""
    params = coba.Params()
    net = coba.build_network(params, 1)
    return net, coba_cuda.model(params, net)


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """The program, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path_factory.mktemp("c_host") / "coba"
    source = ROOT / "examples" / "c_host" / "coba.c"
    command = [compiler, "-std=c11", "-O2", f"-I{include()}", str(source)]
    command += [*c_flags(), "-ldl", "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


def environment():
    """XLA finds CUDA's files and libraries, which JAX loads from the packages of NVIDIA."""
    flags = os.environ.get("XLA_FLAGS", "")
    try:
        from jax._src.lib import cuda_path
    except ImportError:
        cuda_path = None
    if cuda_path:
        flags += f" --xla_gpu_cuda_data_dir={cuda_path}"
    nvidia = folder_of("nvidia")
    libraries = sorted(map(str, nvidia.glob("*/lib"))) if nvidia else []
    path = os.pathsep.join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")])
    return {**os.environ, "XLA_FLAGS": flags, "LD_LIBRARY_PATH": path}


def in_jax(net, model):
    """Spikes and microseconds of a step that JAX calls."""
    state, data = jax.device_put((net.start, model.data))
    step = jax.jit(model.step, donate_argnums=0).lower(state, data).compile()
    spikes = 0
    begin = time.perf_counter()
    for _ in range(STEPS):
        state, spiked = step(state, data)
        spikes += np.count_nonzero(np.asarray(spiked))
    return spikes, (time.perf_counter() - begin) / STEPS * 1e6


def test_the_demo_has_the_same_spikes_in_c_on_a_gpu(network, host, tmp_path):
    net, model = network
    step = jax.jit(model.step, donate_argnums=0)
    kernbridge.export_bundle(
        tmp_path / "b", step, net.start, model.data, platforms=["cuda"], with_values=True
    )
    command = [str(host), plugin(), str(tmp_path / "b"), str(STEPS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"^(\d+) spikes in \d+ steps, ([\d.]+) us a step", done.stdout, re.M)
    assert int(found[1]) == SPIKES
    spikes, us = in_jax(net, model)
    assert spikes == SPIKES
    print(f"C host: {found[2]} us a step; JAX: {us:.1f} us a step")


COPIED = """
#include <cuda_runtime.h>
#include "kernbridge/kernbridge.hpp"
__global__ void copy(const unsigned char *x, unsigned char *out, long n)
{
    for (long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = x[i];
}
// @BE copied arg ret stream
void copied(kernbridge::Tensor x, kernbridge::Tensor out, cudaStream_t stream)
{
    long n = x.nbytes();
    unsigned char *between;
    cudaMallocAsync((void **)&between, n, stream);
    copy<<<8, 256, 0, stream>>>((const unsigned char *)x.data_ptr(), between, n);
    cudaMemcpyAsync(out.data_ptr(), between, n, cudaMemcpyDeviceToDevice, stream);
    cudaFreeAsync(between, stream);
}
"""


def test_a_recorded_cuda_module_runs_in_c(network, host, tmp_path):
    net, model = network
    module = kernbridge.load_cuda_inline("copied", COPIED, auto_register=False, record="always")

    def copied(x):
        return module.copied(x, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))

    def step(state, data):
        state, spiked = model.step(state, data)
        return jax.tree.map(copied, state), spiked

    kernbridge.export_bundle(
        tmp_path / "b", step, net.start, model.data, platforms=["cuda"], with_values=True
    )
    command = [str(host), plugin(), str(tmp_path / "b"), str(STEPS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"{SPIKES} spikes in {STEPS} steps") == 1


def test_a_running_host_has_mapped_no_python_on_a_gpu(network, host, tmp_path):
    net, model = network
    kernbridge.export_bundle(
        tmp_path / "b", model.step, net.start, model.data, platforms=["cuda"], with_values=True
    )
    command = [str(host), plugin(), str(tmp_path / "b"), str(10**9)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout.readline().startswith("program for cuda of")
            maps = Path(f"/proc/{process.pid}/maps").read_text()
        finally:
            process.kill()
    mapped = {Path(line.split()[-1]).name for line in maps.splitlines() if "/" in line}
    assert "libkernbridge.so" in mapped
    assert not [name for name in mapped if "python" in name.lower() or name.startswith("_core")]
