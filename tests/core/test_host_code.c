/* Proves that a kernel that comes as machine code runs and puts its exceptions into words as the
 * format says, and that bytes which are not whole, not of this kernel or not for this machine are
 * refused with a reason, before any of the code is placed. */
#include "core/kb_batch.h"
#include "core/kb_handler.h"
#include "core/kb_host.h"
#include "host_code.h"
#include "kb_test.h"
#include "object/kb_cpu.h"
#include "sample.h"
#include "sealed.h"
#include "torture.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static uint8_t digest[KB_DIGEST_SIZE];
static kb_error err;

static kb_status read_text(const host_code_text *t, kb_kernel *kernel)
{
    size_t size;
    uint8_t *bytes = host_code_write(t, digest, &size);
    kb_status s = kb_host_code_read(bytes, size, digest, NULL, kernel, &err);
    free(bytes); /* before anybody looks at the kernel */
    return s;
}

static void test_fields(void)
{
    host_code_text t;
    kb_kernel k;
    host_code_init(&t);
    t.n_hidden = 1;
    if (!CHECK_INT(read_text(&t, &k), KB_OK))
        return;
    CHECK(memcmp(k.digest, digest, KB_DIGEST_SIZE) == 0);
    CHECK_TEXT(k.name, "numba_kernel 'op'");
    CHECK_TEXT(k.source, "op.py:1");
    CHECK_INT(k.n_inputs, 1);
    CHECK_INT(k.n_outputs, 1);
    CHECK_INT(k.n_hidden, 1);
    CHECK_INT(k.plan.n_steps, 1);
    CHECK_INT(k.plan.steps[0].kind, KB_STEP_HOST);
    CHECK(!k.plan.steps[0].host.parallel);
    CHECK(k.bytes > (size_t)sysconf(_SC_PAGESIZE) && k.bytes < 1 << 20);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(k.buffers[i].dtype, KB_DTYPE_F64);
        CHECK_INT(k.buffers[i].rank, 1);
        CHECK_TEXT(k.buffers[i].name, t.buffers[i].name);
    }
    k.free_owner(k.owner);
    t.buffers[0].rank = KB_RANK_MAX;
    t.places[0].status = KB_NUMBA_USER_EXCEPTION; /* the least */
    if (!CHECK_INT(read_text(&t, &k), KB_OK))
        return;
    CHECK_INT(k.buffers[0].rank, KB_RANK_MAX);
    k.free_owner(k.owner);
}

/* A kernel that this process has compiled runs that code, and not the bytes of an object: it has
 * none. */
static void test_local(void)
{
    host_code_text t;
    kb_kernel k;
    size_t size;
    host_code_init(&t);
    t.object_size = t.stored_size = 0;
    uint8_t *bytes = host_code_write(&t, digest, &size);
    const kb_failures none = {0};
    const kb_host_step own = {
        .entry = (kb_numba_entry *)(uintptr_t)&digest, .parallel = true, .failures = &none};
    CHECK_INT(kb_host_code_read(bytes, size - 1, digest, &own, &k, &err), KB_INVALID_ARGUMENT);
    CHECK_INT(kb_host_code_read(bytes, size, digest, NULL, &k, &err), KB_INVALID_ARGUMENT);
    if (CHECK_INT(kb_host_code_read(bytes, size, digest, &own, &k, &err), KB_OK)) {
        CHECK_TEXT(k.name, "numba_kernel 'op'");
        CHECK_INT(k.plan.n_steps, 1);
        CHECK_INT(k.plan.steps[0].kind, KB_STEP_HOST);
        CHECK(k.plan.steps[0].host.entry == own.entry);
        CHECK(k.plan.steps[0].host.parallel);
        CHECK_PTR(k.plan.steps[0].host.failures, &none);
        CHECK(k.bytes > 0 && k.bytes < (size_t)sysconf(_SC_PAGESIZE)); /* without code */
        k.free_owner(k.owner);
    }
    free(bytes);
}

