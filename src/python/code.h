/* The part of `kernbridge._core` that takes kernels for the CPU as machine code. Entered with the
 * GIL. */
#ifndef KB_PYTHON_CODE_H
#define KB_PYTHON_CODE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Appends its functions to the module, and lets calls load the code that they carry. */
int kb_python_add_code(PyObject *module);

#endif
