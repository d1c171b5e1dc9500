/* Runs a native function of the host on the buffers of a frame. Any thread may enter. */
#ifndef KB_HOST_H
#define KB_HOST_H

#include "core/kb_error.h"
#include "core/kb_frame.h"

/* Calls the step's entry. A status other than KB_NUMBA_OK becomes KB_INTERNAL with the exception's
 * text. */
kb_status kb_host_run(const kb_host_step *step, const kb_frame *frame, kb_error *err);

/* Turns what a failed entry left behind into text (at most `capacity` bytes, NUL-terminated) and
 * releases it. `exception` may be NULL; `source` is where the kernel is defined. */
typedef void kb_host_decoder(int32_t status, void *exception, const char *source, char *text,
                             size_t capacity);

/* Until one is set, messages hold the status alone. The decoder stays for the process's life. */
void kb_host_set_decoder(kb_host_decoder *fn);

/* How kernels with Numba's `parallel=True` run. The number of threads is per thread in Numba, so it
 * is set around each call and put back. */
typedef struct kb_host_threading {
    int (*get_num_threads)(void);
    void (*set_num_threads)(int);
    bool exclusive; /* one at a time: the workqueue layer aborts the process otherwise */
} kb_host_threading;

/* Copied; set before the first parallel kernel runs. */
void kb_host_set_threading(const kb_host_threading *how);

/* Threads of every parallel kernel from the next call on; 0: each kernel's own number. */
void kb_host_set_num_threads(int n);
int kb_host_num_threads(void);

#endif
