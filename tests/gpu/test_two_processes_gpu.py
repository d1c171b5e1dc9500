"""A process for each of two GPUs, by `jax.distributed` over the loopback device and NCCL."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import pytest

pytest.importorskip("numba.cuda")
pytestmark = [
    pytest.mark.gpu_only("tests/python/test_two_processes.py has two processes on the CPU"),
    pytest.mark.skipif(len(jax.devices()) < 2, reason="needs two GPUs"),
]
HELPERS = Path(__file__).parents[1] / "python"
PROGRAM = """
import sys
import numpy
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
sys.path.insert(0, sys.argv[1])
import two_processes
rank = int(sys.argv[2])
two_processes.run(rank, int(sys.argv[3]), sys.argv[4] == "True", [rank])
"""


@pytest.mark.parametrize("in_turn", [True, False])
def test_a_process_for_each_gpu(tmp_path, in_turn):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    environment = {
        **os.environ,
        "KERNBRIDGE_CACHE_DIR": str(tmp_path / "cache"),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    (tmp_path / "program.py").write_text(PROGRAM)
    team = [
        subprocess.Popen(
            [sys.executable, "program.py", str(HELPERS), str(rank), str(port), str(in_turn)],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        printed = [process.communicate(timeout=300) for process in team]
    finally:
        for process in team:
            process.kill()
    made = []
    for process, (out, err) in zip(team, printed, strict=True):
        assert process.returncode == 0, out + err
        kinds, *others = json.loads(out.splitlines()[-1])
        assert others == [["all-reduce"], 2, 2]
        made.append(kinds)
    assert made[0]
    if in_turn:
        assert made[1] == []
