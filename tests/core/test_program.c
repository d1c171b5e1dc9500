/* Proves that a program is read field by field as it was written, and that a program of which any
 * index, size or byte is wrong is refused with a reason and leaves nothing behind. */
#include "cuda/kb_program.h"
#include "gpu.h"
#include "program.h"
#include "sealed.h"
#include "torture.h"

#include <stdlib.h>

enum { X, N, Y, Z };

static uint8_t digest[KB_DIGEST_SIZE];

static kb_status read_program(const program_text *p, bool callbacks, kb_kernel *kernel,
                              kb_error *err)
{
    size_t size;
    uint8_t *bytes = program_write(p, digest, &size);
    kb_status s = kb_program_read(bytes, size, digest, callbacks, kernel, err);
    free(bytes); /* before anybody looks at the kernel */
    return s;
}

static void check_value(const kb_value *got, kb_value want)
{
    CHECK_INT(got->kind, want.kind);
    CHECK_INT(got->divisor, want.divisor);
    CHECK_INT(got->constant, want.constant);
    CHECK_INT(got->buffer, want.buffer);
    CHECK_INT(got->axis, want.axis);
}

static void check_words(const kb_launch_step *l, const program_step *s)
{
    for (uint32_t i = 0; i < l->n_words; i++) {
        CHECK_INT(l->words[i].kind, s->words[i].kind);
        CHECK_INT(l->words[i].buffer, s->words[i].buffer);
        CHECK_INT(l->words[i].axis, s->words[i].axis);
        CHECK_INT(l->words[i].value, s->words[i].value);
        CHECK_INT(l->words[i].reach, s->words[i].reach);
    }
}

static void check_launch(const kb_step *step, const program_text *p, uint32_t i)
{
    const program_step *s = &p->steps[i];
    const kb_launch_step *l = step->other;
    const program_function *f = &p->functions[s->function];
    uint8_t function_digest[KB_DIGEST_SIZE];
    sample_digest(function_digest, f->id);
    CHECK_INT(step->kind, KB_STEP_LAUNCH);
    CHECK_INT(step->wide, s->wide != 0);
    CHECK(memcmp(l->function->digest, function_digest, KB_DIGEST_SIZE) == 0);
    CHECK_TEXT(l->function->entry, f->entry);
    CHECK_INT(l->function->n_words, f->n_words);
    CHECK_INT(l->function->shared, f->shared);
    CHECK_INT(l->function->n_images, f->n_images);
    for (uint32_t k = 0; k < f->n_images; k++) {
        CHECK_INT(l->function->images[k].cc, f->images[k].cc);
        CHECK_INT(l->function->images[k].size, (long long)strlen(f->images[k].text));
        CHECK(memcmp(l->function->images[k].bytes, f->images[k].text, strlen(f->images[k].text)) ==
              0);
    }
    for (int d = 0; d < 3; d++) {
        check_value(&l->grid[d], s->launch.grid[d]);
        CHECK_INT(l->block[d], s->launch.block[d]);
        CHECK_INT(l->cluster[d], s->launch.cluster[d]);
    }
    CHECK_INT(l->shared, s->launch.shared);
    CHECK_INT(l->flags, s->launch.flags);
    CHECK_INT(l->n_zeroed, s->launch.n_zeroed);
    for (uint32_t k = 0; k < l->n_zeroed; k++)
        CHECK_INT(l->zeroed[k], s->zeroed[k]);
    if (CHECK_INT(l->n_words, s->launch.n_words))
        check_words(l, s);
}

static void check_fill(const kb_fill_step *got, const kb_fill_step *want)
{
    CHECK_INT(got->buffer, want->buffer);
    CHECK_INT(got->item_size, want->item_size);
    CHECK_INT(got->offset, want->offset);
    CHECK(got->pattern[0] == want->pattern[0] && got->pattern[1] == want->pattern[1]);
    check_value(&got->count, want->count);
}

static void check_copy(const kb_copy_step *got, const kb_copy_step *want)
{
    CHECK_INT(got->to, want->to);
    CHECK_INT(got->from, want->from);
    CHECK_INT(got->to_offset, want->to_offset);
    CHECK_INT(got->from_offset, want->from_offset);
    check_value(&got->size, want->size);
}

