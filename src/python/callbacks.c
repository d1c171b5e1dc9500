/* Owns the calls from the core into Python. They arrive on any thread, without the GIL, and take
 * it. The callables are kept for the life of the process. */
#include "python/convert.h"

#include "abi/kb_numba.h"
#include "core/kb_handler.h"
#include "core/kb_host.h"
#include "core/kb_plan.h"
#include "core/kb_running.h"
#include "python/entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBA_HASH_SIZE = 20 };

static PyObject *describe_exception; /* see set_decoder */
static PyObject *resolve_kernel;     /* (digest, origin) -> None, or raises */
static PyObject *call_function;      /* see set_caller */
static void (*numba_free)(void *);

/* Copies a string, or a stand-in for NULL. Python's strings may hold NULs, and surrogates, which
 * UTF-8 has no form for. Steals the string, leaves no error set. */
static void copy_string(PyObject *string, char *text, size_t capacity)
{
    PyObject *utf8 = string ? PyUnicode_AsEncodedString(string, "utf-8", "backslashreplace") : NULL;
    char *bytes;
    Py_ssize_t size;
    if (utf8 && PyBytes_AsStringAndSize(utf8, &bytes, &size) == 0)
        (void)kb_utf8_escape(text, capacity, bytes, (size_t)size);
    else
        snprintf(text, capacity, "an exception that could not be put into words");
    Py_XDECREF(utf8);
    Py_XDECREF(string);
    PyErr_Clear();
}

static void copy_text(PyObject *object, char *text, size_t capacity)
{
    copy_string(object ? PyObject_Str(object) : NULL, text, capacity);
}

/* The exception that is set on this thread, cleared from it; NULL if there is none. Ctrl-C, which
 * arrives in the main thread, is more than the failure of a call: it is raised again where that
 * thread is back in Python. */
static PyObject *take_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    if (value && PyErr_GivenExceptionMatches(value, PyExc_KeyboardInterrupt))
        kb_python_interrupt_after_leaving();
    return value;
}

static void copy_exception(char *text, size_t capacity)
{
    PyObject *exception = take_exception();
    if (exception && PyErr_GivenExceptionMatches(exception, PyExc_KeyboardInterrupt))
        snprintf(text, capacity, "KeyboardInterrupt");
    else
        copy_text(exception, text, capacity);
    Py_XDECREF(exception);
}

static PyObject *describe_raised(const char *source)
{
    PyObject *exception = take_exception();
    PyObject *text =
        PyObject_CallFunction(describe_exception, "sOKOOOi", source,
                              exception ? exception : Py_None, 0ULL, Py_None, Py_None, Py_None, 0);
    Py_XDECREF(exception);
    return text;
}

static PyObject *describe_record(const char *source, int status, kb_numba_exception *record)
{
    unsigned long long address = (uintptr_t)record->pickle;
    if (record->dynamic <= 0)
        return PyObject_CallFunction(describe_exception, "sOKy#y#Oi", source, Py_None, address,
                                     record->pickle, (Py_ssize_t)record->pickle_size,
                                     record->payload, (Py_ssize_t)NUMBA_HASH_SIZE, Py_None, status);

    PyObject *(*unwrap)(void *) = (PyObject * (*)(void *))(uintptr_t)record->unwrap;
    PyObject *arguments = unwrap(record->payload);
    PyObject *text =
        arguments ? PyObject_CallFunction(describe_exception, "sOKy#OOi", source, Py_None, address,
                                          record->pickle, (Py_ssize_t)record->pickle_size, Py_None,
                                          arguments, status)
                  : NULL;
    Py_XDECREF(arguments);
    numba_free(record);
    return text;
}

static void decode(int32_t status, void *exception, const char *source, char *text, size_t capacity)
{
    kb_python_entry entry;
    if (!kb_python_enter(&entry, false)) {
        snprintf(text, capacity, "the kernel failed with status %d", (int)status);
        return;
    }
    PyObject *description = NULL;
    if (status == KB_NUMBA_PYTHON_EXCEPTION)
        description = describe_raised(source);
    else if (status >= KB_NUMBA_USER_EXCEPTION && exception)
        description = describe_record(source, (int)status, exception);
    if (description)
        copy_text(description, text, capacity);
    else if (PyErr_Occurred())
        copy_exception(text, capacity);
    else
        snprintf(text, capacity, "the kernel failed with status %d", (int)status);
    Py_XDECREF(description);
    kb_python_leave(&entry);
}

/* A kb_failures_writer. */
static bool write_values(kb_numba_exception *record, char *text, size_t capacity)
{
    kb_python_entry entry;
    if (!kb_python_enter(&entry, false))
        return false;
    PyObject *(*unwrap)(void *) = (PyObject * (*)(void *))(uintptr_t)record->unwrap;
    PyObject *values = unwrap(record->payload);
    size_t size = 0;
    for (const char *at = record->pickle; *at && size < capacity - 1;) {
        if (*at != KB_FAILURES_VALUE) {
            text[size++] = *at++;
            continue;
        }
        char *end;
        long index = strtol(at + 1, &end, 10);
        PyObject *value = values ? PyTuple_GetItem(values, (Py_ssize_t)index) : NULL;
        PyErr_Clear();
        copy_string(*end == 'r' ? PyObject_Repr(value) : PyObject_Str(value), text + size,
                    capacity - size);
        size += strlen(text + size);
        at = *end ? end + 1 : end;
    }
    text[size] = '\0';
    Py_XDECREF(values);
    kb_python_leave(&entry);
    return true;
}

