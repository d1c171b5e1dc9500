/* What the parts of the extension share: errors and lists from one world to the other, and what
 * each part adds to the module. Entered with the GIL. */
#ifndef KB_PYTHON_CONVERT_H
#define KB_PYTHON_CONVERT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/kb_error.h"
#include "core/kb_handler.h"

#include <stdbool.h>

/* Raises MemoryError or ValueError with the message; returns NULL. */
PyObject *kb_python_raise(kb_error *err);

/* Registers a kernel that comes as bytes; True if it is new. */
PyObject *kb_python_register(kb_handler_loader *load, const char *bytes, Py_ssize_t size,
                             const uint8_t *digest, const void *local);

/* A converter for "O&" of PyArg_ParseTuple: to the address of the bytes of a kernel's digest; and
 * its work for digests of other sizes. ValueError is raised for bytes of another size. */
int kb_python_digest(PyObject *bytes, void *digest);
int kb_python_read_digest(PyObject *bytes, char **digest, int expected);

/* Sets an item of a dict, or clears the dict if the value is NULL or that fails. Steals the value.
 */
void kb_python_set(PyObject **dict, const char *name, PyObject *value);

/* A str of bytes that need not be UTF-8: what is not becomes \xNN. */
PyObject *kb_python_text(const char *text);

/* Append functions to the module: for the places where the core asks Python, for kernels that come
 * as machine code, for src/cuda, for modules built from source, and for extensions. */
int kb_python_add_callbacks(PyObject *module);
int kb_python_add_code(PyObject *module);
int kb_python_add_cuda(PyObject *module);
int kb_python_add_modules(PyObject *module);
int kb_python_add_emulator(PyObject *module);

#endif
