"""Annotations of source files as Python values."""
