"""The identity of kernels: digests by which compiled code is found again."""
