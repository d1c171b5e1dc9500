/* GPU programs for tests: described field by field, so that a test can spoil any of them, and
 * written as kernbridge/_src/plan/program.py does. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "cuda/kb_function.h"
#include "cuda/kb_step.h"
#include "fake_xla.h"

enum { PROGRAM_BUFFERS = 8, PROGRAM_FUNCTIONS = 3, PROGRAM_STEPS = 6, PROGRAM_WORDS = 12 };

typedef struct program_buffer {
    int32_t dtype, rank;
    const char *name;
} program_buffer;

typedef struct program_image {
    uint32_t cc;
    const char *text; /* see fake_cuda.h; of one for the CPU, the NUL is part of the image */
} program_image;

typedef struct program_function {
    uint64_t id; /* the digest is made of it, see sample_digest */
    const char *entry;
    uint32_t n_words, shared;
    uint32_t n_sizes, sizes[PROGRAM_WORDS];
    uint32_t n_images;
    program_image images[KB_IMAGES_MAX];
} program_function;

typedef struct program_step {
    uint32_t kind, wide;
    uint32_t function;
    kb_launch_step launch; /* but `function`, `words` and `zeroed` */
    struct {
        uint32_t kind, buffer, axis;
        int64_t value, reach;
    } words[PROGRAM_WORDS];
    uint32_t zeroed[PROGRAM_BUFFERS];
    kb_fill_step fill;
    kb_copy_step copy;
    int64_t handle;
} program_step;

typedef struct program_text {
    const char *magic;
    uint32_t version;
    const char *name, *source;
    uint32_t n_inputs, n_outputs, n_hidden;
    program_buffer buffers[PROGRAM_BUFFERS];
    uint32_t n_functions;
    program_function functions[PROGRAM_FUNCTIONS];
    uint32_t n_steps;
    program_step steps[PROGRAM_STEPS];
    char entry[32], image[64]; /* of program_simple */
} program_text;

/* op(x: f32[:, :], n: s32) -> (y: f32[:, :]; hidden z: f64[:]) of "op.py:7", in which every kind of
 * step, of value and of word occurs once: fills y, copies x to y, launches `first` over y and then
 * `second`. Callbacks have a program of their own. */
void program_init(program_text *p);

/* simple(x: f32[:]) -> y: f32[:], one launch of `entry` over y in blocks of 256, with the words
 * (x, y, extent of x). `id`: of the function's digest. */
void program_simple(program_text *p, uint64_t id, const char *entry);

/* Its bytes as the program of the kernel of a digest, in a block of exactly their size that the
 * caller frees. Where a test changes them, sealed_sign makes them whole again. */
uint8_t *program_write(const program_text *p, const uint8_t digest[KB_DIGEST_SIZE], size_t *size);

#endif
