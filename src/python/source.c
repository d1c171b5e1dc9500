/* Owns the conversion of arguments and results between Python and the scanner of src/source. */
#include "python/convert.h"

#include "core/kb_memory.h"
#include "source/kb_scan.h"

static bool text_of(PyObject *string, kb_text *text)
{
    Py_ssize_t size;
    if (!PyUnicode_Check(string)) {
        PyErr_SetString(PyExc_TypeError, "expected a str");
        return false;
    }
    text->at = PyUnicode_AsUTF8AndSize(string, &size);
    text->size = (size_t)size;
    return text->at != NULL;
}

/* Tokens in one str, or None. */
static bool read_given(PyObject *name, PyObject *tokens, kb_given *given)
{
    given->infer = tokens == Py_None;
    return text_of(name, &given->name) && (given->infer || text_of(tokens, &given->tokens));
}

/* A list from a tuple of (name, tokens), to be freed with kb_free; NULL with an exception set. */
static kb_given *read_all_given(PyObject *functions)
{
    Py_ssize_t n = PyTuple_Size(functions);
    kb_given *given = n > UINT32_MAX ? NULL : kb_calloc((size_t)n + 1, sizeof *given);
    if (!given)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; given && i < n; i++) {
        PyObject *name, *tokens, *item = PyTuple_GetItem(functions, i);
        if (!PyTuple_Check(item))
            PyErr_SetString(PyExc_TypeError, "expected tuples (name, tokens)");
        else if (PyArg_ParseTuple(item, "UO", &name, &tokens) &&
                 read_given(name, tokens, &given[i]))
            continue;
        kb_free(given);
        given = NULL;
    }
    return given;
}

static PyObject *string_of(kb_text text)
{
    return PyUnicode_DecodeUTF8(text.at ? text.at : "", (Py_ssize_t)text.size, "replace");
}

static PyObject *parameters_of(const kb_described *f)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)f->n_parameters);
    for (uint32_t i = 0; tuple && i < f->n_parameters; i++) {
        const kb_described_parameter *p = &f->parameters[i];
        PyObject *item =
            Py_BuildValue("(sNsNN)", kb_role_name(p->role), string_of(p->name),
                          kb_attr_type_name(p->type), string_of(p->ctype), string_of(p->array));
        if (!item || PyTuple_SetItem(tuple, i, item) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *function_of(const kb_described *f)
{
    PyObject *parameters = parameters_of(f);
    if (!parameters)
        return NULL;
    return Py_BuildValue("(NNINN)", string_of(f->name), string_of(f->qualified),
                         (unsigned int)f->line, PyBool_FromLong(f->whole_call), parameters);
}

PyDoc_STRVAR(scan_source_doc,
             "scan_source(text, file, functions, bytes)\n--\n\n"
             "The functions that a source annotates, or those of `functions`, as tuples (name, "
             "qualified, line, whole_call, parameters).\n`bytes`: their arrays must be declared.");

static PyObject *scan_source(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *source, *file, *functions;
    int bytes;
    kb_text source_text, file_text;
    kb_given *given = NULL;
    kb_error err;
    kb_scan scan;
    if (!PyArg_ParseTuple(args, "UUOp:scan_source", &source, &file, &functions, &bytes) ||
        !text_of(source, &source_text) || !text_of(file, &file_text))
        return NULL;
    if (functions != Py_None && !PyTuple_Check(functions)) {
        PyErr_SetString(PyExc_TypeError, "scan_source: expected a tuple of functions, or None");
        return NULL;
    }
    if (functions != Py_None && !(given = read_all_given(functions)))
        return NULL;
    uint32_t n = given ? (uint32_t)PyTuple_Size(functions) : 0;
    kb_status s = kb_scan_functions(source_text, file_text, given, n, bytes != 0, &scan, &err);
    PyObject *result = s == KB_OK ? PyTuple_New((Py_ssize_t)scan.n) : kb_python_raise(&err);
    for (uint32_t i = 0; result && i < scan.n; i++) {
        PyObject *function = function_of(&scan.functions[i]);
        if (!function || PyTuple_SetItem(result, i, function) < 0)
            Py_CLEAR(result);
    }
    if (s == KB_OK)
        kb_scan_free(&scan);
    kb_free(given);
    return result;
}

PyDoc_STRVAR(scan_kernel_doc, "scan_kernel(text, file, name, tokens, bytes)\n--\n\n"
                              "What a kernel takes: a tuple as of scan_source.");

static PyObject *scan_kernel(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *source, *file, *name, *tokens;
    int bytes;
    kb_text source_text, file_text;
    kb_given given = {0};
    kb_error err;
    kb_scan scan;
    if (!PyArg_ParseTuple(args, "UUUOp:scan_kernel", &source, &file, &name, &tokens, &bytes) ||
        !text_of(source, &source_text) || !text_of(file, &file_text) ||
        !read_given(name, tokens, &given))
        return NULL;
    kb_status s = kb_scan_kernel(source_text, file_text, &given, bytes != 0, &scan, &err);
    PyObject *result = s == KB_OK ? function_of(&scan.functions[0]) : kb_python_raise(&err);
    if (s == KB_OK)
        kb_scan_free(&scan);
    return result;
}

PyDoc_STRVAR(attribute_types_doc,
             "attribute_types()\n--\n\n"
             "{name: (dtype code, bytes, C type)} of what an attribute can be.");

static PyObject *attribute_types(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return Py_BuildValue("{"
#define TYPE_FORMAT(NAME, name, DTYPE, bytes, c_type) "s(iis)"
                         KB_ATTR_TYPE_LIST(TYPE_FORMAT)
#undef TYPE_FORMAT
                             "}"
#define TYPE_VALUE(NAME, name, DTYPE, bytes, c_type) , name, KB_DTYPE_##DTYPE, bytes, c_type
                         KB_ATTR_TYPE_LIST(TYPE_VALUE)
#undef TYPE_VALUE
    );
}

static PyMethodDef methods[] = {
    {"scan_source", scan_source, METH_VARARGS, scan_source_doc},
    {"scan_kernel", scan_kernel, METH_VARARGS, scan_kernel_doc},
    {"attribute_types", attribute_types, METH_NOARGS, attribute_types_doc},
    {NULL, NULL, 0, NULL},
};

int kb_python_add_source(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
