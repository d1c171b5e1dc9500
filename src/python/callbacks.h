/* The places where the core asks Python: for the text of an exception that a Numba kernel raised,
 * for a kernel that a program names but this process has not registered, and for a function that
 * launches GPU kernels and could not be recorded. Only the last is on the path of a call that
 * succeeds. */
#ifndef KB_PYTHON_CALLBACKS_H
#define KB_PYTHON_CALLBACKS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Lets exceptions of code that came without its compiler show their values. */
void kb_python_begin_failures(void);

extern const char kb_python_set_decoder_doc[];
extern const char kb_python_set_resolver_doc[];
extern const char kb_python_set_caller_doc[];

PyObject *kb_python_set_decoder(PyObject *self, PyObject *args);
PyObject *kb_python_set_resolver(PyObject *self, PyObject *args);
PyObject *kb_python_set_caller(PyObject *self, PyObject *args);

extern const char kb_python_set_host_compiler_doc[];
PyObject *kb_python_set_host_compiler(PyObject *self, PyObject *args);

#endif
