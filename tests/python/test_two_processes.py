"""Two processes of one program, by `jax.distributed` over the loopback device.

Each has two devices of a mesh of four. They share the folder of compiled kernels, and the processor
of the machine: that what they compute is right says that neither disturbs the other there.
"""

import json
import os
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor

import forks
import pytest
from conftest import HERE, MENDED, WITHOUT_FAKE, path_with

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
CXX = shutil.which(os.environ.get("CXX", "c++"))
pytestmark = [pytest.mark.once, pytest.mark.skipif(CXX is None, reason="no C++ compiler")]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def both(tmp_path):
    """Run both processes; what each of them made, and how often the C++ compiler built."""
    log = tmp_path / "log"
    log.touch()
    compiler = tmp_path / "counting-c++"
    compiler.write_text(f'#!/bin/sh\n[ "$1" = --version ] || echo "$@" >> {log}\nexec {CXX} "$@"\n')
    compiler.chmod(0o755)
    environment = {
        **os.environ,
        **WITHOUT_FAKE,
        "PYTHONPATH": path_with(HERE),
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "KERNBRIDGE_CACHE_DIR": str(tmp_path / "cache"),
        "CXX": str(compiler),
    }

    def run(*, in_turn):
        port = free_port()

        def start(rank):
            script = tmp_path / f"process_{rank}.py"
            program = f"import two_processes\ntwo_processes.run({rank}, {port}, {in_turn})\n"
            script.write_text(MENDED + program)
            return forks.run(script, environment, timeout=120)

        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(start, range(2)))
        made = []
        for each in done:
            assert each.returncode == 0, each.stdout + each.stderr
            kinds, *others = json.loads(each.stdout.splitlines()[-1])  # behind Gloo's
            assert others == [["all-reduce"], 2, 4]
            made.append(kinds)
        return made, log.read_text().count("\n")

    return run


@pytest.mark.exhaustive
def test_what_the_first_process_compiled_the_second_does_not(both):
    (first, second), n_builds = both(in_turn=True)
    assert {"square", "matvec"} < set(first)
    assert second == []
    assert n_builds == 1


@pytest.mark.exhaustive
def test_processes_that_compile_at_once(both):
    made, n_builds = both(in_turn=False)
    assert all(made)
    assert n_builds == 1
