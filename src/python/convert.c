/* Owns the conversions that several parts of the extension need. */
#include "python/convert.h"

#include "core/kb_kernel.h"

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
