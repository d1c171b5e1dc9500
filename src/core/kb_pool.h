/* Sharing a loop with XLA's threads. Any thread may enter. */
#ifndef KB_POOL_H
#define KB_POOL_H

#include "abi/kb_xla.h"

#include <stdint.h>

/* What threads change lies this far from what others read, so that it does not slow them down. */
enum { KB_CACHE_LINE = 64 }; /* bytes */

typedef void kb_pool_function(void *data, int64_t begin, int64_t end);

/* A loop whose caller passes the cost of its parts. */
typedef struct kb_pool_loop {
    kb_pool_function *function;
    void *data;
    int64_t count;
    int64_t part;      /* indices that a thread takes at a time, in rising order */
    int64_t n_threads; /* that may run it, the caller's included; 1 or more */
} kb_pool_loop;

/* How many threads XLA's pool has; 1 if there is none. */
int64_t kb_pool_num_threads(const kb_xla_frame *xla);

/* Calls the function for parts of 0..count, each index once, and returns when all is done, as
 * kb_pool_for does. */
void kb_pool_run(const kb_xla_frame *xla, const kb_pool_loop *of);

/* Calls `function` for parts of 0..count, each index once, and returns when all is done. This
 * thread takes parts too, and does all of them if no other comes: waiting for tasks that XLA has
 * not begun would deadlock when every thread of its pool waits so. */
void kb_pool_for(const kb_xla_frame *xla, int64_t count, kb_pool_function *function, void *data);

/* kb_pool_for without XLA: threads are started for a loop that turns out to take long, one for each
 * processor that this thread may use. */
void kb_started_for(int64_t count, kb_pool_function *function, void *data);

#endif
