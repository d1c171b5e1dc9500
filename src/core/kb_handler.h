/* The handlers that XLA calls. They have no state of their own: the kernel is chosen by the call's
 * attributes, from the process's one registry. Any thread may enter, without Python.
 *
 * Attributes of a call:
 *
 * - call, array of int64: the key (the digest's first eight bytes), looked up at every call; then
 * the batch, see kb_batch.h
 *
 * - digest, array of uint8: identity of the kernel, all 32 bytes; compared at instantiation
 *
 * - origin, string: where a fresh process finds the kernel; read by the resolver alone
 *
 * - sharding, string: in programs for several devices; read by XLA's partitioner alone, in Python
 */
#ifndef KB_HANDLER_H
#define KB_HANDLER_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"
#include "core/kb_registry.h"

#include <stdbool.h>

/* The registry that the handlers look into; made at the first call, NULL without memory. */
kb_registry *kb_handler_registry(void);

/* Registers a kernel there; `*inserted`: whether it is new. The owner of one that is not is freed.
 */
kb_status kb_handler_register(const kb_kernel *kernel, bool *inserted, kb_error *err);

/* Asked at instantiation for a kernel that this process has not registered: must register it and
 * return KB_OK, or say what is missing. */
typedef kb_status kb_handler_resolver(const uint8_t digest[KB_DIGEST_SIZE], kb_xla_bytes origin,
                                      kb_error *err);

void kb_handler_set_resolver(kb_handler_resolver *fn);

/* Registers the kernel that the call itself carries; KB_NOT_FOUND if it carries none. */
typedef kb_status kb_handler_loader(const kb_xla_frame *frame, const uint8_t digest[KB_DIGEST_SIZE],
                                    kb_error *err);

/* What the stages of a target are made of. */

/* Answers XLA's query for metadata, if the frame is one; false for a call. */
bool kb_handler_answer(kb_xla_frame *frame, uint32_t traits);

/* Finds the kernel that the call names, in the registry, then by `load` (may be NULL), then by the
 * resolver. */
kb_status kb_handler_instantiate(const kb_xla_frame *frame, kb_handler_loader *load, kb_error *err);

/* The kernel that the call names, and the call's attribute of that name. */
kb_status kb_handler_find(const kb_xla_frame *frame, const kb_kernel **kernel,
                          const kb_xla_array **call, kb_error *err);

/* XLA's error for ours. */
KB_COLD kb_xla_error *kb_handler_fail(const kb_xla_frame *frame, kb_error *err);

typedef kb_status kb_handler_stage(const kb_xla_frame *frame, kb_error *err);

/* What a handler does: answers XLA's query for metadata, or runs the stage and gives XLA its error.
 */
static inline kb_xla_error *kb_handler_handle(kb_xla_frame *frame, uint32_t traits,
                                              kb_handler_stage *stage)
{
    if (frame->extension_start && kb_handler_answer(frame, traits))
        return NULL;
    kb_error err;
    return KB_LIKELY(stage(frame, &err) == KB_OK) ? NULL : kb_handler_fail(frame, &err);
}

/* Target `kernbridge.host`. Instantiate finds the kernel or fails while XLA compiles. */
kb_xla_error *kb_handler_host_instantiate(kb_xla_frame *frame);
kb_xla_error *kb_handler_host_execute(kb_xla_frame *frame);

#endif
