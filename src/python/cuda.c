/* Owns the conversion of arguments between Python and src/cuda. */
#include "python/convert.h"

#include "core/kb_handler.h"
#include "core/kb_plan.h"
#include "cuda/kb_driver.h"
#include "cuda/kb_function.h"
#include "cuda/kb_nvrtc.h"
#include "cuda/kb_program.h"
#include "cuda/kb_stream.h"
#include "cuda/kb_target.h"

/* Read and register a GPU program (see src/cuda/kb_program.h); True if it is new. Only with
 * `callbacks` may it call Python. */
static PyObject *register_program(PyObject *Py_UNUSED(self), PyObject *args)
{
    const uint8_t *digest;
    const char *program;
    Py_ssize_t size;
    int callbacks;
    if (!PyArg_ParseTuple(args, "O&y#p:register_program", kb_python_digest, &digest, &program,
                          &size, &callbacks))
        return NULL;
    return kb_python_register(kb_target_register, program, size, digest,
                              callbacks ? &callbacks : NULL);
}

/* (number of GPUs that the driver shows, why there are none). */
static PyObject *device_count(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    kb_error err;
    int n = kb_driver_device_count(&err);
    return Py_BuildValue("is", n, n ? "" : kb_error_text(&err));
}

/* -1 if the driver does not report it. */
static int attribute_of(const kb_driver *cu, int attribute, kb_cu_device device)
{
    int value;
    return cu->cuDeviceGetAttribute(&value, attribute, device) == KB_CU_SUCCESS ? value : -1;
}

/* (major, minor) of a GPU. */
static PyObject *compute_capability(PyObject *Py_UNUSED(self), PyObject *args)
{
    int device;
    if (!PyArg_ParseTuple(args, "i:compute_capability", &device))
        return NULL;
    kb_error err;
    const kb_driver *cu = kb_driver_get(&err);
    int major = cu ? attribute_of(cu, KB_CU_DEVICE_CC_MAJOR, device) : -1;
    int minor = cu ? attribute_of(cu, KB_CU_DEVICE_CC_MINOR, device) : -1;
    if (major >= 0 && minor >= 0)
        return Py_BuildValue("ii", major, minor);
    return PyErr_Format(PyExc_RuntimeError, "%s",
                        cu ? "the CUDA driver does not tell the compute capability of that GPU"
                           : kb_error_text(&err));
}

/* Share of a multiprocessor's threads that such blocks fill; threads 0: the best size. */
static PyObject *occupancy(PyObject *Py_UNUSED(self), PyObject *args)
{
    const char *image, *entry;
    Py_ssize_t size;
    int threads;
    unsigned int shared;
    if (!PyArg_ParseTuple(args, "y#siI:occupancy", &image, &size, &entry, &threads, &shared))
        return NULL;
    double share;
    kb_error err;
    if (kb_occupancy(image, entry, threads, shared, &share, &err) == KB_OK)
        return PyFloat_FromDouble(share);
    return PyErr_Format(PyExc_RuntimeError, "%s", kb_error_text(&err));
}

/* Bits: 1 wait for every launch, 2 look for outputs that are not written, 4 count graph nodes, 8
 * use the default stream where XLA gives none, 16 compare inputs on the CPU before and after, 64
 * count launches. */
static PyObject *set_debug(PyObject *Py_UNUSED(self), PyObject *args)
{
    unsigned int flags;
    if (!PyArg_ParseTuple(args, "I:set_debug", &flags))
        return NULL;
    kb_stream_set_debug(flags);
    Py_RETURN_NONE;
}

/* (calls, kernel nodes) recorded into graphs while set_debug had bit 4. */
static PyObject *captures(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return Py_BuildValue("ll", kb_target_captured_calls, kb_target_captured_nodes);
}

/* (functions, loads, bytes, images of different content) of GPU code in this process. */
static PyObject *function_stats(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    const struct kb_function_stats *count = &kb_function_count;
    return Py_BuildValue("nnnn", (Py_ssize_t)count->functions, (Py_ssize_t)count->loads,
                         (Py_ssize_t)count->bytes, (Py_ssize_t)count->images);
}

/* Keep the library with a function at this address from handling the signals of the process; 0:
 * every libnvrtc that is loaded. */
static PyObject *nvrtc_keep_signals(PyObject *Py_UNUSED(self), PyObject *args)
{
    unsigned long long address;
    if (!PyArg_ParseTuple(args, "K:nvrtc_keep_signals", &address))
        return NULL;
    kb_nvrtc_keep_signals((const void *)(uintptr_t)address);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"register_program", register_program, METH_VARARGS, NULL},
    {"device_count", device_count, METH_NOARGS, NULL},
    {"compute_capability", compute_capability, METH_VARARGS, NULL},
    {"occupancy", occupancy, METH_VARARGS, NULL},
    {"set_debug", set_debug, METH_VARARGS, NULL},
    {"captures", captures, METH_NOARGS, NULL},
    {"function_stats", function_stats, METH_NOARGS, NULL},
    {"nvrtc_keep_signals", nvrtc_keep_signals, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* Numbers of formats: what Python writes, the core reads. */
int kb_python_add_cuda(PyObject *module)
{
    if (PyModule_AddIntConstant(module, "PROGRAM_VERSION", KB_PROGRAM_VERSION) != 0)
        return -1;
    return PyModule_AddFunctions(module, methods);
}
