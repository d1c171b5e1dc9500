/* Owns the conversions that several parts of the extension need. */
#include "python/convert.h"

#include <string.h>

PyObject *kb_python_raise(kb_error *err)
{
    PyObject *type = err->status == KB_RESOURCE_EXHAUSTED ? PyExc_MemoryError : PyExc_ValueError;
    return PyErr_Format(type, "%s", kb_error_text(err));
}

PyObject *kb_python_register(kb_handler_loader *load, const char *bytes, Py_ssize_t size,
                             const uint8_t *digest, const void *local)
{
    bool inserted;
    kb_error err;
    kb_status s = load(bytes, (size_t)size, digest, local, &inserted, &err);
    return s == KB_OK ? PyBool_FromLong(inserted) : kb_python_raise(&err);
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
