"""`XLACustomKernel`: one operation with a kernel for each backend."""
