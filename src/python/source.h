/* The part of `kernbridge._core` that calls the scanner of src/source. Entered with the GIL. */
#ifndef KB_PYTHON_SOURCE_H
#define KB_PYTHON_SOURCE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Appends its functions to the module. */
int kb_python_add_source(PyObject *module);

#endif
