"""The pytest plugin of kernbridge: `pytest --cuda-on-cpu` runs a suite of CUDA tests without a GPU.

Nothing but pytest is imported here unless the option is given, or KERNBRIDGE_CUDA_ON_CPU is set:
every pytest of an environment in which kernbridge is installed imports this module.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from typing import Any

import pytest

_VARIABLE = "KERNBRIDGE_CUDA_ON_CPU"
_MOST = 20  # lines of refusals in the summary


class _Mode(argparse.Action):
    """The option, as two that take no value: the next argument may be the name of a file."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        namespace.cuda_on_cpu = "check" if str(option).endswith("check") else "run"


def pytest_addoption(parser: Any) -> None:
    """Add the option. Errors about another value name both of its forms."""
    parser.getgroup("kernbridge").addoption(
        *("--cuda-on-cpu", "--cuda-on-cpu=check"),
        action=_Mode,
        nargs=0,
        dest="cuda_on_cpu",
        help="run the CUDA kernels that Numba launches on the CPU; with =check, find accesses out "
        "of bounds, data races and more, too",
    )


def pytest_load_initial_conftests(early_config: Any) -> None:
    """Switch before any conftest or test module imports numba.cuda."""
    chosen = early_config.known_args_namespace.cuda_on_cpu
    if chosen is None and os.environ.get(_VARIABLE, "0") in ("", "0"):
        return
    if chosen is not None:  # also for processes that tests start
        os.environ[_VARIABLE] = "check" if chosen == "check" else "1"
    try:
        from kernbridge._ext.emulator.device.switch import install_from_environment
        from kernbridge._src.base import debug

        debug.switch_on("count")
        install_from_environment()
    except Exception as e:
        raise pytest.UsageError(f"--cuda-on-cpu: {e}") from e
    early_config.pluginmanager.register(_Summary(), "kernbridge-cuda-on-cpu")


class _Summary:
    """Reports at the end which kernels ran, also in pytest-xdist's workers."""

    def __init__(self) -> None:
        self._of_workers: list[dict[str, Any]] = []

    def pytest_sessionfinish(self, session: Any) -> None:
        """Hand what a worker of pytest-xdist has seen to its controller."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["kernbridge"] = _seen()

    @pytest.hookimpl(optionalhook=True)  # a hook of pytest-xdist, which few have
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        found = getattr(node, "workeroutput", {}).get("kernbridge")
        if found:
            self._of_workers.append(found)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for line in _lines([_seen(), *self._of_workers]):
            terminalreporter.write_line(line)


def _seen() -> dict[str, Any]:
    from kernbridge import _core
    from kernbridge._ext.emulator.cuda_source import refusals
    from kernbridge._ext.emulator.device import mode

    checked = mode.current() == mode.CHECK
    return {"launched": _core.launches(), "refused": refusals, "checked": checked}


def _lines(seen: list[dict[str, Any]]) -> list[str]:
    launched, faults = Counter[str](), Counter[str]()
    for name, (n, n_faults) in (kernel for s in seen for kernel in s["launched"].items()):
        if not name.startswith("kernbridge."):  # its own kernels
            launched[name] += n
            faults[name] += n_faults
    launched, faults = +launched, +faults  # without zeros
    refused = {name: message for s in seen for name, message in s["refused"].items()}
    how = "checked, " if seen[0]["checked"] else ""
    lines = [
        f"CUDA kernels on the CPU: {len(launched)} ran ({how}{launched.total()} launches), "
        f"{len(faults)} with a fault, {len(refused)} refused"
    ]
    lines += [
        f"  fault: {name} ({count} launch{'es' * (count > 1)})"
        for name, count in sorted(faults.items())
    ]
    lines += [f"  refused: {message}" for _, message in sorted(refused.items())]
    more = len(lines) - 1 - _MOST
    return lines if more <= 0 else [*lines[: 1 + _MOST], f"  ... and {more} more"]
