"""Everything at once: threads that trace, compile, call, fail, clear and replace, by a seed.

    python tests/flood/flood.py --seconds 300 --platform cpu --threads 8 --seed 1

Prints the seed, what was done, and how memory, open files and threads developed. Status 0: all
values were those of NumPy, nothing hung, nothing grew too far. 1: a value or an error was wrong. 2:
something grew. 3: something hung; the stacks of all threads are printed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import faulthandler
import gc
import json
import math
import os
import random
import sys
import tempfile
import threading
import time
import traceback
import warnings
from pathlib import Path

import planted

HANGS_AFTER = 180.0
"""Seconds for one action; the longest ones compile C++ on a busy machine."""
LONG = 60.0
"""Seconds of a flood that has C++ and nvcc, and compiles every kernel first, since that lasts."""
SAMPLES, FEW_SAMPLES = 20, 2
"""Of the process, at times when no action is under way; in long floods and in others."""
# What a line through the samples of the second half may gain there; MiB, and numbers.
# JAX alone gains up to 7 MiB of resident memory, and 0.2 MiB of those that malloc gives out. Its
# pool of threads that compile for GPUs fills up slowly, so these are not counted.
# Kernels last: each new shape of a CUDA kernel is one, so their number is only shown, and each may
# leave memory behind (growth.py measures how much).
MAY_GROW = {"memory": 12.0, "allocated": 2.0, "GPU memory": 1.0}
MAY_GROW |= {"files": 2.0, "threads": 2.0}
OF_A_KERNEL = {"memory": 0.25, "allocated": 0.25}


class Watch:
    """Ends the process, with the stacks of all threads, when an action takes too long.

    A thread of faulthandler's, which needs no GIL, does so too, if this one cannot run.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.begun: dict[int, tuple[float, str]] = {}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        while not self.ended.wait(1):
            now = time.monotonic()
            for number, (begun, name) in list(self.begun.items()):
                if now - begun > self.limit:
                    print(f"hung: thread {number} in {name} for {self.limit:.0f} s", flush=True)
                    faulthandler.dump_traceback(all_threads=True)
                    os._exit(3)
            faulthandler.dump_traceback_later(self.limit, exit=True)
        faulthandler.cancel_dump_traceback_later()

    def end(self) -> None:
        self.ended.set()
        self.thread.join()


