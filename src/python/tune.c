#include "python/tune.h"

#include "core/kb_memory.h"
#include "cuda/kb_target.h"
#include "cuda/kb_tune.h"
#include "python/convert.h"

PyDoc_STRVAR(time_blocks_doc,
             "time_blocks(program, dims, blocks, rounds)\n--\n\n"
             "(size of a block by occupancy, [us of a launch with each block of each round]) of a "
             "program with one launch, whose arrays have these extents. Block 0 is the one by "
             "occupancy; a time of -1 is that of a block which the GPU refuses.");

/* One allocation for the extents of all buffers and what points at them. NULL with an exception set
 * if that fails. */
static const int64_t **read_dims(PyObject *dims)
{
    Py_ssize_t n = PyTuple_Size(dims), total = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *extents = PyTuple_GetItem(dims, i);
        if (!PyTuple_Check(extents)) {
            PyErr_SetString(PyExc_TypeError, "time_blocks: dims holds no tuples");
            return NULL;
        }
        total += PyTuple_Size(extents);
    }
    const int64_t **read =
        PyMem_Malloc((size_t)(n + 1) * sizeof *read + (size_t)(total + 1) * sizeof(int64_t));
    if (!read)
        return (const int64_t **)PyErr_NoMemory();
    int64_t *next = (int64_t *)(read + n + 1);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *extents = PyTuple_GetItem(dims, i);
        read[i] = next;
        for (Py_ssize_t k = 0; k < PyTuple_Size(extents); k++)
            *next++ = PyLong_AsLongLong(PyTuple_GetItem(extents, k));
    }
    if (!PyErr_Occurred())
        return read;
    PyMem_Free((void *)read);
    return NULL;
}

static bool read_blocks(PyObject *blocks, uint32_t *read, uint32_t *n)
{
    Py_ssize_t size = PyTuple_Size(blocks);
    if (size > KB_TUNE_BLOCKS_MAX) {
        PyErr_Format(PyExc_ValueError, "time_blocks: %zd blocks, at most %d", size,
                     KB_TUNE_BLOCKS_MAX);
        return false;
    }
    for (Py_ssize_t i = 0; i < size; i++)
        read[i] = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GetItem(blocks, i));
    *n = (uint32_t)size;
    return !PyErr_Occurred();
}

static PyObject *written(uint32_t auto_block, const double *us, size_t n)
{
    PyObject *times = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; times && i < n; i++) {
        PyObject *time = PyFloat_FromDouble(us[i]);
        if (!time || PyList_SetItem(times, (Py_ssize_t)i, time) != 0)
            Py_CLEAR(times);
    }
    return times ? Py_BuildValue("IN", auto_block, times) : NULL;
}

static PyObject *run(kb_tune_request *request)
{
    size_t n = (size_t)request->n_rounds * request->n_blocks;
    double *us = PyMem_Malloc((n + 1) * sizeof *us);
    if (!us)
        return PyErr_NoMemory();
    kb_error err;
    kb_status s;
    uint32_t auto_block = 0;
    Py_BEGIN_ALLOW_THREADS;
    s = kb_tune_run(request, us, &auto_block, &err);
    Py_END_ALLOW_THREADS;
    PyObject *result = NULL;
    if (s == KB_OK)
        result = written(auto_block, us, n);
    else
        PyErr_SetString(PyExc_RuntimeError, kb_error_text(&err));
    PyMem_Free(us);
    return result;
}

static PyObject *time_blocks(PyObject *self, PyObject *args)
{
    (void)self;
    const char *program;
    Py_ssize_t size;
    PyObject *dims, *blocks;
    unsigned int rounds;
    if (!PyArg_ParseTuple(args, "y#O!O!I:time_blocks", &program, &size, &PyTuple_Type, &dims,
                          &PyTuple_Type, &blocks, &rounds))
        return NULL;
    if (rounds > KB_TUNE_ROUNDS_MAX)
        return PyErr_Format(PyExc_ValueError, "time_blocks: %u rounds, at most %d", rounds,
                            KB_TUNE_ROUNDS_MAX);
    uint32_t sizes[KB_TUNE_BLOCKS_MAX];
    kb_tune_request request = {.program = program,
                               .size = (size_t)size,
                               .n_buffers = (uint32_t)PyTuple_Size(dims),
                               .blocks = sizes,
                               .n_rounds = rounds};
    if (!read_blocks(blocks, sizes, &request.n_blocks))
        return NULL;
    const int64_t **extents = read_dims(dims);
    if (!extents)
        return NULL;
    request.dims = extents;
    PyObject *result = run(&request);
    PyMem_Free((void *)extents);
    return result;
}

static PyMethodDef methods[] = {
    {"time_blocks", time_blocks, METH_VARARGS, time_blocks_doc},
    {NULL, NULL, 0, NULL},
};

int kb_python_add_tune(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
