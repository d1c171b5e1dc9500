"""The network of examples/coba.py on a GPU, for tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import coba


def model(p, net):
    """A step of the network, as `coba.kernel_model` has it."""
    return coba.kernel_model(p, net, cuda=True)