kb_status kb_python_conclude(PyObject *done, kb_python_entry *entry, kb_error *err)
{
    kb_status s = KB_OK;
    if (!done) {
        s = kb_error_set(err, KB_NOT_FOUND, "%s", "");
        copy_exception(err->message, sizeof err->message);
    }
    Py_XDECREF(done);
    kb_python_leave(entry);
    return s;
}

static kb_status resolve(const uint8_t digest[KB_DIGEST_SIZE], kb_xla_bytes origin, kb_error *err)
{
    kb_python_entry entry;
    if (!kb_python_enter(&entry, true))
        return kb_error_set(err, KB_NOT_FOUND, "Python has ended");
    PyObject *done =
        PyObject_CallFunction(resolve_kernel, "y#s#", (const char *)digest,
                              (Py_ssize_t)KB_DIGEST_SIZE, origin.data, (Py_ssize_t)origin.size);
    return kb_python_conclude(done, &entry, err);
}

/* (address, shape, dtype code) of one buffer. */
static PyObject *describe_buffer(const kb_xla_buffer *buffer)
{
    PyObject *shape = PyTuple_New((Py_ssize_t)buffer->rank);
    for (int64_t d = 0; shape && d < buffer->rank; d++) {
        PyObject *extent = PyLong_FromLongLong(buffer->dims[d]);
        if (!extent || PyTuple_SetItem(shape, (Py_ssize_t)d, extent) != 0)
            Py_CLEAR(shape);
    }
    unsigned long long address = (uintptr_t)buffer->data;
    return shape ? Py_BuildValue("KNi", address, shape, (int)buffer->dtype) : NULL;
}

static PyObject *describe_buffers(const kb_frame *frame)
{
    uint32_t n = frame->kernel->n_inputs + frame->kernel->n_outputs;
    PyObject *buffers = PyTuple_New((Py_ssize_t)n);
    for (uint32_t i = 0; buffers && i < n; i++) {
        PyObject *item = describe_buffer(kb_frame_buffer(frame, i));
        if (!item || PyTuple_SetItem(buffers, (Py_ssize_t)i, item) != 0)
            Py_CLEAR(buffers);
    }
    return buffers;
}

/* Runner of steps of kind KB_STEP_CALLBACK. The first call that returns True is the last. */
static kb_status run_callback(const void *step, const kb_frame *frame, kb_error *err)
{
    int64_t *handle = (int64_t *)(uintptr_t)step; /* of the registry's own copy */
    int64_t called = __atomic_load_n(handle, __ATOMIC_RELAXED);
    if (called == 0)
        return KB_OK;
    kb_python_entry entry;
    if (!kb_python_enter(&entry, false))
        return kb_error_set(err, KB_INTERNAL, "%s: Python has ended", frame->kernel->name);
    PyObject *buffers = describe_buffers(frame);
    unsigned long long stream = (uintptr_t)frame->stream;
    PyObject *done = buffers ? PyObject_CallFunction(call_function, "LOKi", (long long)called,
                                                     buffers, stream, frame->device)
                             : NULL;
    if (done == Py_True)
        __atomic_store_n(handle, 0, __ATOMIC_RELAXED);
    kb_status s = KB_OK;
    if (!done) {
        char text[KB_ERROR_CAPACITY];
        copy_exception(text, sizeof text);
        (void)kb_error_set(err, KB_INTERNAL, "%s: %s", frame->kernel->name, text);
        s = kb_error_code(err, "KB3008");
    }
    Py_XDECREF(done);
    Py_XDECREF(buffers);
    kb_python_leave(&entry);
    return s;
}

/* Keeps a callable in place of the one before; -1 with an exception set if it is none. */
static int keep(PyObject **slot, PyObject *callable)
{
    if (!PyCallable_Check(callable)) {
        PyErr_SetString(PyExc_TypeError, "expected a callable");
        return -1;
    }
    PyObject *before = *slot;
    *slot = Py_NewRef(callable);
    Py_XDECREF(before);
    return 0;
}

/* describe(source, exception, address, pickle, hash, arguments, status) -> str puts a failed kernel
 * into words; numba_free is the address of Numba's own free. */
static PyObject *set_decoder(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *callable;
    unsigned long long address;
    if (!PyArg_ParseTuple(args, "OK:set_decoder", &callable, &address) ||
        keep(&describe_exception, callable) != 0)
        return NULL;
    numba_free = (void (*)(void *))(uintptr_t)address;
    kb_host_decode = decode;
    Py_RETURN_NONE;
}

/* resolve(digest, origin) must register the kernel of that digest, or raise what is missing. */
static PyObject *set_resolver(PyObject *Py_UNUSED(self), PyObject *callable)
{
    if (keep(&resolve_kernel, callable) != 0)
        return NULL;
    kb_handler_resolve = resolve;
    Py_RETURN_NONE;
}

/* call(handle, buffers, stream, device) runs the Python function of that handle on buffers, each
 * (address, shape, dtype code): inputs, then outputs. True if it need not be called again. */
static PyObject *set_caller(PyObject *Py_UNUSED(self), PyObject *callable)
{
    if (keep(&call_function, callable) != 0)
        return NULL;
    kb_plan_runners[KB_STEP_CALLBACK] = run_callback;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"set_decoder", set_decoder, METH_VARARGS, NULL},
    {"set_resolver", set_resolver, METH_O, NULL},
    {"set_caller", set_caller, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int kb_python_add_callbacks(PyObject *module)
{
    kb_failures_write = write_values;
    kb_running_watch_faults();
    return PyModule_AddFunctions(module, methods);
}
