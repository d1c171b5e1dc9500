/* What a GPU plan is made of: launches, fills and copies, and the numbers in them that only a call
 * knows. Steps are immutable once made. */
#ifndef KB_STEP_H
#define KB_STEP_H

#include "core/kb_error.h"
#include "core/kb_frame.h"
#include "cuda/kb_function.h"

/* A number: ceil(x / divisor), where x is a constant, an extent or an element count. */
typedef enum kb_value_kind {
    KB_VALUE_CONSTANT,
    KB_VALUE_EXTENT, /* of axis `axis` of buffer `buffer` */
    KB_VALUE_COUNT,  /* elements of buffer `buffer` */
} kb_value_kind;

typedef struct kb_value {
    kb_value_kind kind;
    uint32_t buffer;
    uint32_t axis;
    uint32_t divisor; /* not 0 */
    int64_t constant;
} kb_value;

/* One word of the parameters of a launch. */
typedef enum kb_word_kind {
    KB_WORD_CONSTANT, /* `value` */
    KB_WORD_ADDRESS,  /* of buffer `buffer`, `value` bytes after its start */
    KB_WORD_EXTENT,   /* of axis `axis` of buffer `buffer` */
    KB_WORD_STRIDE,   /* bytes from one slice of a batch to the next, in buffer `buffer` */
    KB_WORD_COUNT,    /* elements of buffer `buffer` */
} kb_word_kind;

typedef struct kb_word {
    uint8_t kind;
    uint8_t axis;
    uint16_t buffer;
    int64_t value;
    int64_t reach; /* an address: bytes from there that the kernel may touch; 0: the whole buffer */
} kb_word;

enum {
    KB_LAUNCH_COOPERATES = 1u << 0,
    KB_LAUNCH_OVERLAPS = 1u << 1,        /* programmatic dependent launch */
    KB_LAUNCH_CLUSTERS = 1u << 2,        /* `cluster` counts */
    KB_LAUNCH_AUTO_BLOCK = 1u << 3,      /* block x, and the divisor of grid x, by occupancy */
    KB_LAUNCH_ZEROES_IF_EMPTY = 1u << 4, /* a grid of zero fills the outputs of `zeroed` */
};

typedef struct kb_launch_step {
    kb_function *function;
    kb_value grid[3];
    uint32_t block[3];
    uint32_t cluster[3];
    uint32_t shared; /* dynamic, bytes */
    uint32_t flags;
    uint32_t n_words;
    const kb_word *words;
    uint32_t n_zeroed;
    const uint32_t *zeroed; /* buffers */
} kb_launch_step;

/* Fills `count` elements with a pattern of `item_size` (1, 2, 4, 8 or 16) bytes. */
typedef struct kb_fill_step {
    uint32_t buffer;
    uint32_t item_size;
    int64_t offset; /* bytes */
    kb_value count;
    uint64_t pattern[2];
} kb_fill_step;

typedef struct kb_copy_step {
    uint32_t to;
    uint32_t from;
    int64_t to_offset;
    int64_t from_offset;
    kb_value size; /* bytes */
} kb_copy_step;

/* Loads what the step needs on the frame's device. */
kb_status kb_launch_prepare(const kb_launch_step *step, const kb_frame *frame, kb_cu_kernel *kernel,
                            kb_error *err);

/* The name of a kernel as its author wrote it, for messages: of
 * "_ZN10kernbridge18scale_0123456789abB2v1...", which Numba makes of a kernel that we named,
 * "scale"; any other entry as it is. Writes to `text`, and returns it. */
const char *kb_entry_name(const char *entry, char text[], size_t size);

/* Runners of the plan's table, see core/kb_plan.h. They enqueue on the frame's stream. */
kb_status kb_launch_run(const void *step, const kb_frame *frame, kb_error *err);
kb_status kb_fill_run(const void *given, const kb_frame *frame, kb_error *err);
kb_status kb_copy_run(const void *given, const kb_frame *frame, kb_error *err);

#endif
