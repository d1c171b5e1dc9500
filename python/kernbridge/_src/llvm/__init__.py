"""LLVM IR as text: what its functions, instructions and values are, without LLVM."""
