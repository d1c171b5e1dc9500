"""Benchmarks of operations: measurements, results, tables and files."""