class Flood:
    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        import actions
        import kinds

        self.actions = actions
        found = kinds.all_kinds(options.platform, options.kernels, options.seconds >= LONG)
        if options.plant:
            planted.FAULTS[options.plant](found, actions.WEIGHTS)
        ours = options.kernels == "ours"
        self.workers = [
            actions.Worker(i, options.seed, found, folder, ours) for i in range(options.threads)
        ]
        self.watch = Watch(options.limit)
        self.done: collections.Counter[str] = collections.Counter()
        self.longest = 0.0
        self.failures: list[str] = []
        self.names: list[collections.Counter[str]] = []  # of threads, after each epoch
        self.end_of_epoch = 0.0

    def work(self, worker) -> None:
        weights = self.actions.WEIGHTS
        while time.monotonic() < self.end_of_epoch and not self.failures:
            (action,) = worker.draw.choices(list(weights), list(weights.values()))
            begun = time.monotonic()
            self.watch.begun[worker.number] = begun, action.__name__
            try:
                action(worker)
            except BaseException:
                self.failures.append(f"thread {worker.number}: {traceback.format_exc()}")
            finally:
                del self.watch.begun[worker.number]
            self.done[action.__name__] += 1
            self.longest = max(self.longest, time.monotonic() - begun)

    def warm_up(self) -> None:
        """Compile each kernel once, so that what lasts in a process is there."""
        worker = self.workers[0]
        for kind in worker.kinds:
            for c in range(kind.constants):
                self.watch.begun[0] = time.monotonic(), f"the warm-up of {kind.name}"
                self.actions.compile_once(worker, kind, c)
        del self.watch.begun[0]

    def epoch(self, seconds: float) -> dict[str, float]:
        """Let the threads work, then sample the process."""
        self.end_of_epoch = time.monotonic() + seconds
        threads = [threading.Thread(target=self.work, args=(w,)) for w in self.workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = sample()
        self.names.append(thread_names())
        return taken


class MallocInfo(ctypes.Structure):
    """What mallinfo2 returns."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")),
        *((name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks")),
        ("keepcost", ctypes.c_size_t),
    )


def in_use() -> int | None:
    """Return the bytes that malloc has given out; None before glibc 2.33."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return None
    ask.restype = MallocInfo
    found = ask()
    return found.uordblks + found.hblkhd


def sample() -> dict[str, float]:
    """Return MiB, open files and threads, of a process whose caches are empty."""
    import jax

    jax.clear_caches()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    time.sleep(0.1)  # threads that end
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    taken = {
        "memory": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "files": len(os.listdir("/proc/self/fd")),
        "threads": sum(n for name, n in thread_names().items() if "llvm-worker" not in name),
    }
    kernbridge = sys.modules["kernbridge"]
    taken["kernels"] = kernbridge.cache.stats().kernels
    if (allocated := in_use()) is not None:
        taken["allocated"] = allocated / 2**20
    statistics = jax.devices()[0].memory_stats()
    if statistics:
        taken["GPU memory"] = statistics["bytes_in_use"] / 2**20
    return taken


def thread_names() -> collections.Counter[str]:
    """Return how many threads of this process have each name."""
    names: collections.Counter[str] = collections.Counter()
    for comm in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # it has ended
            names[comm.read_text().strip()] += 1
    return names


def growth(values: list[float]) -> float:
    """Return what a line through the second half of the samples gains; through all, if few."""
    half = values[len(values) // 2 :] if len(values) > FEW_SAMPLES else values
    n, mean = len(half), sum(half) / len(half)
    middle = (n - 1) / 2
    slope = sum((i - middle) * (v - mean) for i, v in enumerate(half))
    return slope / sum((i - middle) ** 2 for i in range(n)) * (n - 1) if n > 1 else 0.0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--platform", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--limit", type=float, default=HANGS_AFTER, help="seconds for one action")
    parser.add_argument(
        "--kernels", choices=["ours", "none"], default="ours", help="none: JAX alone"
    )
    parser.add_argument("--growth", action="store_true", help="fail if memory grows, too")
    parser.add_argument("--plant", choices=list(planted.FAULTS), help="a fault, to be noticed")
    parser.add_argument("--json", help="a file for the figures")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    print(
        f"flood: --platform {options.platform} --threads {options.threads} --seed {options.seed}",
        flush=True,
    )
    os.environ.setdefault("JAX_PLATFORMS", "cpu" if options.platform == "cpu" else "cuda,cpu")
    # Where colorama is installed, Numba wraps sys.stdout for each text of an error, without a lock.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    faulthandler.enable()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="flood-") as folder:
        os.environ["KERNBRIDGE_CACHE_DIR"] = os.path.join(folder, "cache")
        sys.path.insert(0, folder)
        flood = Flood(options, Path(folder))
        samples = []
        if options.seconds >= LONG:
            flood.warm_up()
        n = SAMPLES if options.seconds >= LONG else FEW_SAMPLES
        for _ in range(n):
            samples.append(flood.epoch(options.seconds / n))
            if flood.failures:
                print(*flood.failures[:3], sep="\n")
                return 1
        flood.watch.end()
        return report(options, flood, samples)


def report(options: argparse.Namespace, flood: Flood, samples: list[dict[str, float]]) -> int:
    grown = {name: growth([s[name] for s in samples]) for name in samples[0]}
    print(f"{sum(flood.done.values())} actions, the longest took {flood.longest:.1f} s:")
    print("  " + ", ".join(f"{name} {n}" for name, n in sorted(flood.done.items())))
    for name, gained in grown.items():
        values = " ".join(f"{s[name]:.0f}" for s in samples)
        print(f"{name}: {values}; {gained:+.1f} in the second half")
    if options.json:
        figures = {**vars(options), "actions": flood.done, "samples": samples, "grown": grown}
        Path(options.json).write_text(json.dumps(figures))
    kernels = max(0.0, grown["kernels"])
    allowed = {n: limit + kernels * OF_A_KERNEL.get(n, 0.0) for n, limit in MAY_GROW.items()}
    too_much = [name for name, gained in grown.items() if gained > allowed.get(name, math.inf)]
    if options.growth and too_much:
        print(f"grew: {', '.join(too_much)}")
        if "threads" in too_much:
            came = flood.names[-1] - flood.names[(len(flood.names) - 1) // 2]
            print(f"threads that came: {', '.join(f'{n} {name}' for name, n in came.items())}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