static void change_all(program_text *p)
{
    program_step *second = &p->steps[3];
    p->steps[0].fill.offset = INT64_C(0x123456789abc);
    p->steps[0].fill.pattern[0] = UINT64_MAX - 5;
    p->steps[0].fill.pattern[1] = UINT64_C(0x8000000000000001);
    p->steps[0].fill.item_size = 16;
    p->steps[1].copy.from_offset = INT64_MAX;
    p->steps[1].wide = 0;
    second->launch.grid[1].divisor = UINT32_MAX;
    second->launch.grid[2].constant = INT64_MAX;
    second->launch.block[0] = 1024;
    second->launch.block[2] = 3;
    second->launch.cluster[1] = 2;
    second->launch.shared = INT32_MAX;
    second->launch.flags = UINT32_MAX;
    second->words[0].value = INT64_MAX - 10;
    second->words[0].reach = 10;
    p->steps[2].words[0].value = INT64_MIN;
    p->steps[2].words[1].reach = INT64_MAX;
    p->steps[2].words[2].reach = 1;
    p->steps[2].words[5].kind = KB_WORD_COUNT;
    p->steps[2].launch.n_zeroed = 3;
    p->steps[2].zeroed[1] = Z;
    p->steps[2].zeroed[2] = X;
    for (int d = 0; d < 3; d++) {
        p->steps[2].launch.block[d] = 1022 + (uint32_t)d;
        p->steps[2].launch.cluster[d] = 1024 - (uint32_t)d;
    }
}

/* The smallest that may be filled and zeroed: elements of one byte. */
static void test_bytes(void)
{
    program_text p;
    kb_kernel k;
    kb_error err;
    program_init(&p);
    p.buffers[2].dtype = KB_DTYPE_U8;
    p.steps[0].fill.item_size = 1;
    p.steps[2].launch.n_zeroed = 1;
    p.steps[2].zeroed[0] = 2;
    if (!CHECK_INT(read_program(&p, false, &k, &err), KB_OK))
        fprintf(stderr, "%s\n", err.message);
    else
        k.free_owner(k.owner);
}

/* The largest numbers of their kinds, which are refused one above (test_program_refused.c). */
static void test_largest(void)
{
    program_text p;
    kb_kernel k;
    kb_error err;
    program_init(&p);
    p.n_functions = 3;
    p.functions[1].shared = INT32_MAX;
    p.functions[2] = p.functions[1];
    p.functions[2].id = 1201;
    p.functions[2].n_words = KB_WORDS_MAX;
    p.functions[2].n_sizes = 4;
    for (int i = 0; i < 4; i++)
        p.functions[2].sizes[i] = KB_PARAMETER_SIZE_MAX;
    p.functions[2].entry = "";
    p.functions[2].n_images = KB_IMAGES_MAX;
    for (uint32_t i = 0; i < KB_IMAGES_MAX; i++)
        p.functions[2].images[i] = (program_image){.cc = i + 1, .text = "1"}; /* the smallest */
    p.functions[1].id = 1202;
    if (!CHECK_INT(read_program(&p, false, &k, &err), KB_OK)) {
        fprintf(stderr, "%s\n", err.message);
        return;
    }
    const kb_launch_step *second = k.plan.steps[3].other;
    CHECK_INT(second->function->shared, INT32_MAX);
    k.free_owner(k.owner);
}

/* Parameters behind which nothing comes but the number of outputs to be zeroed. */
static void test_ends_in_words(void)
{
    program_text p;
    kb_kernel k;
    kb_error err;
    program_init(&p);
    p.n_steps = 3;
    p.steps[2].launch.n_zeroed = 0;
    CHECK(p.steps[2].launch.n_words > 4);
    if (CHECK_INT(read_program(&p, false, &k, &err), KB_OK))
        k.free_owner(k.owner);
}

static void test_every_field(void)
{
    for (int changed = 0; changed < 2; changed++) {
        program_text p;
        kb_kernel k;
        kb_error err;
        program_init(&p);
        if (changed)
            change_all(&p);
        if (!CHECK_INT(read_program(&p, false, &k, &err), KB_OK)) {
            fprintf(stderr, "%s\n", err.message);
            return;
        }
        CHECK(memcmp(k.digest, digest, sizeof digest) == 0);
        CHECK_TEXT(k.name, "op");
        CHECK_TEXT(k.source, "op.py:7");
        CHECK_INT(k.n_inputs, 2);
        CHECK_INT(k.n_outputs, 1);
        CHECK_INT(k.n_hidden, 1);
        for (int i = 0; i < 4; i++) {
            CHECK_INT(k.buffers[i].dtype, p.buffers[i].dtype);
            CHECK_INT(k.buffers[i].rank, p.buffers[i].rank);
            CHECK_TEXT(k.buffers[i].name, p.buffers[i].name);
        }
        CHECK_INT(k.plan.n_steps, 4);
        CHECK_INT(k.plan.steps[0].kind, KB_STEP_FILL);
        CHECK_INT(k.plan.steps[1].kind, KB_STEP_COPY);
        CHECK_INT(k.plan.steps[1].wide, !changed);
        check_fill(k.plan.steps[0].other, &p.steps[0].fill);
        check_copy(k.plan.steps[1].other, &p.steps[1].copy);
        check_launch(&k.plan.steps[2], &p, 2);
        check_launch(&k.plan.steps[3], &p, 3);
        CHECK(k.owner != NULL);
        k.free_owner(k.owner);
    }
}

