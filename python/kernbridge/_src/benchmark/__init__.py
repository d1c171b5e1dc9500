"""Measuring operations: running, results, tables, files."""
