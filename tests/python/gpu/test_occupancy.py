"""The occupancy of a launch is what NVIDIA's own calculator says, for every architecture."""

import ctypes
import itertools
import subprocess
from pathlib import Path

import fake_gpu
import pytest
from kernbridge._src.cuda_kernel import nvrtc
from kernbridge._src.gpu import occupancy

pytestmark = pytest.mark.once
CALCULATOR = """
#include <cuda_occupancy.h>
int blocks(int major, int minor, int sm_threads, int sm_shared, int reserved, int threads,
           int registers, int shared)
{
    cudaOccDeviceProp gpu = {major, minor, 1024, sm_threads, 65536, 65536, 32, 48 << 10,
                             sm_shared, 1, sm_shared - reserved, reserved};
    cudaOccFuncAttributes kernel = {1024, registers, shared, PARTITIONED_GC_OFF,
                                    FUNC_SHMEM_LIMIT_OPTIN, 0, 1, 0};
    cudaOccDeviceState state = {CACHE_PREFER_NONE, SHAREDMEM_CARVEOUT_DEFAULT};
    cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &gpu, &kernel, &state, threads, 0))
        return -1;
    return result.activeBlocksPerMultiprocessor;
}
int can_have_shared(int major, int minor, size_t size)
{
    cudaOccDeviceProp gpu = {major, minor};
    return cudaOccAlignUpShmemSizeVoltaPlus(&size, &gpu) == CUDA_OCC_SUCCESS;
}
"""
THREADS = (1, 32, 33, 64, 96, 256, 288, 768, 1024)
REGISTERS = (0, 16, 17, 32, 40, 64, 128, 168, 255)
SHARED = (0, 1, 1024, 12345, 48 << 10, 60 << 10, 99 << 10, 200 << 10)


def header():
    """The folder of cuda_occupancy.h, or None."""
    try:
        folders = [Path(nvrtc.library()).parents[1] / "include", Path("/usr/local/cuda/include")]
    except Exception:
        folders = [Path("/usr/local/cuda/include")]
    return next((f for f in folders if (f / "cuda_occupancy.h").is_file()), None)


@pytest.fixture(scope="module")
def calculator(tmp_path_factory):
    if header() is None or fake_gpu.compiler() is None:
        pytest.skip("no cuda_occupancy.h, or no C compiler")
    folder = tmp_path_factory.mktemp("occupancy")
    (folder / "calculator.c").write_text(CALCULATOR)
    command = [fake_gpu.compiler(), "-shared", "-fPIC", "-w", f"-I{header()}", "calculator.c"]
    subprocess.run([*command, "-o", "calculator.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "calculator.so"))


@pytest.mark.parametrize("architecture", occupancy.LIMITS)
def test_it_is_what_the_calculator_says(calculator, architecture):
    blocks = calculator.blocks
    limits, reserved = occupancy.LIMITS[architecture], occupancy.reserved(architecture)
    gpu = (*divmod(architecture, 10), limits.threads, limits.shared, reserved)
    for threads, registers, shared in itertools.product(THREADS, REGISTERS, SHARED):
        expected = blocks(*gpu, threads, registers, shared)
        if expected < 0:
            expected = 0
        warps = -(-threads // 32)
        found = occupancy.occupancy(architecture, threads, registers, shared)
        assert found == expected * warps * 32 / limits.threads, (threads, registers, shared)


@pytest.mark.parametrize("architecture", occupancy.LIMITS)
def test_no_multiprocessor_has_more_shared_memory(calculator, architecture):
    can_have = calculator.can_have_shared
    can_have.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_size_t)
    most = occupancy.LIMITS[architecture].shared
    assert can_have(*divmod(architecture, 10), most)
    assert not can_have(*divmod(architecture, 10), most + 1)


def test_what_is_not_known_has_no_occupancy():
    assert occupancy.occupancy(70, 128, 32, 0) is None


def test_what_does_not_fit_occupies_nothing():
    assert occupancy.occupancy(90, 2048, 32, 0) == 0
    assert occupancy.occupancy(90, 1024, 256, 0) == 0
    assert occupancy.occupancy(90, 128, 32, 228 << 10) == 0
