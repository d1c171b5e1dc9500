/* The part of `kernbridge._core` that looks at many files at once. Entered with the GIL. */
#ifndef KB_PYTHON_FILES_H
#define KB_PYTHON_FILES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Appends its functions to the module. */
int kb_python_add_files(PyObject *module);

#endif
