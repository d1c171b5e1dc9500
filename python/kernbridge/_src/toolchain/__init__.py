"""Compilers, libraries and GPU architectures: which there are, and which to use."""
