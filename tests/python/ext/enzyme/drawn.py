"""Compares what is drawn for many seeds, in several processes, and prints how that ends."""

import functools
import os
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import jax
from kernbridge.errors import NoDerivativeError


def _outcome(compare, seed):
    began = sum(os.times()[:4])
    kind, text = "agrees", ""
    try:
        compare(seed)
    except NoDerivativeError as e:
        kind, text = "refused", f"{e}\n{e.__notes__[0]}"
    except Exception as e:
        kind = "disagrees" if isinstance(e, AssertionError) else "fails"
        text = "".join(traceback.format_exception(e))
    jax.clear_caches()
    return seed, kind, text, sum(os.times()[:4]) - began


def main(compare, first, last, processes=None, may_refuse=False):
    """The status of a program that compares the seeds from `first` to `last` - 1."""
    counts, spent = Counter(), 0.0
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        outcomes = pool.map(functools.partial(_outcome, compare), range(first, last))
        for seed, kind, text, seconds in outcomes:
            counts[kind] += 1
            spent += seconds
            if text:
                print(f"{seed} {kind}: {text}", flush=True)
    print(dict(counts), f"{spent / max(1, counts.total()):.1f} s of one core for each")
    allowed = {"agrees", "refused"} if may_refuse else {"agrees"}
    return 0 if counts.keys() <= allowed and counts else 1
