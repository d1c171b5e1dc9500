/* The part of `kernbridge._core` that calls src/cuda. Entered with the GIL. */
#ifndef KB_PYTHON_CUDA_H
#define KB_PYTHON_CUDA_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Appends its functions to the module. */
int kb_python_add_cuda(PyObject *module);

#endif
