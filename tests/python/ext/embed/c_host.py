"""A C program without Python that runs bundles: examples/c_host/coba.c, compiled once a session.

It hands all results of a program but the last to the next call as the first arguments, and prints
the sum of the bytes of the last.
"""

import functools
import importlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import kernbridge
import pytest
from c_flags import c_flags

ROOT = Path(__file__).parents[4]
_folder = tempfile.TemporaryDirectory(prefix="kernbridge-")  # removed at the end of the process
SOURCE = ROOT / "examples" / "c_host" / "coba.c"


def plugin():
    """The PJRT plugin and the folder of pjrt_c_api.h: KERNBRIDGE_PJRT_PLUGIN and
    KERNBRIDGE_PJRT_INCLUDE, or those of xla-cpu-pjrt."""
    library = os.environ.get("KERNBRIDGE_PJRT_PLUGIN")
    include = os.environ.get("KERNBRIDGE_PJRT_INCLUDE")
    try:
        (folder,) = importlib.import_module("xla_plugins.xla_cpu_pjrt").__path__
        library = library or f"{folder}/xla_cpu_pjrt.so"
        include = include or f"{folder}/include"
    except ImportError:
        if not (library and include):
            pytest.skip("there is no PJRT plugin: pip install xla-cpu-pjrt")
    return library, include


@functools.cache
def compiled():
    """The path of the program."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    _, include = plugin()
    program = Path(_folder.name, "coba")
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{include}", str(SOURCE)]
    command += [*c_flags(), "-ldl", "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


def export(folder, function, *args):
    """Write a bundle with the values of its arguments, for the StableHLO of the plugin."""
    kernbridge.export_bundle(folder, function, *args, with_values=True, stablehlo_version="1.13.0")


def command(bundle, steps):
    """What starts the program."""
    return [str(compiled()), plugin()[0], str(bundle), str(steps)]


def run(bundle, steps=1):
    """Run the program; returns the sum that it prints."""
    done = subprocess.run(command(bundle, steps), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(re.search(r"^(\d+) spikes", done.stdout, re.M)[1])


def error(bundle, steps=1):
    """Run the program, which fails; returns its message."""
    done = subprocess.run(command(bundle, steps), capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr
