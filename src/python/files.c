/* Owns the comparison of files with what was noted of them: hundreds at the load of a module. */
#define _POSIX_C_SOURCE 200809L

#include "python/files.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>

PyDoc_STRVAR(
    changed_files_doc,
    "changed_files(paths, sizes, times)\n--\n\n"
    "Indices of the files whose size or time of change (ns, of the inode) is another; three "
    "lists of one length.\nOSError if a file is missing.");

/* -1 with an exception set; else whether the file is another. */
static int is_changed(PyObject *path, PyObject *size, PyObject *time)
{
    const char *name = path ? PyUnicode_AsUTF8AndSize(path, NULL) : NULL;
    long long wanted_size = size ? PyLong_AsLongLong(size) : -1;
    long long wanted_time = time ? PyLong_AsLongLong(time) : -1;
    struct stat about;
    if (!name || PyErr_Occurred())
        return -1;
    if (stat(name, &about) != 0) {
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, name);
        return -1;
    }
    long long seconds = about.st_ctim.tv_sec, nanoseconds = about.st_ctim.tv_nsec;
    return about.st_size != wanted_size || seconds * 1000000000 + nanoseconds != wanted_time;
}

static bool append_index(PyObject *list, Py_ssize_t i)
{
    PyObject *index = PyLong_FromSsize_t(i);
    bool ok = index && PyList_Append(list, index) == 0;
    Py_XDECREF(index);
    return ok;
}

static PyObject *changed_files(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *paths, *sizes, *times;
    if (!PyArg_ParseTuple(args, "O!O!O!:changed_files", &PyList_Type, &paths, &PyList_Type, &sizes,
                          &PyList_Type, &times))
        return NULL;
    Py_ssize_t n = PyList_Size(paths);
    if (PyList_Size(sizes) != n || PyList_Size(times) != n) {
        PyErr_SetString(PyExc_ValueError, "changed_files: lists of one length are expected");
        return NULL;
    }
    PyObject *changed = PyList_New(0);
    for (Py_ssize_t i = 0; changed && i < n; i++) {
        int other = is_changed(PyList_GetItem(paths, i), PyList_GetItem(sizes, i),
                               PyList_GetItem(times, i));
        if (other < 0 || (other && !append_index(changed, i)))
            Py_CLEAR(changed);
    }
    return changed;
}

static PyMethodDef methods[] = {
    {"changed_files", changed_files, METH_VARARGS, changed_files_doc},
    {NULL, NULL, 0, NULL},
};

int kb_python_add_files(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
