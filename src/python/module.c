/* The extension `kernbridge._core`: converts arguments between Python and the core, and nothing
 * else. Its functions are entered with the GIL. Limited API of CPython 3.11. */
#include "python/callbacks.h"
#include "python/code.h"
#include "python/convert.h"
#include "python/cuda.h"
#include "python/entry.h"
#include "python/files.h"
#include "python/modules.h"
#include "python/nvrtc.h"
#include "python/source.h"

#include "core/kb_dtype.h"
#include "core/kb_handler.h"
#include "core/kb_host.h"
#include "core/kb_memory.h"
#include "embed/kb_targets.h"

#include <string.h>

static kb_registry *get_registry(void)
{
    kb_registry *registry = kb_handler_registry();
    if (!registry)
        PyErr_NoMemory();
    return registry;
}

PyDoc_STRVAR(register_host_doc,
             "register_host(digest, name, source, n_inputs, n_outputs, buffers, entry, parallel, "
             "num_threads, concurrent)\n"
             "--\n\n"
             "Register native code; True if it is new, False if this digest was there already.\n"
             "`buffers` is a tuple of (dtype code, rank, name): inputs, outputs, hidden results.");

static PyObject *register_host(PyObject *self, PyObject *args)
{
    (void)self;
    const char *digest, *name, *source;
    Py_ssize_t digest_size;
    unsigned int n_inputs, n_outputs;
    PyObject *sequence;
    unsigned long long entry;
    int parallel, num_threads, concurrent;
    if (!PyArg_ParseTuple(args, "y#ssIIO!Kpip:register_host", &digest, &digest_size, &name, &source,
                          &n_inputs, &n_outputs, &PyTuple_Type, &sequence, &entry, &parallel,
                          &num_threads, &concurrent))
        return NULL;
    Py_ssize_t n_buffers = PyTuple_Size(sequence);
    if (digest_size != KB_DIGEST_SIZE || entry == 0 ||
        (unsigned long long)n_inputs + n_outputs > (unsigned long long)n_buffers) {
        PyErr_Format(PyExc_ValueError,
                     "register_host: expected a digest of %d bytes, an entry address, and at least "
                     "n_inputs + n_outputs buffers",
                     KB_DIGEST_SIZE);
        return NULL;
    }
    kb_buffer_spec *buffers = kb_python_read_buffers(sequence);
    if (!buffers)
        return NULL;

    kb_step step = {
        .kind = KB_STEP_HOST,
        .host = {.entry = (kb_numba_entry *)(uintptr_t)entry,
                 .parallel = parallel != 0,
                 .concurrent = concurrent != 0,
                 .num_threads = num_threads},
    };
    kb_kernel kernel = {
        .name = name,
        .source = source,
        .n_inputs = n_inputs,
        .n_outputs = n_outputs,
        .n_hidden = (uint32_t)(n_buffers - n_inputs - n_outputs),
        .buffers = buffers,
        .plan = {.n_steps = 1, .steps = &step},
    };
    memcpy(kernel.digest, digest, KB_DIGEST_SIZE);
    PyObject *inserted = kb_python_register(&kernel);
    kb_free(buffers);
    return inserted;
}

/* Finds the kernel of the digest that a function got; `*kernel` is NULL where there is none. False
 * with an exception set if that fails. */
static bool find_kernel(const char *function, const char *digest, Py_ssize_t size,
                        const kb_kernel **kernel)
{
    *kernel = NULL;
    if (!kb_python_check_size(function, size, KB_DIGEST_SIZE))
        return false;
    kb_registry *registry = get_registry();
    if (!registry)
        return false;
    kb_error err;
    kb_status s = kb_registry_match(registry, (const uint8_t *)digest, kernel, &err);
    if (s == KB_OK || s == KB_NOT_FOUND)
        return true;
    kb_python_raise(&err);
    return false;
}

PyDoc_STRVAR(is_registered_doc, "is_registered(digest)\n--\n\n"
                                "True if a kernel of exactly this digest is registered.");

static PyObject *is_registered(PyObject *self, PyObject *args)
{
    (void)self;
    const char *digest;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "y#:is_registered", &digest, &size))
        return NULL;
    const kb_kernel *kernel;
    return find_kernel("is_registered", digest, size, &kernel) ? PyBool_FromLong(kernel != NULL)
                                                               : NULL;
}

PyDoc_STRVAR(kernel_name_doc,
             "kernel_name(digest)\n--\n\n"
             "What messages call the registered kernel of this digest; None where there is none.");

static PyObject *kernel_name(PyObject *self, PyObject *args)
{
    (void)self;
    const char *digest;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "y#:kernel_name", &digest, &size))
        return NULL;
    const kb_kernel *kernel;
    if (!find_kernel("kernel_name", digest, size, &kernel))
        return NULL;
    if (!kernel)
        Py_RETURN_NONE;
    return kb_python_text(kernel->name);
}

PyDoc_STRVAR(registry_stats_doc, "registry_stats()\n--\n\n"
                                 "(kernels, bytes) of the process's registry.");

static PyObject *registry_stats(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    kb_registry *registry = get_registry();
    if (!registry)
        return NULL;
    kb_registry_stats stats = kb_registry_count(registry);
    return Py_BuildValue("nn", (Py_ssize_t)stats.kernels, (Py_ssize_t)stats.bytes);
}

PyDoc_STRVAR(targets_doc, "targets(on_gpu)\n--\n\n"
                          "{target name: {stage: capsule}} of CPUs or of GPUs.");

