/* Owns the part of the extension `_core` for CUDA on the CPU. */
#include "python/convert.h"

#include "core/kb_handler.h"
#include "core/kb_plan.h"
#include "ext/emulator/kb_cuda_code.h"
#include "ext/emulator/kb_hostcuda.h"
#include "python/entry.h"

static int read_image_digest(PyObject *bytes, void *digest)
{
    return kb_python_read_digest(bytes, digest, KB_HOSTCUDA_DIGEST);
}

/* Make known the machine code of a CUDA kernel for the CPU (src/ext/emulator/kb_cuda_code.h);
 * {name: address} of what it defines. ValueError is raised if it is damaged, or cannot run here. */
static PyObject *add_host_code(PyObject *Py_UNUSED(self), PyObject *args)
{
    const char *digest, *code, *of, *name;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "O&y#s:add_host_code", read_image_digest, &digest, &code, &size,
                          &of))
        return NULL;
    kb_error err;
    if (kb_cuda_code_load(digest, code, (size_t)size, of, &err) != KB_OK)
        return kb_python_raise(&err);
    const kb_object *object = kb_hostcuda_find(digest)->owner;
    PyObject *defined = PyDict_New();
    void *address;
    for (size_t at = 0; defined && kb_object_next(object, &at, &name, &address);)
        kb_python_set(&defined, name, PyLong_FromVoidPtr(address));
    return defined;
}

/* Make known a library of a CUDA kernel for the CPU (src/ext/emulator/kb_cuda_code.h); the codes of
 * its parameters' types and their sizes, of 32 bits, and the image with loops, or b"". */
static PyObject *add_host_library(PyObject *Py_UNUSED(self), PyObject *args)
{
    const char *digest, *code, *of;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "O&y#s:add_host_library", read_image_digest, &digest, &code, &size,
                          &of))
        return NULL;
    kb_error err;
    if (kb_cuda_code_load(digest, code, (size_t)size, of, &err) != KB_OK)
        return kb_python_raise(&err);
    const kb_cuda_kernel *kernel = kb_hostcuda_find(digest)->owner;
    const kb_cuda_loops *loops = kernel->loops;
    Py_ssize_t n = (Py_ssize_t)(kernel->n_parameters * sizeof *kernel->codes);
    return Py_BuildValue("y#y#y#", kernel->codes, n, kernel->sizes, n, loops ? loops->image : "",
                         (Py_ssize_t)(loops ? loops->image_size : 0));
}

/* The address of the function of this name, if machine code of CUDA kernels may call it; or 0. */
static PyObject *cuda_code_provides(PyObject *Py_UNUSED(self), PyObject *text)
{
    const char *name = PyUnicode_AsUTF8AndSize(text, NULL);
    return name ? PyLong_FromVoidPtr(kb_cuda_code_find(name)) : NULL;
}

/* Run a registered kernel on the CPU, on arrays whose descriptions, as kb_xla_buffer, are at the
 * addresses in two tables: of its inputs, and of its outputs and the hidden ones. RuntimeError is
 * raised if it fails. */
static PyObject *run_kernel(PyObject *Py_UNUSED(self), PyObject *args)
{
    const uint8_t *digest;
    unsigned long long inputs, outputs;
    if (!PyArg_ParseTuple(args, "O&KK:run_kernel", kb_python_digest, &digest, &inputs, &outputs))
        return NULL;
    kb_error err;
    kb_frame frame = {.n_slices = 1,
                      .inputs = (void *const *)(uintptr_t)inputs,
                      .outputs = (void *const *)(uintptr_t)outputs};
    kb_status s = kb_registry_match(&kb_handler_registry, digest, &frame.kernel, &err);
    if (s != KB_OK)
        return kb_python_raise(&err);
    kb_hostcuda_enter(&frame);
    Py_BEGIN_ALLOW_THREADS;
    s = kb_plan_run(&frame.kernel->plan, &frame, &err);
    Py_END_ALLOW_THREADS;
    if (s == KB_OK)
        Py_RETURN_NONE;
    return PyErr_Format(PyExc_RuntimeError, "%s", kb_error_text(&err));
}

/* Run a launch of known code; `words` is a buffer of 64-bit words, one for each of the kernel's
 * parameters. RuntimeError says what the kernel did wrong. */