/* Calls the kernel with two elements, of which the first is good. */
static kb_status call(const kb_kernel *k, double second, double y[2])
{
    const int64_t dims[] = {2};
    double x[] = {0.5, second};
    fake_frame f;
    kb_frame frame;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&f, KB_DTYPE_F64, x, 1, dims);
    fake_ret(&f, KB_DTYPE_F64, y, 1, dims);
    kb_status s = kb_frame_read(&frame, k, &f.frame, sample_call(&f, k, 0, NULL), &err);
    if (s == KB_OK)
        s = kb_batch_run(&frame, &err);
    fake_frame_free(&f);
    return s;
}

static void never(int32_t status, void *exception, const char *source, char *text, size_t capacity)
{
    (void)status, (void)exception, (void)source, (void)text, (void)capacity;
    CHECK(false); /* the decoder knows nothing of such code */
}

static void test_calls(void)
{
    host_code_text t;
    kb_kernel k;
    double y[2];
    host_code_init(&t);
    if (!CHECK_INT(read_text(&t, &k), KB_OK))
        return;
    kb_host_decode = never;
    CHECK_INT(call(&k, 1, y), KB_OK);
    CHECK(y[0] == exp(0.5) + 1 && y[1] == exp(1) + 1);
    const struct {
        double x;
        const char *text;
    } failures[] = {
        {-1, "numba_kernel 'op': ValueError: negative (in op at op.py:4) [KB3001]"},
        {-2, "numba_kernel 'op': ValueError: negative (in op at op.py:3) [KB3001]"},
        {-3, "numba_kernel 'op': ZeroDivisionError (in the kernel at op.py:1) [KB3001]"},
        {-4, "numba_kernel 'op': the kernel failed with status -2 [KB3001]"},
        {-5, "numba_kernel 'op': ValueError: ... is not ... (in op at op.py:4) [KB3001]"},
    };
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        CHECK_INT(call(&k, failures[i].x, y), KB_INTERNAL);
        CHECK_TEXT(err.message, failures[i].text);
    }
    kb_host_decode = NULL;
    k.free_owner(k.owner);
}

/* What is said of a status without a record, of a record without a status of its own, and of
 * places: that in the table, else the record's, else the kernel's. */
