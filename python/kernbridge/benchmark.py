"""Benchmarks of functions and operations, with comparisons, tables, plots and files.

`measure` and `benchmark_function` time a function under `jax.jit`; `benchmark_operation`, or the
method `benchmark` of an operation, times every backend of an operation and compares their results;
see docs/benchmarking.md.
"""

from __future__ import annotations

from kernbridge._src.benchmark.measure import (
    BenchmarkTimes,
    Measurement,
    benchmark_function,
    measure,
)
from kernbridge._src.benchmark.records import BenchmarkConfig, BenchmarkRecord
from kernbridge._src.benchmark.result import BenchmarkResult
from kernbridge._src.benchmark.run import benchmark_operation

__all__ = [
    "BenchmarkConfig",
    "BenchmarkRecord",
    "BenchmarkResult",
    "BenchmarkTimes",
    "Measurement",
    "benchmark_function",
    "benchmark_operation",
    "measure",
]
