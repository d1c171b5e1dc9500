"""Finds and runs compilers, and finds libraries and GPU architectures."""
