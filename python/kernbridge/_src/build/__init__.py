"""A source file becomes a shared library."""
