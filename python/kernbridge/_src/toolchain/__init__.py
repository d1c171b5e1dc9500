"""Finds compilers, libraries and GPU architectures, and chooses among them."""
