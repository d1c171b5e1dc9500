/* Owns the conversion of arguments between Python and NVRTC. */
#include "python/nvrtc.h"

#include "core/kb_memory.h"
#include "cuda/kb_nvrtc.h"
#include "cuda/kb_nvrtc_signals.h"
#include "python/convert.h"

PyDoc_STRVAR(
    nvrtc_compile_doc,
    "nvrtc_compile(library, source, file, options, headers, name, probe)\n--\n\n"
    "Compile CUDA device code: (cubin, ptx, entry, probe, log), where entry and probe are "
    "lowered names of the two\nname expressions; the second may be None. `headers` is a "
    "tuple of (name, content).\nValueError with (message, log) if the compiler refuses it, OSError "
    "without the library.");

/* The texts of a tuple of str, or of pairs of str, one after the other; they stay the tuple's. */
static const char **read_texts(PyObject *tuple, Py_ssize_t part)
{
    Py_ssize_t n = PyTuple_Size(tuple);
    const char **texts = kb_calloc((size_t)n + 1, sizeof *texts);
    if (!texts) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GetItem(tuple, i);
        if (item && part >= 0)
            item = PyTuple_GetItem(item, part);
        texts[i] = item ? PyUnicode_AsUTF8AndSize(item, NULL) : NULL;
        if (!texts[i]) {
            kb_free(texts);
            return NULL;
        }
    }
    return texts;
}

static PyObject *raise(kb_status s, kb_error *err, const char *log)
{
    if (s == KB_INVALID_ARGUMENT) {
        PyObject *why = Py_BuildValue("sN", kb_error_text(err), kb_python_text(log ? log : ""));
        if (why)
            PyErr_SetObject(PyExc_ValueError, why);
        Py_XDECREF(why);
        return NULL;
    }
    PyErr_SetString(s == KB_NOT_FOUND ? PyExc_OSError : PyExc_RuntimeError, kb_error_text(err));
    return NULL;
}

static PyObject *compile(kb_nvrtc_request *request)
{
    kb_nvrtc_result result;
    kb_error err;
    kb_status s;
    Py_BEGIN_ALLOW_THREADS;
    s = kb_nvrtc_compile(request, &result, &err);
    Py_END_ALLOW_THREADS;
    PyObject *built = s == KB_OK ? Py_BuildValue("y#NssN", result.cubin ? result.cubin : "",
                                                 (Py_ssize_t)result.cubin_size,
                                                 kb_python_text(result.ptx ? result.ptx : ""),
                                                 result.entry, result.probe ? result.probe : "",
                                                 kb_python_text(result.log ? result.log : ""))
                                 : raise(s, &err, result.log);
    kb_nvrtc_free(&result);
    return built;
}

static PyObject *nvrtc_compile(PyObject *self, PyObject *args)
{
    (void)self;
    kb_nvrtc_request request;
    PyObject *options, *headers;
    if (!PyArg_ParseTuple(args, "sssO!O!sz:nvrtc_compile", &request.library, &request.source,
                          &request.file, &PyTuple_Type, &options, &PyTuple_Type, &headers,
                          &request.name, &request.probe))
        return NULL;
    request.n_options = (int)PyTuple_Size(options);
    request.n_headers = (int)PyTuple_Size(headers);
    const char **option_texts = read_texts(options, -1);
    const char **names = option_texts ? read_texts(headers, 0) : NULL;
    const char **contents = names ? read_texts(headers, 1) : NULL;
    request.options = option_texts;
    request.header_names = names;
    request.headers = contents;
    PyObject *built = contents ? compile(&request) : NULL;
    kb_free(option_texts);
    kb_free(names);
    kb_free(contents);
    return built;
}

PyDoc_STRVAR(nvrtc_version_doc, "nvrtc_version(library)\n--\n\n"
                                "1000 major + 10 minor; OSError without the library.");

static PyObject *nvrtc_version(PyObject *self, PyObject *args)
{
    (void)self;
    const char *library;
    if (!PyArg_ParseTuple(args, "s:nvrtc_version", &library))
        return NULL;
    int version;
    kb_error err;
    kb_status s = kb_nvrtc_version(library, &version, &err);
    return s == KB_OK ? PyLong_FromLong(version) : raise(s, &err, NULL);
}

PyDoc_STRVAR(nvrtc_keep_signals_doc,
             "nvrtc_keep_signals()\n--\n\n"
             "Keep every libnvrtc that is loaded from handling the signals of the process.");

static PyObject *nvrtc_keep_signals(PyObject *self, PyObject *args)
{
    (void)self, (void)args;
    kb_nvrtc_keep_signals(NULL);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"nvrtc_compile", nvrtc_compile, METH_VARARGS, nvrtc_compile_doc},
    {"nvrtc_keep_signals", nvrtc_keep_signals, METH_NOARGS, nvrtc_keep_signals_doc},
    {"nvrtc_version", nvrtc_version, METH_VARARGS, nvrtc_version_doc},
    {NULL, NULL, 0, NULL},
};

int kb_python_add_nvrtc(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
