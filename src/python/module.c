/* The extension `kernbridge._core`: converts arguments between Python and the core, and nothing
 * else. Its functions are entered with the GIL; kernbridge/_core.pyi has their signatures. Limited
 * API of CPython 3.11. */
#include "python/convert.h"

#include "python/entry.h"

#include "core/kb_dtype.h"
#include "core/kb_handler.h"
#include "core/kb_host.h"
#include "kernbridge/kernbridge.h"
#include "targets/kb_targets.h"

/* What messages call the registered kernel of this digest; None where there is none. */
static PyObject *kernel_name(PyObject *Py_UNUSED(self), PyObject *args)
{
    const uint8_t *digest;
    const kb_kernel *kernel;
    if (!PyArg_ParseTuple(args, "O&:kernel_name", kb_python_digest, &digest))
        return NULL;
    kb_error err;
    kb_status s = kb_registry_match(&kb_handler_registry, digest, &kernel, &err);
    if (s == KB_NOT_FOUND)
        Py_RETURN_NONE;
    return s == KB_OK ? kb_python_text(kernel->name) : kb_python_raise(&err);
}

/* (kernels, bytes) of the process's registry. */
static PyObject *registry_stats(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    kb_registry_stats stats = kb_registry_count(&kb_handler_registry);
    return Py_BuildValue("nn", (Py_ssize_t)stats.kernels, (Py_ssize_t)stats.bytes);
}

static void add_stage(PyObject **stages, const char *name, kb_xla_handler *handler)
{
    if (handler)
        kb_python_set(stages, name, PyCapsule_New((void *)(uintptr_t)handler, NULL, NULL));
}

/* {target name: {stage: capsule}} of CPUs or of GPUs. */
static PyObject *get_targets(PyObject *Py_UNUSED(self), PyObject *args)
{
    int on_gpu;
    if (!PyArg_ParseTuple(args, "p:targets", &on_gpu))
        return NULL;
    uint32_t platform = on_gpu ? KB_PLATFORM_GPU : KB_PLATFORM_CPU;
    PyObject *targets = PyDict_New();
    const kb_target *target;
    for (size_t i = 0; targets && (target = kb_targets_get(i)) != NULL; i++) {
        if (!(target->platforms & platform))
            continue;
        PyObject *stages = PyDict_New();
        add_stage(&stages, "instantiate", target->instantiate);
        add_stage(&stages, "prepare", target->prepare);
        add_stage(&stages, "execute", target->execute);
        kb_python_set(&targets, target->name, stages);
    }
    return targets;
}

/* {name: (code, bits, kb_type, code in DLPack)} of every element type that XLA can hand over. */
static PyObject *dtypes(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return Py_BuildValue("{"
#define KB_DTYPE_FORMAT(NAME, code, bits, name, OURS, dlpack, pjrt) "s(iiii)"
                         KB_DTYPE_LIST(KB_DTYPE_FORMAT)
#undef KB_DTYPE_FORMAT
                             "}"
#define KB_DTYPE_VALUE(NAME, code, bits, name, OURS, dlpack, pjrt)                                 \
    , name, code, bits, KB_TYPE_##OURS, dlpack
                         KB_DTYPE_LIST(KB_DTYPE_VALUE)
#undef KB_DTYPE_VALUE
    );
}

/* Addresses of Numba's thread-count functions; whether parallel kernels run one at a time. */
static PyObject *set_threading(PyObject *Py_UNUSED(self), PyObject *args)
{
    unsigned long long get, set;
    int exclusive;
    if (!PyArg_ParseTuple(args, "KKp:set_threading", &get, &set, &exclusive))
        return NULL;
    kb_host_set_threading((int (*)(void))(uintptr_t)get, (void (*)(int))(uintptr_t)set,
                          exclusive != 0);
    Py_RETURN_NONE;
}

/* Threads of parallel kernels from the next call on; 0: their own. */
static PyObject *set_num_threads(PyObject *Py_UNUSED(self), PyObject *args)
{
    int n;
    if (!PyArg_ParseTuple(args, "i:set_num_threads", &n))
        return NULL;
    kb_host_num_threads = n;
    Py_RETURN_NONE;
}

/* What set_num_threads was given last, or 0. */
static PyObject *get_num_threads(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return PyLong_FromLong(kb_host_num_threads);
}

/* How often the core entered Python so far. */
static PyObject *python_entries(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return PyLong_FromLong(kb_python_entries);
}

/* The core's state is the process's, and JAX's is too: importing JAX twice ends the process. */
static int refuse_subinterpreter(PyObject *module)
{
    (void)module;
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
        return 0;
    PyErr_SetString(PyExc_ImportError,
                    "kernbridge cannot be imported in a sub-interpreter of Python, because neither "
                    "it nor JAX has separate state for each interpreter; import it in the "
                    "main interpreter, or start another process [KB7009]");
    return -1;
}

static PyMethodDef methods[] = {
    {"kernel_name", kernel_name, METH_VARARGS, NULL},
    {"registry_stats", registry_stats, METH_NOARGS, NULL},
    {"targets", get_targets, METH_VARARGS, NULL},
    {"dtypes", dtypes, METH_NOARGS, NULL},
    {"set_threading", set_threading, METH_VARARGS, NULL},
    {"set_num_threads", set_num_threads, METH_VARARGS, NULL},
    {"get_num_threads", get_num_threads, METH_NOARGS, NULL},
    {"python_entries", python_entries, METH_NOARGS, NULL},
    {"end_entries", kb_python_end_entries, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)refuse_subinterpreter},
    {Py_mod_exec, (void *)(uintptr_t)kb_python_add_callbacks},
    {Py_mod_exec, (void *)(uintptr_t)kb_python_add_code},
    {Py_mod_exec, (void *)(uintptr_t)kb_python_add_cuda},
    {Py_mod_exec, (void *)(uintptr_t)kb_python_add_modules},
#ifdef KB_EXTENSION_EMULATOR
    {Py_mod_exec, (void *)(uintptr_t)kb_python_add_emulator},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kernbridge._core",
    .m_doc = "The C core of kernbridge.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
