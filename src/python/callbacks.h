/* The two places where the core asks Python: for the text of an exception that a Numba kernel
 * raised, and for a kernel that a program names but this process has not registered. Both are off
 * the execute path of a call that succeeds. */
#ifndef KB_PYTHON_CALLBACKS_H
#define KB_PYTHON_CALLBACKS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern const char kb_python_set_decoder_doc[];
extern const char kb_python_set_resolver_doc[];

PyObject *kb_python_set_decoder(PyObject *self, PyObject *args);
PyObject *kb_python_set_resolver(PyObject *self, PyObject *args);

#endif
