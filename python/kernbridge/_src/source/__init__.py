"""Modules that are built from C, C++ and CUDA sources."""
