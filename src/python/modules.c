/* Owns the functions of `_core` for modules of C, C++ and CUDA source: loading, binding of slots,
 * and registration of their functions as kernels. */
#include "python/convert.h"

#include "core/kb_handler.h"
#include "module/kb_library.h"
#include "module/kb_module.h"
#include "module/kb_slot.h"

#include <stdbool.h>
#include <stdlib.h>

static unsigned long long address(const void *pointer)
{
    return (unsigned long long)(uintptr_t)pointer;
}

static PyObject *describe_exports(const kb_module *module)
{
    Py_ssize_t n = module ? module->n_exports : 0;
    PyObject *list = PyTuple_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        const kb_export *e = &module->exports[i];
        const char *types = module->types ? (const char *)module->types[i] : "";
        PyObject *item = Py_BuildValue("NNKNKy", kb_python_text(e->name), kb_python_text(e->tokens),
                                       address((void *)(uintptr_t)e->run),
                                       PyCapsule_New((void *)(uintptr_t)e->handler, NULL, NULL),
                                       address(e->slot), types);
        if (!item || PyTuple_SetItem(list, i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* Open a shared library: (library, last_error, ((name, tokens, run, handler, slot, types), ...)),
 * all addresses, but for the handler: it is the capsule that jax.ffi.register_ffi_target takes.
 * Without a generated tail last_error and the tuple are 0 and empty. */
static PyObject *open_library(PyObject *Py_UNUSED(self), PyObject *args)
{
    const char *path;
    if (!PyArg_ParseTuple(args, "s:open_library", &path))
        return NULL;
    void *library = NULL;
    const kb_module *module = NULL;
    kb_error err;
    kb_status s;
    Py_BEGIN_ALLOW_THREADS;
    s = kb_module_open(path, &library, &err);
    if (s == KB_OK)
        s = kb_module_describe(library, &module, &err);
    Py_END_ALLOW_THREADS;
    if (s != KB_OK)
        return PyErr_Format(PyExc_OSError, "%s", kb_error_text(&err));
    PyObject *exports = describe_exports(module);
    unsigned long long last_error = module ? address((void *)(uintptr_t)module->last_error) : 0;
    return exports ? Py_BuildValue("KKN", address(library), last_error, exports) : NULL;
}

/* Make a public target call a function. Counts may be -1 for any; `attributes` is a tuple of (name,
 * dtype code), `dtypes` the codes of all arrays, each four bytes, 0 for any. */
static PyObject *bind_slot(PyObject *Py_UNUSED(self), PyObject *args)
{
    unsigned long long slot, run, last_error;
    const char *name, *dtypes;
    PyObject *tuple;
    Py_ssize_t size;
    int n_inputs, n_outputs, cuda, graph;
    if (!PyArg_ParseTuple(args, "KsiiO!y#KKpp:bind_slot", &slot, &name, &n_inputs, &n_outputs,
                          &PyTuple_Type, &tuple, &dtypes, &size, &run, &last_error, &cuda, &graph))
        return NULL;
    bool any = n_inputs == KB_ANY_COUNT || n_outputs == KB_ANY_COUNT;
    if (!any && size != ((Py_ssize_t)n_inputs + n_outputs) * (Py_ssize_t)sizeof(int32_t))
        return PyErr_Format(PyExc_ValueError, "bind_slot: expected a dtype for each array");
    Py_ssize_t n = PyTuple_Size(tuple);
    kb_slot_target *target = calloc(1, sizeof *target + (size_t)n * sizeof *target->attributes);
    if (!target)
        return PyErr_NoMemory();
    *target = (kb_slot_target){
        .name = name,
        .n_inputs = n_inputs,
        .n_outputs = n_outputs,
        .graph = graph != 0,
        .attributes = (kb_slot_attribute *)(target + 1),
        .dtypes = any ? NULL : (const int32_t *)(const void *)dtypes,
        .step = {.run = (kb_source_function *)(uintptr_t)run,
                 .last_error = (kb_source_last_error *)(uintptr_t)last_error,
                 .cuda = cuda != 0,
                 .n_attributes = (uint32_t)n},
    };
    bool whole = true;
    for (Py_ssize_t i = 0; whole && i < n; i++)
        whole = PyArg_ParseTuple(PyTuple_GetItem(tuple, i), "si", &target->attributes[i].name,
                                 &target->attributes[i].dtype);
    kb_error err;
    if (whole && kb_slot_bind((kb_slot *)(uintptr_t)slot, target, &err) == KB_OK) {
        Py_INCREF(args); /* the target's texts and dtypes lie in it */
        Py_RETURN_NONE;
    }
    free(target);
    return whole ? kb_python_raise(&err) : NULL;
}

/* Register a function of an open module as an operation; True if it is new. The description
 * (src/module/kb_library.h) has no library. */
static PyObject *register_source(PyObject *Py_UNUSED(self), PyObject *args)
{
    const uint8_t *digest;
    const char *description;
    Py_ssize_t size;
    unsigned long long run, last_error;
    int cuda;
    if (!PyArg_ParseTuple(args, "O&y#KKp:register_source", kb_python_digest, &digest, &description,
                          &size, &run, &last_error, &cuda))
        return NULL;
    const kb_source_step function = {
        .run = (kb_source_function *)(uintptr_t)run,
        .last_error = (kb_source_last_error *)(uintptr_t)last_error,
        .cuda = cuda != 0,
    };
    return kb_python_register(kb_library_register, description, size, digest, &function);
}

static PyMethodDef methods[] = {
    {"open_library", open_library, METH_VARARGS, NULL},
    {"bind_slot", bind_slot, METH_VARARGS, NULL},
    {"register_source", register_source, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int kb_python_add_modules(PyObject *module)
{
    if (PyModule_AddStringConstant(module, "LIBRARY_MAGIC", KB_LIBRARY_MAGIC) != 0 ||
        PyModule_AddIntConstant(module, "LIBRARY_VERSION", KB_LIBRARY_VERSION) != 0)
        return -1;
    return PyModule_AddFunctions(module, methods);
}
