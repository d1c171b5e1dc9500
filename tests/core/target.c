/* Owns the making of XLA's GPU calls. */
#include "target.h"

#include "core/kb_handler.h"
#include "cuda/kb_program.h"
#include "cuda/kb_target.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

void target_double(void *data, const char *entry, const uint32_t grid[3], const uint32_t block[3],
                   uint32_t shared, uint32_t n_words, const uint64_t *words)
{
    (void)entry, (void)grid, (void)block, (void)shared;
    CHECK_INT(n_words, 3);
    for (uint64_t i = 0; i < words[2]; i++)
        ((float *)(uintptr_t)words[1])[i] = 2 * ((const float *)(uintptr_t)words[0])[i];
    if (data)
        atomic_fetch_add((atomic_long *)data, 1);
}

void target_call_init(target_call *c, uint64_t id, const program_text *program)
{
    const int64_t dims[] = {TARGET_N};
    fake_frame_init(&c->f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    sample_digest(c->digest, id);
    int64_t key = kb_digest_key(c->digest);
    fake_attr_array(&c->f, "call", KB_DTYPE_S64, 1, &key, sizeof key);
    fake_attr_array(&c->f, "digest", KB_DTYPE_U8, KB_DIGEST_SIZE, c->digest, KB_DIGEST_SIZE);
    if (program) {
        static const kb_handler_format formats[] = {{KB_PROGRAM_MAGIC, kb_target_register},
                                                    {NULL, NULL}};
        kb_handler_formats = formats;
        size_t size;
        uint8_t *bytes = program_write(program, c->digest, &size);
        fake_attr_array(&c->f, "program", KB_DTYPE_U8, size, bytes, size);
        free(bytes);
    }
    for (int i = 0; i < TARGET_N; i++) {
        c->x[i] = (float)(i + 1);
        c->y[i] = 0;
    }
    fake_arg(&c->f, KB_DTYPE_F32, c->x, 1, dims);
    fake_ret(&c->f, KB_DTYPE_F32, c->y, 1, dims);
}

void target_call_free(target_call *c)
{
    fake_frame_free(&c->f);
}

void target_expect(kb_xla_handler *handler, target_call *c, int32_t code, const char *text)
{
    kb_xla_error *error = handler(&c->f.frame);
    if (!text) {
        CHECK_TEXT(error ? error->message : "", "");
    } else if (CHECK(error != NULL)) {
        CHECK_INT(error->code, code);
        CHECK_HAS(error->message, text);
    }
    fake_error_destroy(error);
}

bool target_doubled(target_call *c)
{
    bool all = true;
    for (int i = 0; i < TARGET_N; i++) {
        all &= c->y[i] == 2 * c->x[i];
        c->y[i] = 0;
    }
    return all;
}
