"""The identity of kernels: the digests by which machine code is found again."""
