/* Proves that a function of a library that comes with its call runs, and that bytes which are not
 * whole, not of this kernel or not of a library are refused with a reason. */
#include "core/kb_batch.h"
#include "core/kb_dtype.h"
#include "core/kb_handler.h"
#include "kb_test.h"
#include "library.h"
#include "module/kb_source.h"
#include "sample.h"
#include "sealed.h"
#include "torture.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static kb_error err;
static library_text good;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static const uint8_t *new_digest(void)
{
    static uint8_t digest[KB_DIGEST_SIZE];
    digest[0]++;
    return digest;
}

static kb_status add(const library_text *t, const uint8_t *digest)
{
    size_t size;
    bool inserted = true;
    uint8_t *bytes = library_write(t, digest, &size);
    kb_status s = kb_library_register(bytes, size, digest, NULL, &inserted, &err);
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
    if (!CHECK_INT(kb_registry_match(&kb_handler_registry, digest, &k, &err), KB_OK))
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

static void no_file(const char *call, int number)
{
    char text[256];
    errno = EDOM; /* of another call */
    CHECK_INT(add(&good, new_digest()), KB_FAILED_PRECONDITION);
    snprintf(text, sizeof text,
             "this system does not keep a library in memory (%s failed: %s) (in load_c 'op', which "
             "the program carries)",
             call, strerror(number));
    CHECK_TEXT(err.message, text);
}

/* Where the system keeps no file in memory, or not all of it. None stays open. */
static void test_no_file(void)
{
    long files = torture_count().files;
    torture_arm(TORTURE_FILE, 1, false);
    no_file("memfd_create", EMFILE);
    for (long n = 2; n < 4; n++) { /* the file takes two calls */
        torture_arm(TORTURE_FILE, n, false);
        no_file("write", EIO);
    }
    CHECK(torture_disarm() != NULL);
    torture_fill_files(true);
    no_file("write", ENOSPC);
    torture_fill_files(false);
    CHECK_INT(torture_count().files, files);
}

/* The file may have the number 0; it has all bytes, and stays open. */
static void test_file(void)
{
    static char found[1 << 20];
    uint32_t size;
    const uint8_t *library = library_bytes(&size);
    long files = torture_count().files;
    (void)close(0);
    CHECK_INT(add(&good, new_digest()), KB_OK);
    CHECK_INT(torture_count().files, files + 1);
    CHECK_INT(pread(0, found, sizeof found, 0), size);
    CHECK_INT(memcmp(found, library, size), 0);
}

static void test_runs(void)
{
    for (uint32_t zeroed = 0; zeroed < 2; zeroed++) {
        const uint8_t *digest = new_digest();
        library_text t = good;
        t.zeroed = zeroed;
        double y[] = {1, 1};
        if (!CHECK_INT(add(&t, digest), KB_OK))
            return;
        CHECK_INT(call(digest, 4, y), KB_OK);
        CHECK(y[0] == 1.25 + !zeroed && y[1] == 10 + !zeroed);
        CHECK_INT(call(digest, -4, y), KB_INVALID_ARGUMENT);
        CHECK_TEXT(err.message, "load_c 'op': negative [KB3005]");
        CHECK_INT(call(digest, 1000, y), KB_INTERNAL);
        CHECK_TEXT(err.message, "load_c 'op': a launch failed with CUDA runtime error 700, left "
                                "behind [KB3004]");
    }
}

/* The function that a kernel calls; NULL without the kernel. */
static kb_source_function *function_of(const uint8_t *digest)
{
    const kb_kernel *k = NULL;
    if (!CHECK_INT(kb_registry_match(&kb_handler_registry, digest, &k, &err), KB_OK))
        return NULL;
    return ((const kb_source_step *)k->plan.steps[0].other)->run;
}

/* A function that is already loaded is the one called: no library is opened for it. */
static void test_loaded_function(void)
{
    const uint8_t *digest = new_digest();
    CHECK_INT(add(&good, digest), KB_OK);
    const kb_source_step loaded = {.run = function_of(digest)};
    digest = new_digest();
    library_text t = good;
    bool inserted;
    size_t size;
    t.function = "none of the library";
    uint8_t *bytes = library_write(&t, digest, &size);
    CHECK_INT(kb_library_register(bytes, size, digest, &loaded, &inserted, &err), KB_OK);
    free(bytes);
    CHECK(function_of(digest) == loaded.run);
}

/* As many attributes as there may be, of one size and another. */
static void test_attributes(void)
{
    static const uint32_t numbers[] = {0, 1, 2, 3, KB_ATTRIBUTES_MAX};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        for (uint32_t size = 8; size <= KB_ATTRIBUTE_SIZE_MAX; size += 8) {
            const uint8_t *digest = new_digest();
            library_text t = good;
            double y[2] = {0}, expected = 0;
            t.function = "weigh";
            t.n_values = numbers[k];
            t.value_size = size;
            if (!CHECK_INT(add(&t, digest), KB_OK))
                return;
            CHECK_INT(call(digest, 1, y), KB_OK);
            for (uint32_t i = 0; i < t.n_values; i++)
                expected += (i + 1) * (2.5 + i);
            CHECK(y[0] == expected);
        }
    library_text t = good;
    t.value_size = 1; /* the least */
    CHECK_INT(add(&t, new_digest()), KB_OK);
}

/* The same bytes are opened once, other bytes on their own, in whatever order they come. */
static void test_one_of_each(void)
{
    static const uint32_t more[] = {0, 1, 0, 1, 0};
    kb_source_function *run[5];
    for (int i = 0; i < 5; i++) {
        const uint8_t *digest = new_digest();
        library_text t = good;
        t.more = more[i];
        CHECK_INT(add(&t, digest), KB_OK);
        run[i] = function_of(digest);
        CHECK(run[i] != NULL);
        if (i > 1)
            CHECK(run[i] == run[i - 2]);
    }
    CHECK(run[0] != run[1]);
}

static void *add_one(void *given)
{
    bool inserted;
    kb_error error;
    uint8_t digest[KB_DIGEST_SIZE] = {0xff, (uint8_t)(uintptr_t)given};
    size_t size;
    pthread_mutex_lock(&writing); /* of which one thread writes at a time */
    uint8_t *bytes = library_write(&good, digest, &size);
    pthread_mutex_unlock(&writing);
    CHECK_INT(kb_library_register(bytes, size, digest, NULL, &inserted, &error), KB_OK);
    free(bytes);
    return NULL;
}

static void test_threads(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, add_one, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < THREADS; i++) {
        const uint8_t first[KB_DIGEST_SIZE] = {0xff, 0}, other[KB_DIGEST_SIZE] = {0xff, (uint8_t)i};
        CHECK(function_of(first) == function_of(other));
    }
}

