/* Owns the way of machine code from Python into the registry. */
#include "python/convert.h"

#include "core/kb_handler.h"
#include "object/kb_cpu.h"
#include "object/kb_host_code.h"
#include "object/kb_provided.h"
#include "targets/kb_targets.h"

/* Register a kernel (src/object/kb_host_code.h); True if it is new. Its machine code comes with the
 * description, or has been compiled by this process, where `entry` is the address of its entry.
 * ValueError is raised if the code is damaged, or cannot run here. */
static PyObject *register_host_code(PyObject *Py_UNUSED(self), PyObject *args)
{
    const uint8_t *digest;
    const char *code;
    Py_ssize_t size;
    unsigned long long entry = 0;
    int parallel = 0, num_threads = 0, concurrent = 0;
    if (!PyArg_ParseTuple(args, "O&y#|Kpip:register_host_code", kb_python_digest, &digest, &code,
                          &size, &entry, &parallel, &num_threads, &concurrent))
        return NULL;
    const kb_host_step step = {.entry = (kb_numba_entry *)(uintptr_t)entry,
                               .parallel = parallel != 0,
                               .concurrent = concurrent != 0,
                               .num_threads = num_threads};
    return kb_python_register(kb_host_code_register, code, size, digest, entry ? &step : NULL);
}

/* Let a kernel that came as machine code first call Python, as a step that calls Python does, until
 * that returns True: see set_caller. */
static PyObject *watch_host_code(PyObject *Py_UNUSED(self), PyObject *args)
{
    const uint8_t *digest;
    long long handle;
    if (!PyArg_ParseTuple(args, "O&L:watch_host_code", kb_python_digest, &digest, &handle))
        return NULL;
    const kb_kernel *kernel;
    kb_error err;
    if (kb_registry_match(&kb_handler_registry, digest, &kernel, &err) != KB_OK)
        return kb_python_raise(&err);
    kb_step *step = (kb_step *)(uintptr_t)kernel->plan.steps; /* of the registry's own copy */
    __atomic_store_n(&step->host.handle, handle, __ATOMIC_RELAXED);
    Py_RETURN_NONE;
}

/* Whether the code has no variables. ValueError is raised if register_host_code would raise it;
 * nothing is registered. */
static PyObject *check_host_code(PyObject *Py_UNUSED(self), PyObject *args)
{
    const uint8_t *digest;
    const char *code;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "O&y#:check_host_code", kb_python_digest, &digest, &code, &size))
        return NULL;
    kb_kernel kernel;
    kb_error err;
    if (kb_host_code_read(code, (size_t)size, digest, NULL, &kernel, &err) != KB_OK)
        return kb_python_raise(&err);
    bool concurrent = kernel.plan.steps->host.concurrent;
    kernel.free_owner(kernel.owner);
    return PyBool_FromLong(concurrent);
}

/* Whether machine code without a compiler may call the function of this name. */
static PyObject *host_code_provides(PyObject *Py_UNUSED(self), PyObject *text)
{
    const char *name = PyUnicode_AsUTF8AndSize(text, NULL);
    return name ? PyBool_FromLong(kb_provided_find(name) != NULL) : NULL;
}

/* {name: (bit, present)} of the features that machine code for this kind of processor may need. */
static PyObject *cpu_features(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    uint64_t present = kb_cpu_features();
    PyObject *features = PyDict_New();
    const char *name;
    for (unsigned bit = 0; features && (name = kb_cpu_feature(bit)); bit++)
        kb_python_set(&features, name,
                      Py_BuildValue("IO", bit, present >> bit & 1 ? Py_True : Py_False));
    return features;
}

/* Whether code that a program carries is run (0), replaced by what is compiled from its module (1)
 * or refused (2). */
static PyObject *set_carried_code(PyObject *Py_UNUSED(self), PyObject *args)
{
    int what;
    if (!PyArg_ParseTuple(args, "i:set_carried_code", &what))
        return NULL;
    if (what < KB_CARRIED_RUN || what > KB_CARRIED_REFUSE)
        return PyErr_Format(PyExc_ValueError, "set_carried_code: expected 0, 1 or 2, got %d", what);
    kb_handler_carried_code = (kb_carried_code)what;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"register_host_code", register_host_code, METH_VARARGS, NULL},
    {"watch_host_code", watch_host_code, METH_VARARGS, NULL},
    {"check_host_code", check_host_code, METH_VARARGS, NULL},
    {"host_code_provides", host_code_provides, METH_O, NULL},
    {"cpu_features", cpu_features, METH_NOARGS, NULL},
    {"set_carried_code", set_carried_code, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int kb_python_add_code(PyObject *module)
{
    kb_targets_begin();
    if (PyModule_AddIntConstant(module, "HOST_CODE_VERSION", KB_HOST_CODE_VERSION) != 0 ||
        PyModule_AddStringConstant(module, "HOST_CODE_MAGIC", KB_HOST_CODE_MAGIC) != 0 ||
        PyModule_AddStringConstant(module, "HOST_CODE_ENTRY", KB_HOST_CODE_ENTRY) != 0)
        return -1;
    return PyModule_AddFunctions(module, methods);
}
