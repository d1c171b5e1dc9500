/* Owns what Python calls to time launches. */
#ifndef KB_PYTHON_TUNE_H
#define KB_PYTHON_TUNE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int kb_python_add_tune(PyObject *module);

#endif