static int add_stage(PyObject *stages, const char *name, kb_xla_handler *handler)
{
    if (!handler)
        return 0;
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)handler, NULL, NULL);
    int failed = capsule ? PyDict_SetItemString(stages, name, capsule) : -1;
    Py_XDECREF(capsule);
    return failed;
}

static int add_target(PyObject *targets, const kb_target *target)
{
    PyObject *stages = PyDict_New();
    int failed = stages ? add_stage(stages, "instantiate", target->instantiate) : -1;
    if (failed == 0)
        failed = add_stage(stages, "prepare", target->prepare);
    if (failed == 0)
        failed = add_stage(stages, "execute", target->execute);
    if (failed == 0)
        failed = PyDict_SetItemString(targets, target->name, stages);
    Py_XDECREF(stages);
    return failed;
}

static PyObject *get_targets(PyObject *self, PyObject *args)
{
    (void)self;
    int on_gpu;
    if (!PyArg_ParseTuple(args, "p:targets", &on_gpu))
        return NULL;
    uint32_t platform = on_gpu ? KB_PLATFORM_GPU : KB_PLATFORM_CPU;
    PyObject *targets = PyDict_New();
    for (const kb_target *target = kb_targets; targets && target->name; target++)
        if (target->platforms & platform && add_target(targets, target) != 0)
            Py_CLEAR(targets);
    return targets;
}

PyDoc_STRVAR(dtypes_doc, "dtypes()\n--\n\n"
                         "{name: (code, bits)} of every element type that XLA can hand over.");

static PyObject *dtypes(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return Py_BuildValue("{"
#define KB_DTYPE_FORMAT(NAME, code, bits, name) "s(ii)"
                         KB_DTYPE_LIST(KB_DTYPE_FORMAT)
#undef KB_DTYPE_FORMAT
                             "}"
#define KB_DTYPE_VALUE(NAME, code, bits, name) , name, code, bits
                         KB_DTYPE_LIST(KB_DTYPE_VALUE)
#undef KB_DTYPE_VALUE
    );
}

PyDoc_STRVAR(
    set_threading_doc,
    "set_threading(get_num_threads, set_num_threads, exclusive)\n--\n\n"
    "Addresses of Numba's thread-count functions; whether parallel kernels run one at a time.");

static PyObject *set_threading(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned long long get, set;
    int exclusive;
    if (!PyArg_ParseTuple(args, "KKp:set_threading", &get, &set, &exclusive))
        return NULL;
    kb_host_threading threading = {
        .get_num_threads = (int (*)(void))(uintptr_t)get,
        .set_num_threads = (void (*)(int))(uintptr_t)set,
        .exclusive = exclusive != 0,
    };
    kb_host_set_threading(&threading);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(set_num_threads_doc,
             "set_num_threads(n)\n--\n\n"
             "Threads of parallel kernels from the next call on; 0: their own.");

static PyObject *set_num_threads(PyObject *self, PyObject *args)
{
    (void)self;
    int n;
    if (!PyArg_ParseTuple(args, "i:set_num_threads", &n))
        return NULL;
    kb_host_set_num_threads(n);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(get_num_threads_doc,
             "get_num_threads()\n--\n\nWhat set_num_threads was given last, or 0.");

static PyObject *get_num_threads(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyLong_FromLong(kb_host_num_threads());
}

PyDoc_STRVAR(python_entries_doc,
             "python_entries()\n--\n\nHow often the core entered Python so far.");

static PyObject *python_entries(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyLong_FromLong(kb_python_entries());
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
    {"register_host", register_host, METH_VARARGS, register_host_doc},
    {"is_registered", is_registered, METH_VARARGS, is_registered_doc},
    {"kernel_name", kernel_name, METH_VARARGS, kernel_name_doc},
    {"registry_stats", registry_stats, METH_NOARGS, registry_stats_doc},
    {"targets", get_targets, METH_VARARGS, targets_doc},
    {"dtypes", dtypes, METH_NOARGS, dtypes_doc},
    {"set_threading", set_threading, METH_VARARGS, set_threading_doc},
    {"set_num_threads", set_num_threads, METH_VARARGS, set_num_threads_doc},
    {"get_num_threads", get_num_threads, METH_NOARGS, get_num_threads_doc},
    {"set_decoder", kb_python_set_decoder, METH_VARARGS, kb_python_set_decoder_doc},
    {"set_resolver", kb_python_set_resolver, METH_VARARGS, kb_python_set_resolver_doc},
    {"set_caller", kb_python_set_caller, METH_VARARGS, kb_python_set_caller_doc},
    {"set_host_compiler", kb_python_set_host_compiler, METH_VARARGS,
     kb_python_set_host_compiler_doc},
    {"python_entries", python_entries, METH_NOARGS, python_entries_doc},
    {"end_entries", kb_python_end_entries, METH_O, kb_python_end_entries_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)refuse_subinterpreter},
    {Py_mod_exec, (void *)(uintptr_t)kb_python_add_code},
    {Py_mod_exec, (void *)(uintptr_t)kb_python_add_cuda},
    {Py_mod_exec, (void *)(uintptr_t)kb_python_add_files},
    {Py_mod_exec, (void *)(uintptr_t)kb_python_add_modules},
    {Py_mod_exec, (void *)(uintptr_t)kb_python_add_source},
    {Py_mod_exec, (void *)(uintptr_t)kb_python_add_nvrtc},
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
