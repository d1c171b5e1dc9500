"""Of processes that tests of Numba-CUDA start: they run kernels on the CPU too, and say so."""

import atexit
import json
import os

import numpy

if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack  # numba-cuda 0.30 reads it; numpy 2.5 removed it

import on_cpu
import stand_ins

on_cpu.install()
stand_ins.install()


@atexit.register
def tell() -> None:
    """Write what a test has to know of this process."""
    with open(os.environ["NUMBA_CUDA_TESTS_CHILDREN"], "a") as file:
        file.write(json.dumps([on_cpu.launches(), on_cpu.refusals()]) + "\n")