/* An image that is most of a program. A kernel does not keep it: its function does. */
static void test_large_image(void)
{
    enum { SIZE = 20014 };
    static char text[SIZE + 1] = "FAKE first 6\n";
    memset(text + strlen(text), '#', SIZE - strlen(text) - 1);
    text[SIZE - 1] = '\n';
    program_text p;
    kb_kernel k;
    kb_error err;
    program_init(&p);
    p.functions[0].n_images = 1;
    p.functions[0].images[0].text = text;
    if (!CHECK_INT(read_program(&p, false, &k, &err), KB_OK))
        return;
    const kb_launch_step *launch = k.plan.steps[2].other;
    CHECK_INT(launch->function->images[0].size, SIZE);
    CHECK(memcmp(launch->function->images[0].bytes, text, SIZE) == 0);
    CHECK(k.bytes > 0 && k.bytes < SIZE);
    k.free_owner(k.owner);
}

/* Sizes of parameters that together take 2^32 words more than there are. */
static void test_overflowing_sizes(void)
{
    enum { SIZES = 1 << 23, WORDS_OF_ONE = KB_PARAMETER_SIZE_MAX / KB_WORD_SIZE };
    program_text p;
    size_t size;
    kb_kernel k;
    kb_error err;
    program_init(&p);
    p.functions[0].n_words = 0;
    CHECK(((uint64_t)SIZES * WORDS_OF_ONE & UINT32_MAX) == 0);
    uint8_t *bytes = program_write(&p, digest, &size), *more = malloc(size + (size_t)SIZES * 4);
    const char *entry = p.functions[0].entry;
    size_t at = 0;
    while (memcmp(bytes + at, entry, strlen(entry)) != 0)
        at++;
    at += strlen(entry) + 8; /* and the number of words, and shared memory */
    memcpy(more, bytes, at);
    const uint32_t n = SIZES, one = KB_PARAMETER_SIZE_MAX;
    memcpy(more + at, &n, 4);
    for (size_t i = 0; i < SIZES; i++)
        memcpy(more + at + 4 + 4 * i, &one, 4);
    memcpy(more + at + 4 + 4 * (size_t)SIZES, bytes + at + 4, size - at - 4);
    sealed_sign(more, size + (size_t)SIZES * 4, digest, sizeof digest);
    CHECK_INT(kb_program_read(more, size + (size_t)SIZES * 4, digest, false, &k, &err),
              KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "the check of the size of a parameter failed");
    free(bytes);
    free(more);
}

static void test_smallest(void)
{
    program_text p = {.magic = "KBCU", .version = KB_PROGRAM_VERSION, .name = "", .source = ""};
    kb_kernel k;
    kb_error err;
    CHECK_INT(read_program(&p, false, &k, &err), KB_OK);
    CHECK_INT(kb_kernel_n_buffers(&k), 0);
    CHECK_INT(k.plan.n_steps, 0);
    CHECK_TEXT(k.name, "");
    k.free_owner(k.owner);
}

