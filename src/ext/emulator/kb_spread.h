/* The arrays of a call of checked CUDA C++, whose code has plain pointers. For the time of the call
 * they lie so far apart that an address tells which array it was made of, also where the index is
 * wrong: kb_check.h then has the array's number. A call belongs to one thread, and so do these. */
#ifndef KB_SPREAD_H
#define KB_SPREAD_H

#include "ext/emulator/kb_check.h"
#include "ext/emulator/kb_guard.h"

/* What launches of such code have in place of a table. */
extern const kb_check_table kb_spread_launches;

typedef struct kb_spread kb_spread;

/* For at most `n` arrays. The thread's launches find them, until they are left: then outputs are
 * copied back. NULL without memory. */
kb_spread *kb_spread_new(uint32_t n);
void kb_spread_leave(kb_spread *spread);

/* Moves the array at `*data`, whose dtype and extents, for the time of the call, are those of a
 * buffer; replaces the address. Arrays with the same address and a size move together, inputs
 * first. Other outputs hold nothing at first. False without memory. */
bool kb_spread_add(kb_spread *spread, void **data, const kb_xla_buffer *like, const char *name,
                   bool is_output);

/* Runs a call on such arrays. */
kb_status kb_spread_run(const kb_frame *frame, kb_run *run, kb_error *err);

/* For a launch of this thread; NULL without memory. */
kb_checks *kb_spread_checks(const uint32_t sizes[6], uint32_t dynamic_shared, bool is_cooperative);

/* What the code calls: see kernbridge/cuda_host.h. */
void kb_spread_access(kb_thread *thread, const void *at, uint64_t size, uint32_t how,
                      const void *code);
void kb_spread_wrong_index(kb_thread *thread, uint64_t index, const char *type, uint32_t site);
void *kb_spread_shared(kb_thread *thread, const void *key, const char *name, uint64_t size,
                       uint32_t item, const int64_t *shape);

#endif
