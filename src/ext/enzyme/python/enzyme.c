/* Owns the part of the extension `_core` for derivatives by Enzyme. */
#include "python/convert.h"

#include "core/kb_handler.h"

/* Let a kernel that came as machine code be entered at another address from its next call on,
 * unless that is 0; the address before. */
static PyObject *exchange_host_entry(PyObject *Py_UNUSED(self), PyObject *args)
{
    const uint8_t *digest;
    unsigned long long address;
    if (!PyArg_ParseTuple(args, "O&K:exchange_host_entry", kb_python_digest, &digest, &address))
        return NULL;
    const kb_kernel *kernel;
    kb_error err;
    if (kb_registry_match(kb_handler_registry(), digest, &kernel, &err) != KB_OK)
        return kb_python_raise(&err);
    kb_step *step = (kb_step *)(uintptr_t)kernel->plan.steps; /* of the registry's own copy */
    kb_numba_entry *entry = (kb_numba_entry *)(uintptr_t)address;
    entry = entry ? __atomic_exchange_n(&step->host.entry, entry, __ATOMIC_ACQ_REL)
                  : __atomic_load_n(&step->host.entry, __ATOMIC_RELAXED);
    return PyLong_FromVoidPtr((void *)(uintptr_t)entry);
}

static PyMethodDef methods[] = {
    {"exchange_host_entry", exchange_host_entry, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int kb_python_add_enzyme(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
