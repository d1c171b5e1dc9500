/* GPU calls as XLA makes them, for tests of the targets: simple(x: f32[:]) -> y: f32[:], twice x.
 */
#ifndef TARGET_H
#define TARGET_H

#include "gpu.h"
#include "program.h"

enum { TARGET_N = 8 };

typedef struct target_call {
    fake_frame f;
    uint8_t digest[KB_DIGEST_SIZE];
    float x[TARGET_N], y[TARGET_N];
} target_call;

/* A twin that doubles: words (x, y, extent). Adds the number of its runs to the atomic_long `data`,
 * unless it is NULL. */
fake_cuda_twin target_double;

/* A frame with buffers and attributes, the program among them unless NULL. `id` is the call's. */
void target_call_init(target_call *c, uint64_t id, const program_text *program);
void target_call_free(target_call *c);

/* Calls the handler. NULL text: it must succeed; else fail with this code and text. */
void target_expect(kb_xla_handler *handler, target_call *c, int32_t code, const char *text);

/* All of y is twice x (or zero); sets it to 0. */
bool target_doubled(target_call *c);

#endif
