"""Derivatives of LLVM IR by Enzyme: the program, the grammar that it reads, and its calls."""
