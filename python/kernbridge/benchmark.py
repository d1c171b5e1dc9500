"""Benchmarks of functions (`measure`) and operations (`benchmark_operation`, or their `benchmark`).

docs/benchmarking.md describes the tables, plots and files.
"""

from __future__ import annotations

from kernbridge._src.base import extensions

with extensions.needed("kernbridge.benchmark"):
    from kernbridge._ext.benchmark.measure import (
        BenchmarkConfig,
        Measurement,
        benchmark_function,
        benchmark_operation,
        measure,
    )
    from kernbridge._ext.benchmark.result import BenchmarkRecord, BenchmarkResult

__all__ = [
    "BenchmarkConfig",
    "BenchmarkRecord",
    "BenchmarkResult",
    "Measurement",
    "benchmark_function",
    "benchmark_operation",
    "measure",
]
