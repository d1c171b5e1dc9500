"""`kernbridge cuda-on-cpu script.py`: a script that need not know of kernbridge."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from kernbridge._src.cuda_device.switch import VARIABLE, cuda_on_cpu


def run(script: str, arguments: Sequence[str], check: bool) -> None:
    """Run a script as Python does, with the launches of its CUDA kernels on the CPU.

    Processes that it starts do the same once they import kernbridge.
    """
    os.environ[VARIABLE] = "check" if check else "1"
    cuda_on_cpu(check=check).install()
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")
