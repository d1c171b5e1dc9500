/* Methods of the extension for modules built from source. Entered with the GIL. */
#ifndef KB_PYTHON_MODULES_H
#define KB_PYTHON_MODULES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the methods to the module; -1 with an exception set if that fails. */
int kb_python_add_modules(PyObject *module);

#endif
