/* The handlers that XLA calls. They have no state of their own: the kernel is chosen by the call's
 * attributes, from the process's one registry. Any thread may enter, without Python.
 *
 * Attributes of a call:
 *
 * - call, array of int64: the key (the digest's first eight bytes), looked up at every call; then
 * the batch, see kb_batch.h
 * - digest, array of uint8: identity of the kernel, all 32 bytes; compared at instantiation
 * - origin, string: where a fresh process finds the kernel; read by the resolver alone
 * - elsewhere, a scalar of any type and value, in place of digest and origin: another call of the
 * program has these, see kb_handler_idle; XLA may instantiate this one before that one
 * - program, array of uint8: the kernel itself, see object/kb_host_code.h, module/kb_library.h and
 * cuda/kb_program.h
 * - sharding, string: in programs for several devices; read by XLA's partitioner alone, in Python
 * - together, a scalar of int64: see kb_together_execute */
#ifndef KB_HANDLER_H
#define KB_HANDLER_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"
#include "core/kb_registry.h"

#include <stdbool.h>

/* The registry that the handlers look into. */
extern kb_registry kb_handler_registry;

/* Registers a kernel there; `*inserted`: whether it is new. The owner of one that is not is freed.
 */
kb_status kb_handler_register(const kb_kernel *kernel, bool *inserted, kb_error *err);

/* Asked at instantiation for a kernel that this process has not registered: must register it and
 * return KB_OK, or report what is missing. */
typedef kb_status kb_handler_resolver(const uint8_t digest[KB_DIGEST_SIZE], kb_xla_bytes origin,
                                      kb_error *err);

extern _Atomic(kb_handler_resolver *) kb_handler_resolve;

/* A format of programs, and what registers the kernel of one; `*inserted`: whether it is new.
 * `local` is NULL for a program that a call carries; for its own, this process adds what the format
 * names. KB_FAILED_PRECONDITION if this process cannot run it: then the resolver is asked. */
typedef kb_status kb_handler_loader(const void *bytes, size_t size,
                                    const uint8_t digest[KB_DIGEST_SIZE], const void *local,
                                    bool *inserted, kb_error *err);

typedef struct kb_handler_format {
    const char *magic; /* NULL after the last format */
    kb_handler_loader *load;
} kb_handler_format;

/* The formats that calls of every target may carry. Set when the process begins. */
extern _Atomic(const kb_handler_format *) kb_handler_formats;

/* What happens to code that a call carries, where this process has no kernel of its digest. */
typedef enum kb_carried_code {
    KB_CARRIED_RUN,       /* it is loaded */
    KB_CARRIED_RECOMPILE, /* the resolver is asked in its place */
    KB_CARRIED_REFUSE,    /* the call is refused */
} kb_carried_code;

extern _Atomic(kb_carried_code) kb_handler_carried_code;

/* What the stages of a target are made of. */

/* Answers XLA's query for metadata, if the frame is one; false for a call. */
bool kb_handler_answer(kb_xla_frame *frame, uint32_t traits);

/* Finds the kernel that the call names: in the registry, then in the call, by its format, then by
 * the resolver. A call whose kernel is elsewhere succeeds without it. */
kb_status kb_handler_instantiate(const kb_xla_frame *frame, kb_error *err);

/* The kernel that the call names, and the call's attribute of that name. */
kb_status kb_handler_find(const kb_xla_frame *frame, const kb_kernel **kernel,
                          const kb_xla_array **call, kb_error *err);

/* XLA's error for ours. */
KB_COLD kb_xla_error *kb_handler_fail(const kb_xla_frame *frame, kb_error *err);

typedef kb_status kb_handler_stage(const kb_xla_frame *frame, kb_error *err);

/* kb_handler_find for a call that may not have been instantiated in this process: XLA loads a
 * compiled program for a GPU without doing so. Then `first`, which instantiates, is called here. */
kb_status kb_handler_find_or(const kb_xla_frame *frame, kb_handler_stage *first,
                             const kb_kernel **kernel, const kb_xla_array **call, kb_error *err);

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

/* Defines a handler that does so for one stage. */
#define KB_STAGE_HANDLER(name, traits, stage)                                                      \
    kb_xla_error *name(kb_xla_frame *frame)                                                        \
    {                                                                                              \
        return kb_handler_handle(frame, traits, stage);                                            \
    }

/* Whether another call of the program brings the kernel, and prepares it for its device. */
bool kb_handler_is_elsewhere(const kb_xla_frame *frame);

/* Executes a call that carries a kernel for other calls: it has no operands and no results. It is
 * instantiated like a call of the kernel. */
kb_xla_error *kb_handler_idle(kb_xla_frame *frame);

/* Target `kernbridge.host`. Instantiate finds the kernel or fails while XLA compiles. */
kb_xla_error *kb_handler_host_instantiate(kb_xla_frame *frame);
kb_xla_error *kb_handler_host_execute(kb_xla_frame *frame);

/* Target `kernbridge.absent`: an operation on a platform where it has no kernel, in a program that
 * is lowered for several platforms. Fails with KB_UNIMPLEMENTED and the call's attribute `message`,
 * a string. */
kb_xla_error *kb_absent_execute(kb_xla_frame *frame);

/* Calls that several devices of this process make together: after the call, XLA combines what they
 * computed, and every device waits for all others. If one of them failed at once, the others would
 * wait for ever, and XLA would end the process. So the device that fails keeps its error here and
 * takes part, and the call of the target `kernbridge.together`, which comes next in the program,
 * fails on all of them. Both calls have the attribute `together`, an int64 that is unique in their
 * program. Without failures, none waits. */
enum { KB_TOGETHER_MAX = 64 }; /* failures that are kept, the latest ones */

/* Keeps the error of a call that devices make together, and returns KB_OK. Of any other call, or
 * where XLA does not say which run it belongs to, returns the error's status. */
KB_COLD kb_status kb_together_keep(const kb_xla_frame *frame, const kb_error *err);

/* Fails with the error that a device has kept in the same run, if there is one. Its results are its
 * operands, in the same memory. */
kb_xla_error *kb_together_execute(kb_xla_frame *frame);

#endif