static void damaged_is_refused(const uint8_t *bytes, size_t size, const void *digest)
{
    bool inserted = true;
    CHECK_INT(kb_library_register(bytes, size, digest, NULL, &inserted, &err), KB_INVALID_ARGUMENT);
    CHECK(!inserted);
    CHECK_HAS(err.message, "the library of a kernel is damaged, or belongs to another");
}

static void changed_is_refused(const uint8_t *bytes, size_t size, const void *digest)
{
    damaged_is_refused(bytes, size, digest);
    CHECK_HAS(err.message, "the check of its digest failed");
}

static void test_a_part_is_refused(void)
{
    const uint8_t *digest = new_digest();
    size_t size;
    uint8_t *bytes = library_write(&good, digest, &size);
    sealed_each_part(bytes, size, 997, digest, KB_DIGEST_SIZE, damaged_is_refused);
    sealed_each_flip(bytes, size, 997, digest, changed_is_refused);
    free(bytes);
}

static void refuse(const library_text *t, kb_status status, const char *words)
{
    CHECK_INT(add(t, new_digest()), status);
    CHECK_HAS(err.message, words);
}

static void test_wrong_fields(void)
{
    library_text t = good;
    t.version++;
    refuse(&t, KB_FAILED_PRECONDITION, "has format 3, and this kernbridge reads format 2");
    t = good, t.n_hidden = 1;
    refuse(&t, KB_INVALID_ARGUMENT, "the check of a number of buffers failed");
    t = good, t.n_values = KB_ATTRIBUTES_MAX + 1;
    refuse(&t, KB_INVALID_ARGUMENT, "the check of a number of attributes failed");
    t = good, t.behind = 1;
    refuse(&t, KB_INVALID_ARGUMENT, "the check of its end failed");
    t = good, t.zeroed = 2;
    refuse(&t, KB_INVALID_ARGUMENT, "the check of whether outputs are zeroed failed");
    for (int i = 0; i < 2; i++) {
        t = good, t.dtypes[i] = 999;
        refuse(&t, KB_INVALID_ARGUMENT, "the check of a dtype failed");
    }
    t = good, t.value_size = 17;
    refuse(&t, KB_INVALID_ARGUMENT, "the check of the size of an attribute failed");
    t = good, t.value_size = 0;
    refuse(&t, KB_INVALID_ARGUMENT, "the check of the size of an attribute failed");
    t = good, t.function = "scales";
    refuse(&t, KB_INVALID_ARGUMENT, "the check of what it defines failed");
    t = good, t.stored_size--;
    refuse(&t, KB_INVALID_ARGUMENT, "the check of ");
    uint8_t *library = library_bytes(&t.stored_size);
    library[0] ^= 1; /* no library */
    refuse(&good, KB_FAILED_PRECONDITION, "(in load_c 'op', which the program carries)");
    library[0] ^= 1;
}

static void expect(fake_frame *f, int32_t code)
{
    kb_xla_error *error = kb_handler_host_instantiate(&f->frame);
    CHECK_INT(error ? error->code : KB_OK, code);
    fake_error_destroy(error);
}

static void test_calls(void)
{
    static const kb_handler_format formats[] = {{KB_LIBRARY_MAGIC, kb_library_register},
                                                {NULL, NULL}};
    kb_handler_formats = formats;
    kb_kernel named = {0};
    memcpy(named.digest, new_digest(), KB_DIGEST_SIZE);
    fake_frame f;
    size_t size;
    double y[2];
    uint8_t *bytes = library_write(&good, named.digest, &size);
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_INSTANTIATE);
    sample_attrs(&f, &named);
    fake_attr_array(&f, "program", KB_DTYPE_U8, 20, "KBHC, of another kind", 20);
    expect(&f, KB_NOT_FOUND); /* nor does anything find it by its origin */
    fake_attr_remove(&f, "origin");
    expect(&f, KB_INVALID_ARGUMENT);
    fake_attr_remove(&f, "program");
    expect(&f, KB_NOT_FOUND);
    fake_attr_array(&f, "program", KB_DTYPE_U8, size, bytes, size);
    expect(&f, KB_OK);
    CHECK_INT(call(named.digest, 1, y), KB_OK);
    fake_frame_free(&f);
    free(bytes);
}

int main(void)
{
    library_init(&good);
    test_no_file(); /* before the library is opened */
    test_file();
    test_runs();
    test_loaded_function();
    test_attributes();
    test_one_of_each();
    test_threads();
    test_a_part_is_refused();
    test_wrong_fields();
    test_calls();
    return kb_test_end("test_library");
}
