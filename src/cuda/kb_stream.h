/* The stream that XLA gives to a call: its context made current, its device known, and what is
 * switched on for debugging. Any thread may enter. */
#ifndef KB_STREAM_H
#define KB_STREAM_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"
#include "core/kb_frame.h"
#include "cuda/kb_driver.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct kb_stream_scope {
    const kb_driver *cu;
    bool pushed; /* a context, to be popped */
} kb_stream_scope;

/* Reads XLA's stream into the frame, makes its context current on this thread where it is not, and
 * reads the device. kb_stream_leave undoes it. */
kb_status kb_stream_enter(kb_stream_scope *scope, kb_frame *frame, kb_error *err);
void kb_stream_leave(const kb_stream_scope *scope);

enum {
    KB_DEBUG_SYNC = 1u << 0,           /* wait for every launch */
    KB_DEBUG_POISON = 1u << 1,         /* look for outputs that nothing writes, see kb_poison.h */
    KB_DEBUG_COUNT_NODES = 1u << 2,    /* tests: count the graph nodes that calls add */
    KB_DEBUG_DEFAULT_STREAM = 1u << 3, /* tests: a call without a stream uses the default one */
    KB_DEBUG_INPUTS = 1u << 4,         /* CPU: compare inputs before and after, see kb_guard.h */
    KB_DEBUG_CHECKED = 1u << 5,        /* CPU: there is a checked kernel, see kb_guard.h */
    KB_DEBUG_COUNT_LAUNCHES = 1u << 6  /* CPU: count the launches of kernels that are added */
};

/* KB_DEBUG_CHECKED stays as it is. */
void kb_stream_set_debug(unsigned flags);
void kb_stream_set_checked(void);
unsigned kb_stream_debug(void);

/* True while what is enqueued is recorded into a graph instead of run. */
bool kb_stream_captures(const kb_driver *cu, kb_cu_stream stream);

/* Waits for all that was enqueued; does nothing while the stream captures. */
kb_cu_result kb_stream_wait(const kb_driver *cu, kb_cu_stream stream);

/* Kernel nodes in the graph that the stream captures into; -1 when it does not. */
int64_t kb_stream_kernel_nodes(const kb_driver *cu, kb_cu_stream stream);

#endif
