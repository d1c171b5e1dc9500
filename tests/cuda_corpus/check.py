"""Kernels on the CPU against the values that a GPU gave; with and without bugs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from .bugs import planted
from .case import Case, cases

VALUES = Path(__file__).with_name("values.npz")
KEEP = "run `python -m cuda_corpus.keep --into cuda_corpus` in tests/ on a machine with a GPU"


def kept(case: Case, values: np.lib.npyio.NpzFile) -> list[np.ndarray]:
    """What the GPU gave.

    Raises
    ------
    LookupError
        If there are no values of this case, or they are of other inputs.
    """
    names = [f"{case.name}/{i}" for i in range(len(case.outs))]
    digest = f"{case.name}/inputs"
    if any(name not in values for name in (digest, *names)):
        raise LookupError(f"{case.name}: no values are kept; {KEEP}")
    if int(values[digest]) != case.digest():
        raise LookupError(f"{case.name}: the kept values are of other inputs; {KEEP}")
    return [values[name] for name in names]


def problems(case: Case, want: Sequence[np.ndarray]) -> list[str]:
    """What is wrong with the outputs on this device; nothing if they are as wanted."""
    try:
        return case.differences(case.run(), want)
    except Exception as e:
        return [f"{case.name}: {e}"]


def unnoticed(case: Case, want: Sequence[np.ndarray]) -> list[str]:
    """Why the case's bug does not make it fail; nothing if it does.

    The kernel is lowered anew, and its outputs begin as zeros: not as what they shall be.
    """
    import jax

    _forget(case)
    try:
        with planted(case.bug):
            got = replace(case, zero_outputs=True).run()
    except jax.errors.JaxRuntimeError:  # while it ran
        return []
    except Exception as e:
        return [f"{case.name}: with the bug {case.bug!r}: {e}"]
    finally:
        _forget(case)
    if case.differences(got, want):
        return []
    return [f"{case.name}: notices nothing of the bug {case.bug!r}"]


def _forget(case: Case) -> None:
    """Let the next call of the kernel be lowered anew."""
    from kernbridge._src.base import lru

    vars(case.kernel).pop(lru._ATTRIBUTE, None)


def check(group: str, bugs: int | None = None, values: Path = VALUES) -> None:
    """Print what is wrong with the cases of a group on the CPU, as a JSON list.

    So many bugs are planted, one in a case; by default each of them.
    """
    import jax

    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    if not values.exists():
        print(json.dumps([f"no values are kept; {KEEP}"]))
        return
    found, known = [], []
    with np.load(values) as archive:
        for case in cases(group):
            try:
                known.append((case, kept(case, archive)))
            except LookupError as e:
                found.append(str(e))
    # Bugs first: shared memory then holds nothing that the same kernel left there without one.
    deaf = [why for case, want in known[:bugs] for why in unnoticed(case, want)]
    wrong = [why for case, want in known for why in problems(case, want)]
    found += wrong or deaf
    print(json.dumps(found))
