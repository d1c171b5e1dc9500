"""Builds shared libraries from source files."""
