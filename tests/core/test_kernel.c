/* Proves that a copied kernel owns all that it points to, that its key is the digest's, and that
 * counts, ranks and dtypes out of range are refused by name. */
#include "kb_test.h"
#include "sample.h"

#include <stdlib.h>

static void make(sample *s)
{
    sample_init(s, 5, sample_record);
    sample_input(s, KB_DTYPE_F32, 2, "x");
    sample_input(s, KB_DTYPE_S32, 0, "n");
    sample_output(s, KB_DTYPE_F64, 3, "out");
    sample_hidden(s, KB_DTYPE_F32, 2, "x again");
}

static void test_copy_owns(void)
{
    sample *s = malloc(sizeof *s);
    char *name = malloc(8), *source = malloc(8), *parameter = malloc(8);
    if (!CHECK(s && name && source && parameter))
        return;
    make(s);
    s->kernel.name = strcpy(name, "op five");
    s->kernel.source = strcpy(source, "a.py:99");
    s->buffers[0].name = strcpy(parameter, "first");
    s->step.host.parallel = true;
    s->step.host.num_threads = 3;
    kb_kernel *copy = NULL;
    kb_error err;
    CHECK_INT(kb_kernel_copy(&s->kernel, &copy, &err), KB_OK);

    memset(name, '?', 7);
    memset(source, '?', 7);
    memset(parameter, '?', 5);
    memset(s, 0xff, sizeof *s);
    free(name);
    free(source);
    free(parameter);
    free(s);
    if (!CHECK(copy != NULL))
        return;

    CHECK_TEXT(copy->name, "op five");
    CHECK_TEXT(copy->source, "a.py:99");
    CHECK_INT(copy->n_inputs, 2);
    CHECK_INT(copy->n_outputs, 1);
    CHECK_INT(copy->n_hidden, 1);
    CHECK_INT(kb_kernel_n_buffers(copy), 4);
    CHECK_TEXT(copy->buffers[0].name, "first");
    CHECK_TEXT(copy->buffers[3].name, "x again");
    CHECK_INT(copy->buffers[2].dtype, KB_DTYPE_F64);
    CHECK_INT(copy->buffers[2].rank, 3);
    CHECK_INT(copy->plan.n_steps, 1);
    CHECK_INT(copy->plan.steps[0].kind, KB_STEP_HOST);
    CHECK(copy->plan.steps[0].host.entry == sample_record);
    CHECK(copy->plan.steps[0].host.parallel);
    CHECK_INT(copy->plan.steps[0].host.num_threads, 3);
    CHECK(copy->bytes >= sizeof *copy + 4 * sizeof *copy->buffers + sizeof(kb_step) + 8 + 8 + 6);
    sample_free_kernel(copy);
}

static void test_key(void)
{
    const uint8_t digest[KB_DIGEST_SIZE] = {1, 2, 3, 4, 5, 6, 7, 0x80, 9};
    CHECK_INT(kb_digest_key(digest), (int64_t)0x8007060504030201u);
    CHECK(kb_digest_key(digest) < 0);

    sample s;
    make(&s);
    memcpy(s.kernel.digest, digest, sizeof digest);
    s.kernel.key = 42; /* derived, not believed */
    s.kernel.bytes = 1;
    kb_kernel *copy = NULL;
    kb_error err;
    if (!CHECK_INT(kb_kernel_copy(&s.kernel, &copy, &err), KB_OK))
        return;
    CHECK_INT(copy->key, kb_digest_key(digest));
    CHECK_INT(memcmp(copy->digest, digest, sizeof digest), 0);
    CHECK(copy->bytes > sizeof *copy);
    sample_free_kernel(copy);
}

/* Refused with a message that has both parts; nothing is made. */
static void refused(const kb_kernel *kernel, const char *part, const char *other)
{
    kb_kernel *copy = NULL;
    kb_error err;
    if (!CHECK_INT(kb_kernel_copy(kernel, &copy, &err), KB_INVALID_ARGUMENT))
        return;
    CHECK_INT(err.status, KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "op5");
    CHECK_HAS(err.message, part);
    CHECK_HAS(err.message, other);
    CHECK_PTR(copy, NULL);
}

static void test_ranges(void)
{
    sample s;
    const int32_t dtypes[] = {0, -1, 13, 34, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        char number[16];
        snprintf(number, sizeof number, "code %d", (int)dtypes[i]);
        make(&s);
        s.buffers[2].dtype = dtypes[i];
        refused(&s.kernel, "buffer 2 (out)", number);
    }
    const int32_t ranks[] = {-1, KB_RANK_MAX + 1, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        char number[16];
        snprintf(number, sizeof number, "rank %d", (int)ranks[i]);
        make(&s);
        s.buffers[3].rank = ranks[i]; /* hidden results are checked too */
        refused(&s.kernel, "buffer 3 (x again)", number);
    }
    uint32_t *const counts[] = {&s.kernel.n_inputs, &s.kernel.n_outputs, &s.kernel.n_hidden};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        make(&s);
        *counts[i] = KB_BUFFERS_MAX + 1;
        refused(&s.kernel, "1025", "1024");
        *counts[i] = UINT32_MAX;
        refused(&s.kernel, "4294967295", "1024");
    }
}

static void test_limits_are_possible(void)
{
    static kb_buffer_spec buffers[3 * KB_BUFFERS_MAX];
    sample s;
    sample_init(&s, 5, sample_record);
    for (int i = 0; i < 3 * KB_BUFFERS_MAX; i++)
        buffers[i] = (kb_buffer_spec){KB_DTYPE_U8, KB_RANK_MAX, "p"};
    s.kernel.buffers = buffers;
    s.kernel.n_inputs = s.kernel.n_outputs = s.kernel.n_hidden = KB_BUFFERS_MAX;
    kb_kernel *copy = NULL;
    kb_error err;
    if (CHECK_INT(kb_kernel_copy(&s.kernel, &copy, &err), KB_OK)) {
        CHECK_TEXT(copy->buffers[3 * KB_BUFFERS_MAX - 1].name, "p");
        sample_free_kernel(copy);
    }

    sample_init(&s, 5, sample_record);
    s.kernel.plan.n_steps = 0; /* nothing at all is a kernel, too */
    if (CHECK_INT(kb_kernel_copy(&s.kernel, &copy, &err), KB_OK)) {
        CHECK_INT(kb_kernel_n_buffers(copy), 0);
        sample_free_kernel(copy);
    }
}

int main(void)
{
    test_copy_owns();
    test_key();
    test_ranges();
    test_limits_are_possible();
    return kb_test_end("test_kernel");
}
