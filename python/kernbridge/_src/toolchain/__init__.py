"""Finds and runs compilers, builds shared libraries, finds libraries and GPU architectures."""