static PyObject *launch_host_code(PyObject *Py_UNUSED(self), PyObject *args)
{
    const char *digest;
    uint32_t n[6];
    unsigned shared;
    Py_buffer words;
    if (!PyArg_ParseTuple(args, "O&(III)(III)Iy*:launch_host_code", read_image_digest, &digest,
                          &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &shared, &words))
        return NULL;
    kb_error err;
    size_t n_words = (size_t)words.len / sizeof(uint64_t);
    void **parameters = PyMem_New(void *, n_words);
    kb_status s = parameters ? KB_OK
                             : kb_error_set(&err, KB_RESOURCE_EXHAUSTED,
                                            "no memory for the parameters of a launch");
    for (size_t i = 0; s == KB_OK && i < n_words; i++)
        parameters[i] = (uint64_t *)words.buf + i;
    if (s == KB_OK) {
        Py_BEGIN_ALLOW_THREADS;
        s = kb_hostcuda_launch(digest, n, shared, parameters, NULL, &err);
        Py_END_ALLOW_THREADS;
    }
    PyMem_Free((void *)parameters);
    PyBuffer_Release(&words);
    if (s == KB_OK)
        Py_RETURN_NONE;
    if (PyErr_CheckSignals() != 0) /* Ctrl-C may be what ended it */
        return NULL;
    if (s != KB_INTERNAL)
        return kb_python_raise(&err);
    return PyErr_Format(PyExc_RuntimeError, "%s", kb_error_text(&err));
}

/* {name of a kernel: (launches, those with a fault)}, counted while set_debug has bit 64. */
static PyObject *launches(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    PyObject *found = PyDict_New();
    for (const kb_launches *l = kb_hostcuda_launches; found && l; l = l->next)
        kb_python_set(&found, l->name,
                      Py_BuildValue("KK", (unsigned long long)l->counts[0],
                                    (unsigned long long)l->counts[1]));
    return found;
}

/* Threads of CUDA on the CPU whose stacks wait for use. */
static PyObject *host_threads_kept(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return PyLong_FromUnsignedLong(kb_block_kept());
}

/* Make machine code of a CUDA kernel's image for the CPU; `compile_image` calls add_host_code. */
static kb_status compile_for_host(const char *image, size_t size, kb_error *err)
{
    kb_python_entry entry;
    if (!kb_python_enter(&entry, true))
        return kb_error_set(err, KB_NOT_FOUND, "Python has ended");
    PyObject *module = PyImport_ImportModule("kernbridge._ext.emulator.compiler.compile");
    PyObject *made =
        module ? PyObject_CallMethod(module, "compile_image", "y#", image, (Py_ssize_t)size) : NULL;
    Py_XDECREF(module);
    return kb_python_conclude(made, &entry, err);
}

static PyMethodDef methods[] = {
    {"add_host_code", add_host_code, METH_VARARGS, NULL},
    {"add_host_library", add_host_library, METH_VARARGS, NULL},
    {"cuda_code_provides", cuda_code_provides, METH_O, NULL},
    {"run_kernel", run_kernel, METH_VARARGS, NULL},
    {"launch_host_code", launch_host_code, METH_VARARGS, NULL},
    {"launches", launches, METH_NOARGS, NULL},
    {"host_threads_kept", host_threads_kept, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* Numbers and marks of formats: what Python writes, the core reads. */
int kb_python_add_emulator(PyObject *module)
{
    kb_hostcuda_compile = compile_for_host;
    if (PyModule_AddStringConstant(module, "CUDA_CODE_MAGIC", KB_CUDA_CODE_MAGIC) != 0 ||
        PyModule_AddStringConstant(module, "CUDA_LIBRARY_MAGIC", KB_CUDA_LIBRARY_MAGIC) != 0 ||
        PyModule_AddIntConstant(module, "HOST_CC", KB_HOSTCUDA_CC) != 0 ||
        PyModule_AddIntConstant(module, "HOST_CODE_CC", KB_HOSTCUDA_CODE_CC) != 0 ||
        PyModule_AddIntConstant(module, "HOST_ABI", KB_HOSTCUDA_ABI) != 0 ||
        PyModule_AddStringConstant(module, "HOST_ABI_LINE", KB_HOSTCUDA_ABI_LINE) != 0)
        return -1;
    return PyModule_AddFunctions(module, methods);
}
