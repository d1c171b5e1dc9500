/* The part of `kernbridge._core` that calls NVRTC. Entered with the GIL. */
#ifndef KB_PYTHON_NVRTC_H
#define KB_PYTHON_NVRTC_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Appends its functions to the module. */
int kb_python_add_nvrtc(PyObject *module);

#endif
