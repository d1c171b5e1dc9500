/* Owns the conversion of arguments and results between Python and the scanner of src/source. */
#include "python/source.h"

#include "core/kb_memory.h"
#include "python/convert.h"
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

/* Counts the tokens of a tuple of str, or None. -1 with an exception set. */
static Py_ssize_t count_tokens(PyObject *tokens)
{
    if (tokens == Py_None)
        return 0;
    if (PyTuple_Check(tokens))
        return PyTuple_Size(tokens);
    PyErr_SetString(PyExc_TypeError, "expected a tuple of tokens, or None");
    return -1;
}

static bool read_tokens(PyObject *tokens, kb_text *texts, kb_given *given)
{
    Py_ssize_t n = count_tokens(tokens);
    given->infer = tokens == Py_None;
    given->tokens = texts;
    given->n_tokens = (uint32_t)n;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!text_of(PyTuple_GetItem(tokens, i), &texts[i]))
            return false;
    return true;
}

/* What a caller gave, in one block. */
typedef struct given_list {
    kb_given *given;
    kb_text *texts;
    uint32_t n;
} given_list;

static void free_given(given_list *list)
{
    kb_free(list->given);
    kb_free(list->texts);
}

/* The total of tokens, or -1 with an exception set. */
static Py_ssize_t count_all(PyObject *functions, Py_ssize_t n)
{
    Py_ssize_t total = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name, *tokens, *item = PyTuple_GetItem(functions, i);
        if (!PyTuple_Check(item)) {
            PyErr_SetString(PyExc_TypeError, "expected tuples (name, tokens)");
            return -1;
        }
        if (!PyArg_ParseTuple(item, "UO", &name, &tokens))
            return -1;
        Py_ssize_t count = count_tokens(tokens);
        if (count < 0)
            return -1;
        total += count;
    }
    if (total > KB_TEXT_LIMIT || n > KB_TEXT_LIMIT) {
        PyErr_SetString(PyExc_ValueError, "too many tokens");
        return -1;
    }
    return total;
}

static bool read_given(PyObject *functions, given_list *list)
{
    Py_ssize_t n = PyTuple_Size(functions), total = count_all(functions, n), used = 0;
    if (total < 0)
        return false;
    list->n = (uint32_t)n;
    list->given = kb_calloc((size_t)n + 1, sizeof *list->given);
    list->texts = kb_calloc((size_t)total + 1, sizeof *list->texts);
    if (!list->given || !list->texts) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name, *tokens;
        if (!PyArg_ParseTuple(PyTuple_GetItem(functions, i), "UO", &name, &tokens) ||
            !text_of(name, &list->given[i].name) ||
            !read_tokens(tokens, list->texts + used, &list->given[i]))
            return false;
        used += list->given[i].n_tokens;
    }
    return true;
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
        PyObject *item = Py_BuildValue("(sNsN)", kb_role_name(p->role), string_of(p->name),
                                       kb_attr_type_name(p->type), string_of(p->ctype));
        if (!item || PyTuple_SetItem(tuple, i, item) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *function_of(const kb_described *f)
{
    static const char *const styles[] = {
#define STYLE_NAME(NAME, name) name,
        KB_STYLE_LIST(STYLE_NAME)
#undef STYLE_NAME
    };
    static const char *const returns[] = {"", "void", "int", ""};
    PyObject *parameters = parameters_of(f);
    if (!parameters)
        return NULL;
    return Py_BuildValue("(NNIssNN)", string_of(f->name), string_of(f->qualified),
                         (unsigned int)f->line, styles[f->style], returns[f->returns],
                         PyBool_FromLong(f->whole_call), parameters);
}

PyDoc_STRVAR(scan_source_doc,
             "scan_source(text, file, functions)\n--\n\n"
             "The functions that a source annotates, or those of `functions`, as tuples (name, "
             "qualified, line, style, returns, whole_call, parameters).");

static PyObject *scan_source(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *source, *file, *functions;
    kb_text source_text, file_text;
    given_list list = {0};
    kb_error err;
    kb_scan scan;
    if (!PyArg_ParseTuple(args, "UUO:scan_source", &source, &file, &functions) ||
        !text_of(source, &source_text) || !text_of(file, &file_text))
        return NULL;
    if (functions != Py_None && !PyTuple_Check(functions)) {
        PyErr_SetString(PyExc_TypeError, "scan_source: expected a tuple of functions, or None");
        return NULL;
    }
    if (functions != Py_None && !read_given(functions, &list)) {
        free_given(&list);
        return NULL;
    }
    kb_status s = kb_scan_functions(source_text, file_text, list.given, list.n, &scan, &err);
    PyObject *result = s == KB_OK ? PyTuple_New((Py_ssize_t)scan.n) : kb_python_raise(&err);
    for (uint32_t i = 0; result && i < scan.n; i++) {
        PyObject *function = function_of(&scan.functions[i]);
        if (!function || PyTuple_SetItem(result, i, function) < 0)
            Py_CLEAR(result);
    }
    if (s == KB_OK)
        kb_scan_free(&scan);
    free_given(&list);
    return result;
}

PyDoc_STRVAR(scan_kernel_doc, "scan_kernel(text, file, name, tokens)\n--\n\n"
                              "What a kernel takes: a tuple as of scan_source.");

static PyObject *scan_kernel(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *source, *file, *name, *tokens;
    kb_text source_text, file_text;
    kb_given given = {0};
    kb_error err;
    kb_scan scan;
    if (!PyArg_ParseTuple(args, "UUUO:scan_kernel", &source, &file, &name, &tokens) ||
        !text_of(source, &source_text) || !text_of(file, &file_text) || !text_of(name, &given.name))
        return NULL;
    Py_ssize_t n = count_tokens(tokens);
    kb_text *texts = n < 0 ? NULL : kb_calloc((size_t)n + 1, sizeof *texts);
    if (!texts)
        return n < 0 ? NULL : PyErr_NoMemory();
    if (!read_tokens(tokens, texts, &given)) {
        kb_free(texts);
        return NULL;
    }
    kb_status s = kb_scan_kernel(source_text, file_text, &given, &scan, &err);
    PyObject *result = s == KB_OK ? function_of(&scan.functions[0]) : kb_python_raise(&err);
    if (s == KB_OK)
        kb_scan_free(&scan);
    kb_free(texts);
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