static void test_words(void)
{
    static const kb_failure_place places[] = {{5, "in f at op.py:5"}, {7, "in g at op.py:7"}};
    const kb_failures failures = {.n_places = 2, .places = places};
    kb_numba_exception with = {.pickle = "E: with\0in h at op.py:9"}, without = {.pickle = "E\0"};
    const struct {
        int32_t status;
        kb_numba_exception *record;
        const char *text;
    } cases[] = {
        {1, NULL, "op: the kernel failed with status 1"},
        {0, &with, "op: the kernel failed with status 0"},
        {-1, &with, "op: the kernel failed with status -1"},
        {-1, NULL, "op: the kernel failed with status -1"},
        {1, &with, "op: E: with (in h at op.py:9)"},
        {1, &without, "op: E (in the kernel at op.py:1)"},
        {5, &with, "op: E: with (in f at op.py:5)"},
        {6, &with, "op: E: with (in h at op.py:9)"},
        {7, &without, "op: E (in g at op.py:7)"},
        {8, &without, "op: E (in the kernel at op.py:1)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kb_error_set(&err, KB_INTERNAL, "op: ");
        kb_failures_describe(&failures, cases[i].status, cases[i].record, "op.py:1", &err);
        CHECK_TEXT(err.message, cases[i].text);
    }
}

/* In place of what Numba's code makes of its payload, which counts how often it was asked. */
static void *unwrapped(void *payload)
{
    ++*(int *)payload;
    return NULL;
}

static kb_numba_exception *written;
static bool python_ended;

static bool write_message(kb_numba_exception *record, char *text, size_t capacity)
{
    written = record;
    if (!python_ended)
        (void)snprintf(text, capacity, "E: 2%%s");
    return !python_ended;
}

static void describe(const char *pickle, int dynamic, int n_asked_expected, const char *expected)
{
    int n_asked = 0;
    kb_numba_exception *record = torture_calloc(1, sizeof *record); /* its reader frees it */
    if (!record)
        abort();
    *record = (kb_numba_exception){.pickle = pickle,
                                   .payload = &n_asked,
                                   .unwrap = (void *)(uintptr_t)unwrapped,
                                   .dynamic = dynamic};
    kb_error_set(&err, KB_INTERNAL, "op: ");
    kb_failures_describe(&(kb_failures){0}, 1, record, "op.py:1", &err);
    CHECK_TEXT(err.message, expected);
    CHECK_INT(n_asked, n_asked_expected);
}

/* Without Python, dots stand where values belong, and the payload is released; with it, it writes
 * the message, unless it has ended. */
static void test_values(void)
{
    static const struct {
        const char *pickle, *text;
    } cases[] = {
        {"E: plain\0at p", "op: E: plain (at p)"},
        {"\0010s\0", "op: ... (in the kernel at op.py:1)"},
        {"\0010s\0at p", "op: ... (at p)"},
        {"\0011s\0019r\00110s\0at p", "op: ......... (at p)"},
        {"E: \0012s, \0013r; \0011s!\0at p", "op: E: ..., ...; ...! (at p)"},
        {"E: \0018s \00108s\0", "op: E: ... ... (in the kernel at op.py:1)"},
        {"E: \0014\0at p", "op: E: ... (at p)"}, /* it ends too soon */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int dynamic = 1; dynamic < 3; dynamic++)
            describe(cases[i].pickle, dynamic, 1, cases[i].text);
    kb_failures_write = write_message;
    describe("E: \0010s\0at p", 1, 0, "op: E: 2%s (at p)");
    python_ended = true;
    describe("E: \0010s\0at p", 1, 0, "op: E: ... (at p)");
    CHECK(written != NULL);
    written = NULL;
    kb_numba_exception constant = {.pickle = "\0010s\0at p", .dynamic = -1};
    kb_error_set(&err, KB_INTERNAL, "op: ");
    kb_failures_describe(&(kb_failures){0}, 1, &constant, "op.py:1", &err);
    CHECK_TEXT(err.message, "op: \0010s (at p)");
    CHECK(written == NULL);
    kb_failures_write = NULL;
}

static void damaged_is_refused(const uint8_t *bytes, size_t size, const void *owner)
{
    kb_kernel k;
    CHECK_INT(kb_host_code_read(bytes, size, owner, NULL, &k, &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "is damaged, or belongs to another kernel");
}

static void changed_is_refused(const uint8_t *bytes, size_t size, const void *owner)
{
    damaged_is_refused(bytes, size, owner);
    CHECK_HAS(err.message, "the check of its digest failed");
}

static void test_a_part_is_refused(void)
{
    host_code_text t;
    size_t size;
    host_code_init(&t);
    uint8_t *bytes = host_code_write(&t, digest, &size);
    sealed_each_part(bytes, size, 37, digest, KB_DIGEST_SIZE, damaged_is_refused);
    free(bytes);
}

/* Every bit counts, in the code, its description and the identity that it was made for. */
static void test_digest(void)
{
    host_code_text t;
    kb_kernel k;
    size_t size;
    host_code_init(&t);
    uint8_t *bytes = host_code_write(&t, digest, &size);
    sealed_each_flip(bytes, size, 101, digest, changed_is_refused);
    uint8_t other[KB_DIGEST_SIZE];
    memcpy(other, digest, sizeof other);
    other[31] ^= 1;
    CHECK_INT(kb_host_code_read(bytes, size, other, NULL, &k, &err), KB_INVALID_ARGUMENT);
    bytes[0] = 'X';
    CHECK_INT(kb_host_code_read(bytes, size, digest, NULL, &k, &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "its first bytes");
    free(bytes);
}

static void refuse(const host_code_text *t, kb_status status, const char *text)
{
    kb_kernel k;
    CHECK_INT(read_text(t, &k), status);
    CHECK_INT(err.status, status);
    CHECK_HAS(err.message, text);
}

static void test_wrong_fields(void)
{
    host_code_text good, t;
    host_code_init(&good);
    t = good, t.version = KB_HOST_CODE_VERSION - 1;
    refuse(&t, KB_FAILED_PRECONDITION, "has format 2, and this kernbridge reads format 3");
    t = good, t.version = KB_HOST_CODE_VERSION + 1;
    refuse(&t, KB_FAILED_PRECONDITION, "has format 4, and this kernbridge reads format 3");
    t = good, t.n_inputs = KB_BUFFERS_MAX + 1;
    refuse(&t, KB_INVALID_ARGUMENT, "a number of buffers");
    t = good, t.n_hidden = KB_BUFFERS_MAX;
    refuse(&t, KB_INVALID_ARGUMENT, "the check of ");
    t = good, t.buffers[0].dtype = 12345;
    refuse(&t, KB_INVALID_ARGUMENT, "a dtype");
    t = good, t.n_hidden = 1, t.buffers[2].dtype = 12345;
    refuse(&t, KB_INVALID_ARGUMENT, "a dtype");
    t = good, t.buffers[1].rank = KB_RANK_MAX + 1;
    refuse(&t, KB_INVALID_ARGUMENT, "a rank");
    t = good, t.buffers[1].rank = -1;
    refuse(&t, KB_INVALID_ARGUMENT, "a rank");
    t = good, t.n_places = UINT32_MAX;
    refuse(&t, KB_INVALID_ARGUMENT, "the check of ");
    t = good, t.places[0].status = 0;
    refuse(&t, KB_INVALID_ARGUMENT, "the status of an exception");
    t = good, t.places[0].status = UINT32_MAX;
    refuse(&t, KB_INVALID_ARGUMENT, "the status of an exception");
    t = good, t.object_size--, t.stored_size--;
    refuse(&t, KB_INVALID_ARGUMENT, "numba_kernel 'op': the machine code is damaged");
    t = good, t.object_size = t.stored_size = 0;
    refuse(&t, KB_INVALID_ARGUMENT, "the machine code is damaged");
    t = good, t.object_size--;
    refuse(&t, KB_INVALID_ARGUMENT, "the check of its end failed");
    t = good, t.object_size = UINT32_MAX;
    refuse(&t, KB_INVALID_ARGUMENT, "the check of its length failed");
    t = good, t.object_size++;
    refuse(&t, KB_INVALID_ARGUMENT, "the check of its length failed");
}

/* Places that take the least that they can: what is wrong with the first is told where there are
 * bytes for both, and that there are not is told before. */
static void test_least_places(void)
{
    enum { SIZE_OF_CODE = 4 };
    host_code_text t;
    kb_kernel k;
    host_code_init(&t);
    t.object_size = t.stored_size = 0;
    t.places[0].status = 0;
    t.places[0].text = t.places[1].text = "";
    for (int cut = 0; cut < 2; cut++) {
        size_t size;
        uint8_t *bytes = host_code_write(&t, digest, &size);
        size -= SIZE_OF_CODE + (size_t)cut;
        sealed_sign(bytes, size, digest, KB_DIGEST_SIZE);
        CHECK_INT(kb_host_code_read(bytes, size, digest, NULL, &k, &err), KB_INVALID_ARGUMENT);
        CHECK_TEXT(err.message, cut ? "a kernel's machine code is damaged, or belongs to another "
                                      "kernel: the check of its length failed"
                                    : "a kernel's machine code is damaged, or belongs to another "
                                      "kernel: the check of the status of an exception failed");
        free(bytes);
    }
}

/* Names a feature that this processor lacks, or one that no kernbridge knows. */
static void test_processor(void)
{
    host_code_text t;
    kb_kernel k;
    host_code_init(&t);
    t.features = (int64_t)kb_cpu_features();
    if (CHECK_INT(read_text(&t, &k), KB_OK))
        k.free_owner(k.owner);
    t.features = INT64_MIN;
    refuse(&t, KB_FAILED_PRECONDITION,
           "numba_kernel 'op': the machine code needs what this processor does not have: feature "
           "63 of a later kernbridge");
    unsigned bit = 0;
    while (kb_cpu_feature(bit) && kb_cpu_features() >> bit & 1)
        bit++;
    if (!kb_cpu_feature(bit))
        return; /* it has them all */
    t.features = (int64_t)(UINT64_C(1) << bit);
    refuse(&t, KB_FAILED_PRECONDITION, kb_cpu_feature(bit));
}

/* Reads the kernel with another name in its object; both names have `size` bytes with the NULs
 * around them. */
static void refuse_renamed(const char *was, const char *becomes, size_t size, kb_status status,
                           const char *text)
{
    host_code_text t;
    uint8_t *object;
    host_code_init(&t);
    object = malloc(t.object_size);
    if (!object)
        abort();
    memcpy(object, t.object, t.object_size);
    for (size_t i = 0; i + size <= t.object_size; i++)
        if (memcmp(object + i, was, size) == 0)
            memcpy(object + i, becomes, size);
    t.object = object;
    refuse(&t, status, text);
    free(object);
}

/* A symbol that is in the process, and not on the list; and code without an entry. */
static void test_symbols(void)
{
    refuse_renamed("\0exp", "\0div", 5, KB_FAILED_PRECONDITION, "the machine code uses div");
    refuse_renamed("\0" KB_HOST_CODE_ENTRY, "\0kb_entrz", sizeof "\0" KB_HOST_CODE_ENTRY,
                   KB_INVALID_ARGUMENT, "belongs to another kernel: the check of its entry failed");
}

/* Each allocation fails in turn, and nothing is left behind. */
static void test_no_memory(void)
{
    host_code_text t;
    kb_kernel k;
    host_code_init(&t);
    long n = 1;
    for (kb_status s = KB_RESOURCE_EXHAUSTED; s != KB_OK; n++) {
        torture_fail_nth(n);
        s = read_text(&t, &k);
        torture_fail_nth(0);
        if (s == KB_OK)
            k.free_owner(k.owner);
        else if (!CHECK_INT(s, KB_RESOURCE_EXHAUSTED))
            return;
    }
    CHECK(n > 5);
}

/* The way of a call: the kernel in its attribute is registered once, whatever the target. */
static void test_load(void)
{
    host_code_text t;
    size_t size;
    uint8_t own[KB_DIGEST_SIZE];
    sample_digest(own, 40);
    host_code_init(&t);
    uint8_t *bytes = host_code_write(&t, own, &size);
    bool inserted = true;
    CHECK_INT(kb_host_code_register(bytes, size - 1, own, NULL, &inserted, &err),
              KB_INVALID_ARGUMENT);
    CHECK(!inserted);
    static const kb_handler_format formats[] = {{KB_HOST_CODE_MAGIC, kb_host_code_register},
                                                {NULL, NULL}};
    kb_kernel named = {0};
    memcpy(named.digest, own, sizeof own);
    for (int round = 0; round < 3; round++) {
        fake_frame f;
        fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_INSTANTIATE);
        sample_attrs(&f, &named);
        fake_attr_remove(&f, "origin");
        fake_attr_array(&f, "program", KB_DTYPE_U8, size, bytes, size);
        kb_handler_formats = round ? formats : NULL;
        kb_xla_error *error = kb_handler_host_instantiate(&f.frame);
        CHECK((error != NULL) == (round == 0));
        fake_error_destroy(error);
        fake_frame_free(&f);
    }
    const kb_kernel *k = kb_registry_find(&kb_handler_registry, kb_digest_key(own));
    double y[2];
    if (CHECK(k != NULL))
        CHECK_INT(call(k, 2, y), KB_OK);
    CHECK_INT(kb_registry_count(&kb_handler_registry).kernels, 1);
    inserted = true;
    CHECK_INT(kb_host_code_register(bytes, size, own, NULL, &inserted, &err), KB_OK);
    CHECK(!inserted); /* it is there already */
    free(bytes);
}

int main(void)
{
    sample_digest(digest, 1);
    test_fields();
    test_local();
    test_calls();
    test_words();
    test_values();
    test_a_part_is_refused();
    test_digest();
    test_wrong_fields();
    test_least_places();
    test_processor();
    test_symbols();
    test_no_memory();
    test_load();
    return kb_test_end("test_host_code");
}
