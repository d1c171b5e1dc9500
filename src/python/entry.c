/* Owns the list of the threads that the core brought into Python. */
#include "python/entry.h"

#include "core/kb_float_mode.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { TICK_NS = 5000000, TICKS_UNTIL_REMINDED = 200 };

_Atomic(long) kb_python_entries;
static kb_python_entry *inside; /* under the GIL */
static bool ending;             /* under the GIL */
static _Thread_local bool interrupted;

/* A process that was forked has none of these threads. */
static void forget(void)
{
    inside = NULL;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forget);
}

bool kb_python_enter(kb_python_entry *entry, bool needless)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    if (!Py_IsInitialized())
        return false;
    entry->gil = PyGILState_Ensure();
    if (ending && needless) {
        PyGILState_Release(entry->gil);
        return false;
    }
    kb_python_entries++;
    entry->float_mode = kb_float_mode_exact();
    entry->thread = PyThread_get_thread_ident();
    entry->needless = needless;
    entry->next = inside;
    inside = entry;
    return true;
}

void kb_python_leave(kb_python_entry *entry)
{
    kb_python_entry **link = &inside;
    while (*link && *link != entry)
        link = &(*link)->next;
    if (*link)
        *link = entry->next;
    if (ending)
        (void)PyThreadState_SetAsyncExc(entry->thread, NULL); /* one that came too late */
    kb_float_mode_restore(entry->float_mode);
    PyGILState_Release(entry->gil);
    if (interrupted)
        PyErr_SetInterrupt();
    interrupted = false;
}

void kb_python_interrupt_after_leaving(void)
{
    interrupted = true;
}

static void interrupt_entries(bool all)
{
    for (const kb_python_entry *e = inside; e; e = e->next)
        if (all || e->needless)
            (void)PyThreadState_SetAsyncExc(e->thread, PyExc_SystemExit);
}

/* Wait until all threads of XLA have left Python, as the process ends. Compilations are
 * interrupted. Functions of the user are interrupted by `interrupt` or by Ctrl-C, and waited for
 * otherwise. Ctrl-C after that ends the waiting. */
PyObject *kb_python_end_entries(PyObject *Py_UNUSED(self), PyObject *interrupt)
{
    int given = PyObject_IsTrue(interrupt);
    if (given < 0)
        return NULL;
    bool all = given != 0;
    ending = true;
    for (long tick = 0; inside; tick++) {
        if (tick % TICKS_UNTIL_REMINDED == 0) /* code may have caught it */
            interrupt_entries(all);
        Py_BEGIN_ALLOW_THREADS;
        nanosleep(&(struct timespec){0, TICK_NS}, NULL);
        Py_END_ALLOW_THREADS;
        if (PyErr_CheckSignals() == 0)
            continue;
        if (all)
            return NULL;
        PyErr_Clear();
        all = true;
        interrupt_entries(all);
    }
    Py_RETURN_NONE;
}
