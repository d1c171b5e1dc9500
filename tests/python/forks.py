"""Programs in processes of their own, forked from one that has imported JAX and Numba.

Importing them and compiling something for the first time takes three seconds, and most programs
of these tests take less than one. Each starts from a process that has imported JAX without
starting it, has compiled a function with Numba and one with Numba-CUDA, and has not imported
kernbridge. A program that looks at ``sys.modules`` starts from one that has imported only JAX.
There are two such processes of each kind, which take turns: they have hash seeds and addresses of
their own, so that what one program stores and the next one finds can depend on neither.
"""

import atexit
import gc
import json
import os
import select
import signal
import subprocess
import sys
import types
from contextlib import suppress
from importlib import import_module
from itertools import cycle
from pathlib import Path

JAX = ("jax.numpy", "jax.export")
ALL = (*JAX, "numba", "numba.cuda")

# What JAX, Numba and Python read when they are imported must be as it was in the parent.
MAY_DIFFER = ("KERNBRIDGE_", "XLA_FLAGS", "PYTHONPATH", "PYTEST_", "HOME", "XDG_", "CC", "CXX")


class Parent:
    """A process that has imported modules, and forks one program after the other."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self.environment = dict(os.environ)
        self.process = subprocess.Popen(
            [sys.executable, __file__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        atexit.register(self.end)

    def suits(self, environment: dict[str, str]) -> bool:
        """Whether a program with this environment may be forked here."""
        before, after = self.environment.items(), environment.items()
        return all(name.startswith(MAY_DIFFER) for name, _ in before ^ after)

    def run(
        self, script: Path, environment: dict[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a script in its own folder, as `subprocess.run` does."""
        printed = [script.with_suffix(".stdout"), script.with_suffix(".stderr")]
        request = [str(script), environment, *map(str, printed)]
        print(json.dumps(request), file=self.process.stdin, flush=True)
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            self.end()
            raise subprocess.TimeoutExpired(str(script), timeout)
        status = int(self.process.stdout.readline())
        out, err = (path.read_text(errors="replace") for path in printed)
        return subprocess.CompletedProcess(str(script), status, out, err)

    def end(self) -> None:
        """Kill the process and the program that it runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


_parents: dict[tuple[tuple[str, ...], int], Parent] = {}
_turns = cycle(range(2))


def _parent(modules: tuple[str, ...], turn: int) -> Parent:
    """Return the parent whose turn it is; a new one if a program that took too long ended it."""
    parent = _parents.get((modules, turn))
    if parent is None or parent.process.poll() is not None:
        parent = _parents[modules, turn] = Parent(modules)
    return parent


def run(
    script: Path, environment: dict[str, str], timeout: float, turn: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script in its own folder and with an environment of its own.

    A script whose environment decides how JAX or Numba are imported starts from the beginning.
    Two threads may run a script each. A caller that passes the number of its turn starts the
    second process only if it runs a second program.
    """
    modules = JAX if "sys.modules" in script.read_text() else ALL
    parent = _parent(modules, next(_turns) if turn is None else turn % 2)
    if parent.suits(environment):
        return parent.run(script, environment, timeout)
    return subprocess.run(
        [sys.executable, "-B", str(script)],
        env=environment,
        cwd=script.parent,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def serve(modules: list[str]) -> list:
    """Fork a process for each request; returns the request in that process."""
    import numpy

    if not hasattr(numpy, "row_stack"):
        numpy.row_stack = numpy.vstack  # numba-cuda 0.30 reads it; numpy 2.5 removed it
    for name in modules:
        with suppress(ImportError):  # Numba-CUDA may be absent
            import_module(name)
    if "numba" in modules:
        compile_something()
    # What one program imports may be rewritten before the next runs, with the same size and within
    # the same second, and its compiled code would then be taken for current.
    sys.dont_write_bytecode = True
    gc.freeze()  # a program that ends need not walk through all of that
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            return json.loads(line)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    os._exit(0)


def compile_something() -> None:
    """Let Numba and Numba-CUDA prepare what they need for every kernel."""
    import numba

    def add(x, out):
        out[:] = x + 1

    numba.njit(add).compile("void(f4[::1], f4[::1])")
    with suppress(Exception):  # without NVVM or Numba-CUDA
        from numba import cuda

        def add_one(x, out):
            i = cuda.grid(1)
            if i < x.size:
                out[i] = x[i] + 1

        cuda.compile(add_one, numba.void(numba.float32[::1], numba.float32[::1]), cc=(9, 0))


def become(script: str, environment: dict[str, str], out: str, err: str) -> types.CodeType:
    """Let this process look like one that runs a script; returns its code."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for kept, opened in enumerate(
        (os.open(os.devnull, os.O_RDONLY), os.open(out, flags), os.open(err, flags))
    ):
        os.dup2(opened, kept)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    folder = os.path.dirname(script)
    os.chdir(folder)
    sys.argv = [script]
    sys.path[:1] = [folder, *environment.get("PYTHONPATH", "").split(os.pathsep)]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = script
    report = sys.excepthook
    sys.excepthook = lambda kind, e, trace: report(kind, e, trace.tb_next)  # without the line below
    return compile(Path(script).read_text(), script, "exec")


if __name__ == "__main__":
    code = become(*serve(sys.argv[1:]))
    exec(code, sys.modules["__main__"].__dict__)
