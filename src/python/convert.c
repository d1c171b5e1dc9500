/* Owns the conversions that several parts of the extension need. */
#include "python/convert.h"

#include "core/kb_handler.h"

#include <stdlib.h>
#include <string.h>

PyObject *kb_python_raise(kb_error *err)
{
    PyObject *type = err->status == KB_RESOURCE_EXHAUSTED ? PyExc_MemoryError : PyExc_ValueError;
    PyErr_SetString(type, kb_error_text(err));
    return NULL;
}

int kb_python_read_digest(PyObject *bytes, char **digest, int expected)
{
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(bytes, digest, &size) != 0)
        return 0;
    if (size != expected)
        PyErr_Format(PyExc_ValueError, "expected a digest of %d bytes, got %zd", expected, size);
    return size == expected;
}

int kb_python_digest(PyObject *bytes, void *digest)
{
    return kb_python_read_digest(bytes, digest, KB_DIGEST_SIZE);
}

void kb_python_set(PyObject **dict, const char *name, PyObject *value)
{
    if (*dict && (!value || PyDict_SetItemString(*dict, name, value) != 0))
        Py_CLEAR(*dict);
    Py_XDECREF(value);
}

PyObject *kb_python_text(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
}

kb_buffer_spec *kb_python_read_buffers(PyObject *tuple)
{
    Py_ssize_t n = PyTuple_Size(tuple);
    kb_buffer_spec *buffers = calloc((size_t)n + 1, sizeof *buffers);
    if (!buffers) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GetItem(tuple, i);
        int dtype, rank;
        if (!item || !PyArg_ParseTuple(item, "iis", &dtype, &rank, &buffers[i].name)) {
            free(buffers);
            return NULL;
        }
        buffers[i].dtype = dtype;
        buffers[i].rank = rank;
    }
    return buffers;
}

PyObject *kb_python_register(const kb_kernel *kernel)
{
    bool inserted;
    kb_error err;
    kb_status s = kb_handler_register(kernel, &inserted, &err);
    return s == KB_OK ? PyBool_FromLong(inserted) : kb_python_raise(&err);
}
