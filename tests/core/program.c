/* Owns the writing of GPU programs. */
#include "program.h"

#include "core/kb_dtype.h"
#include "cuda/kb_program.h"
#include "gpu.h"

#include "sealed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
    uint8_t *bytes;
    size_t size;
} writer;

static void put(writer *w, const void *bytes, size_t size)
{
    uint8_t *grown = realloc(w->bytes, w->size + size + 1);
    if (!grown)
        abort();
    if (size)
        memcpy(grown + w->size, bytes, size);
    w->bytes = grown;
    w->size += size;
}

static void put_u32(writer *w, uint32_t x)
{
    const uint8_t bytes[] = {(uint8_t)x, (uint8_t)(x >> 8), (uint8_t)(x >> 16), (uint8_t)(x >> 24)};
    put(w, bytes, sizeof bytes);
}

static void put_u32s(writer *w, const uint32_t *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        put_u32(w, x[i]);
}

static void put_i64(writer *w, int64_t x)
{
    put_u32(w, (uint32_t)x);
    put_u32(w, (uint32_t)((uint64_t)x >> 32));
}

static void put_text(writer *w, const char *text)
{
    size_t size = text ? strlen(text) : 0; /* none behind a count that is too large */
    put_u32(w, (uint32_t)size);
    put(w, text, size);
}

static void put_image(writer *w, const program_image *image)
{
    enum { TEXT_CC = 1000 }; /* of an image that ends with NUL */
    size_t size = image->text ? strlen(image->text) + (image->cc == TEXT_CC) : 0;
    put_u32s(w, (uint32_t[]){image->cc, (uint32_t)size}, 2);
    put(w, image->text, size);
}

static void put_value(writer *w, const kb_value *v)
{
    put_u32s(w, (uint32_t[]){v->kind, v->buffer, v->axis, v->divisor}, 4);
    put_i64(w, v->constant);
}

static void put_function(writer *w, const program_function *f)
{
    uint8_t digest[KB_DIGEST_SIZE];
    sample_digest(digest, f->id);
    put(w, digest, sizeof digest);
    put_text(w, f->entry);
    put_u32s(w, (uint32_t[]){f->n_words, f->shared, f->n_sizes}, 3);
    put_u32s(w, f->sizes, f->n_sizes < PROGRAM_WORDS ? f->n_sizes : PROGRAM_WORDS);
    put_u32s(w, &f->n_images, 1);
    for (uint32_t i = 0; i < f->n_images && i < KB_IMAGES_MAX; i++)
        put_image(w, &f->images[i]);
}

static void put_launch(writer *w, const program_step *s)
{
    const kb_launch_step *l = &s->launch;
    put_u32(w, s->function);
    for (int i = 0; i < 3; i++)
        put_value(w, &l->grid[i]);
    put_u32s(w, l->block, 3);
    put_u32s(w, l->cluster, 3);
    put_u32s(w, (uint32_t[]){l->shared, l->flags, l->n_words}, 3);
    for (uint32_t i = 0; i < l->n_words && i < PROGRAM_WORDS; i++) {
        put_u32s(w, (uint32_t[]){s->words[i].kind, s->words[i].buffer, s->words[i].axis}, 3);
        put_i64(w, s->words[i].value);
        put_i64(w, s->words[i].reach);
    }
    put_u32(w, l->n_zeroed);
    put_u32s(w, s->zeroed, l->n_zeroed < PROGRAM_BUFFERS ? l->n_zeroed : PROGRAM_BUFFERS);
}

static void put_step(writer *w, const program_step *s)
{
    put_u32s(w, (uint32_t[]){s->kind, s->wide}, 2);
    switch (s->kind) {
    case KB_STEP_LAUNCH:
        put_launch(w, s);
        return;
    case KB_STEP_FILL:
        put_u32s(w, (uint32_t[]){s->fill.buffer, s->fill.item_size}, 2);
        put_i64(w, s->fill.offset);
        put_value(w, &s->fill.count);
        put_i64(w, (int64_t)s->fill.pattern[0]);
        put_i64(w, (int64_t)s->fill.pattern[1]);
        return;
    case KB_STEP_COPY:
        put_u32s(w, (uint32_t[]){s->copy.to, s->copy.from}, 2);
        put_i64(w, s->copy.to_offset);
        put_i64(w, s->copy.from_offset);
        put_value(w, &s->copy.size);
        return;
    default:
        put_i64(w, s->handle);
    }
}

