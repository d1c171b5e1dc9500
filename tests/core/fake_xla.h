/* What XLA is to a handler: an API table, and call frames as XLA builds them. Every array of a
 * frame is a heap block of exactly its size, so that AddressSanitizer sees a read past it.
 *
 * A frame is built in order: fake_frame_init, any number of fake_arg, fake_ret and fake_attr_*,
 * fake_frame_free. One thread builds a frame; the API table may be used by any. */
#ifndef FAKE_XLA_H
#define FAKE_XLA_H

#include "abi/kb_xla.h"

#include <stdbool.h>

/* The stages of a frame, which handlers do not read. */
enum {
    KB_XLA_STAGE_INSTANTIATE = 0, /* attributes only: no operands, no stream, no device */
    KB_XLA_STAGE_PREPARE = 1,
    KB_XLA_STAGE_INITIALIZE = 2,
    KB_XLA_STAGE_EXECUTE = 3,
};

/* The error behind kb_xla_error: whoever is handed one destroys it with fake_error_destroy. */
struct kb_xla_error {
    int32_t code;
    char *message;
};

/* The table of API 0.`minor`, with its own context for the thread pool; 0.1 to 0.9. Before 0.4,
 * as in no version of XLA, it ends with what we call without asking. */
const kb_xla_api *fake_api(int minor);

/* NULL does nothing. */
void fake_error_destroy(kb_xla_error *error);

/* Errors made and not destroyed. */
long fake_errors_alive(void);

/* Scheduled tasks run on threads of their own. `refuse`: scheduling gives an error instead. */
void fake_pool_set(int64_t num_threads, bool refuse);
void fake_pool_hold(bool hold); /* tasks that are scheduled while it holds begin when it ends */
int fake_pool_scheduled(void);  /* tasks since the last time that all were waited for */
void fake_pool_join(void);      /* waits for every scheduled task, and those that they schedule */

/* The stream that calls on this thread get; `refuse`: they get an error instead. */
void fake_stream_set(void *stream, bool refuse);

/* The run that calls on this thread belong to; negative: XLA gives an error instead. */
void fake_run_set(int64_t id);

/* The device that calls on this thread run on, at first 0; negative: XLA gives an error instead. */
void fake_device_set(int32_t ordinal);

typedef struct fake_frame {
    kb_xla_frame frame;
    kb_xla_metadata_extension extension;
    kb_xla_metadata metadata;
    void **blocks;
    size_t n_blocks;
} fake_frame;

void fake_frame_init(fake_frame *f, const kb_xla_api *api, int32_t stage);
void fake_frame_free(fake_frame *f);

/* Append an operand or a result; `dims` is copied. The buffer may be changed until the call. */
kb_xla_buffer *fake_arg(fake_frame *f, int32_t dtype, void *data, int64_t rank,
                        const int64_t *dims);
kb_xla_buffer *fake_ret(fake_frame *f, int32_t dtype, void *data, int64_t rank,
                        const int64_t *dims);

/* Put an attribute in its place in the order of names, or replace the one of that name. The values
 * are copied; the returned value may be changed until the call. */
kb_xla_scalar *fake_attr_scalar(fake_frame *f, const char *name, int32_t dtype, const void *value,
                                size_t value_size);
kb_xla_array *fake_attr_array(fake_frame *f, const char *name, int32_t dtype, size_t size,
                              const void *data, size_t n_bytes);
kb_xla_bytes *fake_attr_string(fake_frame *f, const char *name, const char *data, size_t size);

/* An attribute of any type; `value` is taken as it is, and stays the caller's. */
void fake_attr(fake_frame *f, const char *name, int32_t type, void *value);
void fake_attr_remove(fake_frame *f, const char *name);

/* Makes the frame the question for metadata, as XLA asks it when a handler is registered. */
void fake_ask_metadata(fake_frame *f);

#endif
