/* How threads that are not Python's enter it, and how all of them leave before Python ends:
 * one that is inside then never comes back, and XLA waits for its threads. */
#ifndef KB_PYTHON_ENTRY_H
#define KB_PYTHON_ENTRY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/kb_error.h"

#include <stdbool.h>
#include <stdint.h>

/* A thread's stay in Python; on its stack. */
typedef struct kb_python_entry {
    PyGILState_STATE gil;
    uint64_t float_mode;
    unsigned long thread;
    bool needless; /* once the process ends: its result is not used */
    struct kb_python_entry *next;
} kb_python_entry;

/* Takes the GIL, and computes with subnormal numbers from then on, as Python's own threads do.
 * False if Python has ended, or is ending and the stay would be needless: then there is nothing to
 * leave. */
bool kb_python_enter(kb_python_entry *entry, bool needless);

void kb_python_leave(kb_python_entry *entry);

/* Leaves Python; `done` is NULL if what it was asked for has failed. */
kb_status kb_python_conclude(PyObject *done, kb_python_entry *entry, kb_error *err);

/* Has KeyboardInterrupt raised again once this thread has left. Not before: the callbacks of
 * objects that are released meanwhile would take it, and Python ignores exceptions of theirs. */
void kb_python_interrupt_after_leaving(void);

/* How often Python was entered so far. */
extern _Atomic(long) kb_python_entries;

PyObject *kb_python_end_entries(PyObject *self, PyObject *interrupt);

#endif
