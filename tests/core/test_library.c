/* Proves that a function of a library that comes with its call runs, and that bytes which are not
 * whole, not of this kernel or not of a library are refused with a reason. */
#include "core/kb_batch.h"
#include "core/kb_dtype.h"
#include "core/kb_handler.h"
#include "kb_test.h"
#include "module/kb_library.h"
#include "sample.h"
#include "sealed.h"

#include <stdlib.h>

enum { ROOM = 1 << 20 };

static uint8_t library[ROOM];
static uint32_t library_size;
static kb_error err;

typedef struct text {
    uint32_t version, n_hidden, zeroed, value_size, library_size;
    const char *function;
} text;

static const text GOOD = {
    .version = KB_LIBRARY_VERSION, .zeroed = 1, .value_size = 8, .function = "scale"};

static const uint8_t *new_digest(void)
{
    static uint8_t digest[KB_DIGEST_SIZE];
    digest[0]++;
    return digest;
}

/* Bytes in a block of exactly their size, which the caller frees. */
static uint8_t *write_bytes(const text *t, const uint8_t *digest, size_t *size)
{
    static uint8_t room[2 * ROOM];
    uint8_t *at = room + SEALED_BODY;
    const double factor = 2.5;
    sealed_begin(room, KB_LIBRARY_MAGIC, t->version);
    sealed_put_text(&at, "load_c 'op'");
    sealed_put_text(&at, "");
    sealed_put_u32(&at, 1);
    sealed_put_u32(&at, 1);
    sealed_put_u32(&at, t->n_hidden);
    for (int i = 0; i < 2; i++) {
        sealed_put_u32(&at, KB_DTYPE_F64);
        sealed_put_u32(&at, 1);
        sealed_put_text(&at, i ? "y" : "x");
    }
    sealed_put_text(&at, t->function);
    sealed_put_u32(&at, t->zeroed);
    sealed_put_u32(&at, 1);
    sealed_put_u32(&at, t->value_size);
    sealed_put(&at, &factor, sizeof factor);
    sealed_put_u32(&at, library_size);
    sealed_put_u32(&at, library_size);
    sealed_put(&at, library, t->library_size ? t->library_size : library_size);
    *size = (size_t)(at - room);
    sealed_sign(room, *size, digest, KB_DIGEST_SIZE);
    uint8_t *bytes = malloc(*size);
    if (!bytes)
        abort();
    return memcpy(bytes, room, *size);
}

static kb_status add(const text *t, const uint8_t *digest)
{
    size_t size;
    bool inserted;
    uint8_t *bytes = write_bytes(t, digest, &size);
    kb_status s = kb_library_register(bytes, size, digest, &inserted, &err);
    CHECK(inserted == (s == KB_OK));
    free(bytes); /* before anybody runs the function */
    return s;
}

static kb_status call(const uint8_t *digest, double second, double y[2])
{
    const int64_t dims[] = {2};
    double x[] = {0.5, second};
    fake_frame f;
    kb_frame frame;
    const kb_kernel *k = NULL;
    if (!CHECK_INT(kb_registry_match(kb_handler_registry(), digest, &k, &err), KB_OK))
        return KB_NOT_FOUND;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&f, KB_DTYPE_F64, x, 1, dims);
    fake_ret(&f, KB_DTYPE_F64, y, 1, dims);
    kb_status s = kb_frame_read(&frame, k, &f.frame, sample_call(&f, k, 0, NULL), &err);
    if (s == KB_OK)
        s = kb_batch_run(&frame, &err);
    fake_frame_free(&f);
    return s;
}

static void test_runs(void)
{
    for (uint32_t zeroed = 0; zeroed < 2; zeroed++) {
        const uint8_t *digest = new_digest();
        text t = GOOD;
        t.zeroed = zeroed;
        double y[] = {1, 1};
        if (!CHECK_INT(add(&t, digest), KB_OK))
            return;
        CHECK_INT(call(digest, 4, y), KB_OK);
        CHECK(y[0] == 1.25 + !zeroed && y[1] == 10 + !zeroed);
        CHECK_INT(call(digest, -4, y), KB_INVALID_ARGUMENT);
        CHECK_TEXT(err.message, "load_c 'op': negative [KB3005]");
    }
}

static void damaged_is_refused(const uint8_t *bytes, size_t size, const void *digest)
{
    bool inserted;
    CHECK_INT(kb_library_register(bytes, size, digest, &inserted, &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "the library of a kernel is damaged, or belongs to another");
}

static void changed_is_refused(const uint8_t *bytes, size_t size, const void *digest)
{
    damaged_is_refused(bytes, size, digest);
    CHECK_HAS(err.message, "its digest does not hold");
}

static void test_a_part_is_refused(void)
{
    const uint8_t *digest = new_digest();
    size_t size;
    uint8_t *bytes = write_bytes(&GOOD, digest, &size);
    sealed_each_part(bytes, size, 997, digest, KB_DIGEST_SIZE, damaged_is_refused);
    sealed_each_flip(bytes, size, 997, digest, changed_is_refused);
    free(bytes);
}

static void refuse(const text *t, kb_status status, const char *words)
{
    CHECK_INT(add(t, new_digest()), status);
    CHECK_HAS(err.message, words);
}

static void test_wrong_fields(void)
{
    text t = GOOD;
    t.version++;
    refuse(&t, KB_FAILED_PRECONDITION, "has format 2, and this kernbridge reads format 1");
    t = GOOD, t.n_hidden = 1;
    refuse(&t, KB_INVALID_ARGUMENT, "does not hold");
    t = GOOD, t.zeroed = 2;
    refuse(&t, KB_INVALID_ARGUMENT, "whether outputs are zeroed does not hold");
    t = GOOD, t.value_size = 17;
    refuse(&t, KB_INVALID_ARGUMENT, "the size of an attribute does not hold");
    t = GOOD, t.value_size = 0;
    refuse(&t, KB_INVALID_ARGUMENT, "the size of an attribute does not hold");
    t = GOOD, t.function = "scales";
    refuse(&t, KB_INVALID_ARGUMENT, "what it defines does not hold");
    t = GOOD, t.library_size = library_size - 1;
    refuse(&t, KB_INVALID_ARGUMENT, "does not hold");
    library[0] ^= 1; /* no library */
    refuse(&GOOD, KB_FAILED_PRECONDITION, "(in load_c 'op', which the program carries)");
    library[0] ^= 1;
}

static void test_loader(void)
{
    const uint8_t *digest = new_digest();
    fake_frame f;
    size_t size;
    double y[2];
    uint8_t *bytes = write_bytes(&GOOD, digest, &size);
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_INSTANTIATE);
    CHECK_INT(kb_library_load(&f.frame, digest, &err), KB_NOT_FOUND);
    fake_attr_array(&f, "program", KB_DTYPE_U8, 20, "KBHC, of another kind", 20);
    CHECK_INT(kb_library_load(&f.frame, digest, &err), KB_NOT_FOUND);
    fake_attr_remove(&f, "program");
    fake_attr_array(&f, "program", KB_DTYPE_U8, size, bytes, size);
    CHECK_INT(kb_library_load(&f.frame, digest, &err), KB_OK);
    CHECK_INT(call(digest, 1, y), KB_OK);
    fake_frame_free(&f);
    free(bytes);
}

int main(void)
{
    FILE *file = fopen(LIBRARY_SAMPLE, "rb");
    if (!file)
        abort();
    library_size = (uint32_t)fread(library, 1, sizeof library, file);
    fclose(file);
    test_runs();
    test_a_part_is_refused();
    test_wrong_fields();
    test_loader();
    return kb_test_end("test_library");
}