uint8_t *program_write(const program_text *p, const uint8_t digest[KB_DIGEST_SIZE], size_t *size)
{
    uint8_t head[SEALED_BODY] = {0};
    writer w = {0};
    sealed_begin(head, p->magic, p->version);
    put(&w, head, sizeof head);
    put_text(&w, p->name);
    put_text(&w, p->source);
    put_u32s(&w, (uint32_t[]){p->n_inputs, p->n_outputs, p->n_hidden}, 3);
    for (uint32_t i = 0; i < p->n_inputs + p->n_outputs + p->n_hidden && i < PROGRAM_BUFFERS; i++) {
        put_u32s(&w, (uint32_t[]){(uint32_t)p->buffers[i].dtype, (uint32_t)p->buffers[i].rank}, 2);
        put_text(&w, p->buffers[i].name);
    }
    put_u32(&w, p->n_functions);
    for (uint32_t i = 0; i < p->n_functions && i < PROGRAM_FUNCTIONS; i++)
        put_function(&w, &p->functions[i]);
    put_u32(&w, p->n_steps);
    for (uint32_t i = 0; i < p->n_steps && i < PROGRAM_STEPS; i++)
        put_step(&w, &p->steps[i]);
    uint8_t *exact = realloc(w.bytes, w.size);
    if (!exact)
        abort();
    *size = w.size;
    sealed_sign(exact, *size, digest, KB_DIGEST_SIZE);
    return exact;
}

static program_step launch_of(uint32_t function, uint32_t n_words)
{
    return (program_step){
        .kind = KB_STEP_LAUNCH,
        .function = function,
        .launch = {.grid = {gpu_constant(1, 1), gpu_constant(1, 1), gpu_constant(1, 1)},
                   .block = {1, 1, 1},
                   .cluster = {1, 1, 1},
                   .n_words = n_words},
    };
}

void program_init(program_text *p)
{
    enum { X, N, Y, Z };
    *p = (program_text){
        .magic = KB_PROGRAM_MAGIC,
        .version = KB_PROGRAM_VERSION,
        .name = "op",
        .source = "op.py:7",
        .n_inputs = 2,
        .n_outputs = 1,
        .n_hidden = 1,
        .buffers = {{KB_DTYPE_F32, 2, "x"},
                    {KB_DTYPE_S32, 0, "n"},
                    {KB_DTYPE_F32, 2, "y"},
                    {KB_DTYPE_F64, 1, "z"}},
        .n_functions = 2,
        .functions = {{1001,
                       "first",
                       6,
                       0,
                       0,
                       {0},
                       2,
                       {{.cc = 80, .text = "FAKE first 6\n"},
                        {.cc = 90, .text = "FAKE first 6\n"}}},
                      {1002, "second", 1, 64, 0, {0}, 1, {{.cc = 90, .text = "FAKE second 1\n"}}}},
        .n_steps = 4,
        .steps = {{.kind = KB_STEP_FILL,
                   .wide = 1,
                   .fill = {.buffer = Y,
                            .item_size = 4,
                            .count = gpu_count(Y, 1),
                            .pattern = {0x3f800000, 7}}},
                  {.kind = KB_STEP_COPY,
                   .wide = 1,
                   .copy = {.to = Y,
                            .from = X,
                            .to_offset = 8,
                            .from_offset = 4,
                            .size = gpu_constant(4, 1)}},
                  launch_of(0, 6),
                  launch_of(1, 1)},
    };
    program_step *first = &p->steps[2], *second = &p->steps[3];
    first->wide = 1;
    first->launch.grid[0] = gpu_count(Y, 256);
    first->launch.grid[1] = gpu_extent(X, 1, 1);
    first->launch.block[0] = 256;
    first->launch.flags = KB_LAUNCH_AUTO_BLOCK | KB_LAUNCH_ZEROES_IF_EMPTY;
    first->launch.n_zeroed = 1;
    first->zeroed[0] = Y;
    first->words[0].value = -5;
    first->words[1].kind = first->words[2].kind = KB_WORD_ADDRESS;
    first->words[1].buffer = X;
    first->words[2].buffer = Y;
    first->words[2].value = 4;
    first->words[2].reach = 8;
    first->words[3].kind = KB_WORD_EXTENT;
    first->words[3].buffer = X;
    first->words[3].axis = 1;
    first->words[4].kind = first->words[5].kind = KB_WORD_STRIDE;
    first->words[4].buffer = Y;
    first->words[5].buffer = N;
    second->launch.shared = 64;
    second->words[0].kind = KB_WORD_ADDRESS;
    second->words[0].buffer = Z;
}

void program_simple(program_text *p, uint64_t id, const char *entry)
{
    *p = (program_text){
        .magic = KB_PROGRAM_MAGIC,
        .version = KB_PROGRAM_VERSION,
        .name = "simple",
        .source = "simple.py:1",
        .n_inputs = 1,
        .n_outputs = 1,
        .buffers = {{KB_DTYPE_F32, 1, "x"}, {KB_DTYPE_F32, 1, "y"}},
        .n_functions = 1,
        .functions = {{id, p->entry, 3, 0, 0, {0}, 1, {{.cc = 90, .text = p->image}}}},
        .n_steps = 1,
        .steps = {launch_of(0, 3)},
    };
    snprintf(p->entry, sizeof p->entry, "%s", entry);
    snprintf(p->image, sizeof p->image, "FAKE %s 3\n", entry);
    p->steps[0].launch.grid[0] = gpu_count(1, 256);
    p->steps[0].launch.block[0] = 256;
    p->steps[0].words[0].kind = p->steps[0].words[1].kind = KB_WORD_ADDRESS;
    p->steps[0].words[1].buffer = 1;
    p->steps[0].words[2].kind = KB_WORD_EXTENT;
}