static void test_callbacks(void)
{
    program_text p = {.magic = "KBCU", .version = KB_PROGRAM_VERSION, .name = "n", .source = "s"};
    kb_kernel k;
    kb_error err;
    p.n_steps = 1;
    p.steps[0] = (program_step){.kind = KB_STEP_CALLBACK, .handle = INT64_MIN + 3};
    CHECK_INT(read_program(&p, false, &k, &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "the check of a step that calls Python failed");
    if (CHECK_INT(read_program(&p, true, &k, &err), KB_OK)) {
        CHECK_INT(k.plan.steps[0].kind, KB_STEP_CALLBACK);
        CHECK_INT(*(const int64_t *)k.plan.steps[0].other, INT64_MIN + 3);
        k.free_owner(k.owner);
    }
    kb_status s = KB_RESOURCE_EXHAUSTED;
    for (long n = 1; s != KB_OK; n++) { /* each request for memory fails in turn */
        torture_fail_nth(n);
        s = read_program(&p, true, &k, &err);
        torture_fail_nth(0);
        if (s == KB_OK)
            k.free_owner(k.owner);
        else if (!CHECK_INT(s, KB_RESOURCE_EXHAUSTED))
            return;
    }
}

/* A byte that does not belong to it; test_program_sealed has programs that end early. */
static void test_end(void)
{
    program_text p;
    size_t size;
    kb_kernel k;
    kb_error err;
    program_init(&p);
    uint8_t *bytes = program_write(&p, digest, &size);
    uint8_t *longer = realloc(bytes, size + 1);
    longer[size] = 0;
    sealed_sign(longer, size + 1, digest, sizeof digest);
    CHECK_INT(kb_program_read(longer, size + 1, digest, true, &k, &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "the check of its end failed");
    free(longer);
}

/* Every byte in turn is another, with a digest that is right: read or refused, never a crash. Each
 * bit of the header counts. */
static void test_flipped_bytes(void)
{
    program_text p;
    size_t size, refused = 0;
    kb_kernel k;
    kb_error err;
    program_init(&p);
    uint8_t *bytes = program_write(&p, digest, &size);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            if (i >= SEALED_BODY)
                sealed_sign(bytes, size, digest, sizeof digest);
            kb_status s = kb_program_read(bytes, size, digest, false, &k, &err);
            if (s == KB_OK)
                k.free_owner(k.owner);
            refused += s != KB_OK;
            bool in_version = i >= 4 && i < SEALED_SHA;
            CHECK(s == (in_version ? KB_FAILED_PRECONDITION : KB_INVALID_ARGUMENT) ||
                  (s == KB_OK && i >= SEALED_BODY));
            bytes[i] ^= (uint8_t)(1 << bit);
        }
    CHECK(refused > size);
    free(bytes);
}

static void test_nul_in_text(void)
{
    program_text p;
    size_t size;
    kb_kernel k;
    kb_error err;
    program_init(&p);
    uint8_t *bytes = program_write(&p, digest, &size);
    CHECK_INT(bytes[SEALED_BODY + 4], 'o');
    bytes[SEALED_BODY + 4] = 0;
    sealed_sign(bytes, size, digest, sizeof digest);
    CHECK_INT(kb_program_read(bytes, size, digest, false, &k, &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "the check of its length failed");
    free(bytes);
}

/* Parameters that are not words: their sizes are part of the function. */
static void test_sizes(void)
{
    const uint32_t sizes[] = {4, 16, 8, 1, 4}; /* six words */
    program_text p;
    kb_kernel k;
    kb_error err;
    program_init(&p);
    p.functions[0].id = 1101;
    p.functions[0].n_sizes = 5;
    memcpy(p.functions[0].sizes, sizes, sizeof sizes);
    CHECK_INT(read_program(&p, false, &k, &err), KB_OK);
    const kb_launch_step *first = k.plan.steps[2].other;
    CHECK_INT(first->function->n_sizes, 5);
    for (int i = 0; i < 5; i++)
        CHECK_INT(first->function->sizes[i], sizes[i]);
    p.functions[0].sizes[0] = 2; /* the same digest */
    kb_kernel other;
    CHECK_INT(read_program(&p, false, &other, &err), KB_INVALID_ARGUMENT);
    k.free_owner(k.owner);
}

/* What one digest stands for may not change from program to program. */
static void test_other_image_of_same_digest(void)
{
    program_text p;
    kb_kernel k, other;
    kb_error err;
    program_init(&p);
    CHECK_INT(read_program(&p, false, &k, &err), KB_OK);
    p.functions[1].images[0].text = "FAKE second 1 \n";
    CHECK_INT(read_program(&p, false, &other, &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "the check of an image failed");
    k.free_owner(k.owner);
}

int main(void)
{
    sample_digest(digest, 77);
    test_bytes();
    test_largest();
    test_ends_in_words();
    test_every_field();
    test_large_image();
    test_overflowing_sizes();
    test_smallest();
    test_callbacks();
    test_end();
    test_flipped_bytes();
    test_sizes();
    test_nul_in_text();
    test_other_image_of_same_digest();
    CHECK_INT(kb_function_count.functions, 0); /* all are dropped */
    CHECK_INT(kb_function_count.images, 0);
    return kb_test_end("test_program");
}
