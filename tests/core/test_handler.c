/* Proves what XLA gets back from the handlers: metadata for each version of its API, success by
 * value, and every failure as an error with its code and text. */
#include "core/kb_handler.h"
#include "kb_test.h"
#include "sample.h"
#include "torture.h"

/* op1(x: f32[:]) -> out: f32[:], twice x. */
static sample twice;

static int32_t twice_entry(void **result, void **exception, void *const *inputs,
                           void *const *outputs)
{
    (void)result, (void)exception;
    const kb_xla_buffer *x = inputs[0], *out = outputs[0];
    for (int64_t i = 0; i < x->dims[0]; i++)
        ((float *)out->data)[i] = 2 * ((float *)x->data)[i];
    return KB_NUMBA_OK;
}

/* A failure with this code and text; destroys it. NULL text: success. */
static void expect(kb_xla_error *error, int32_t code, const char *text)
{
    if (!text) {
        CHECK_TEXT(error ? error->message : "", "");
    } else if (CHECK(error != NULL)) {
        CHECK_INT(error->code, code);
        CHECK_HAS(error->message, text);
    }
    fake_error_destroy(error);
    CHECK_INT(fake_errors_alive(), 0);
}

static void frame_for(fake_frame *f, int32_t stage)
{
    fake_frame_init(f, fake_api(3), stage);
    sample_attrs(f, &twice.kernel);
}

static int n_freed;

static void count_freed(void *owner)
{
    n_freed += owner == &n_freed;
}

/* The first table is made when it is first needed; without memory for it, the kernel is given back.
 */
static void test_no_table(void)
{
    kb_kernel owned = twice.kernel;
    kb_error err;
    bool inserted = true;
    owned.owner = &n_freed;
    owned.free_owner = count_freed;
    torture_fail_nth(1);
    CHECK_INT(kb_handler_register(&owned, &inserted, &err), KB_RESOURCE_EXHAUSTED);
    CHECK_TEXT(err.message, "no memory to register more than 0 kernels");
    torture_fail_nth(0);
    CHECK(!inserted);
    CHECK_INT(n_freed, 1);
}

static void test_before_anything(void)
{
    fake_frame f;
    frame_for(&f, KB_XLA_STAGE_EXECUTE);
    expect(kb_handler_host_execute(&f.frame), KB_NOT_FOUND, "not registered in this process");
    expect(kb_handler_host_instantiate(&f.frame), KB_NOT_FOUND, "not registered in this process");
    expect(kb_handler_host_execute(&f.frame), KB_NOT_FOUND, "not registered in this process");
    fake_frame_free(&f);
}

static void refused_as_short(fake_frame *f, size_t *size, const char *text)
{
    *size -= 1;
    expect(kb_handler_host_instantiate(&f->frame), KB_FAILED_PRECONDITION, text);
    expect(kb_handler_host_instantiate(&f->frame), KB_FAILED_PRECONDITION,
           "kernbridge does not support this version of jaxlib");
    *size += 1;
}

/* A structure of the call that ends before what we read of it. */
static void test_short_structures(void)
{
    fake_frame f;
    frame_for(&f, KB_XLA_STAGE_INSTANTIATE);
    refused_as_short(&f, &f.frame.struct_size,
                     "XLA's call frame has 167 bytes, expected 168 or more");
    refused_as_short(&f, &f.frame.args.struct_size,
                     "XLA's list of operands has 39 bytes, expected 40 or more");
    refused_as_short(&f, &f.frame.rets.struct_size,
                     "XLA's list of results has 39 bytes, expected 40 or more");
    refused_as_short(&f, &f.frame.attrs.struct_size,
                     "XLA's list of attributes has 47 bytes, expected 48 or more");
    kb_xla_api api = *fake_api(3);
    f.frame.api = &api;
    refused_as_short(&f, &api.struct_size,
                     "XLA's table of functions has 151 bytes, expected 152 or more");
    expect(kb_handler_host_instantiate(&f.frame), KB_NOT_FOUND, "not registered in this process");
    fake_frame_free(&f);
}

/* An answer that would not fit is not written: XLA sees a version that it does not have. */
static void test_short_question(void)
{
    fake_frame f;
    frame_for(&f, KB_XLA_STAGE_EXECUTE);
    fake_ask_metadata(&f);
    f.metadata.struct_size -= 1;
    CHECK_PTR(kb_handler_host_execute(&f.frame), NULL);
    CHECK_INT(f.metadata.api_version.minor_version, -1);
    CHECK_INT(f.metadata.traits, UINT32_MAX);
    f.metadata.struct_size += 1;
    f.extension.base.struct_size -= 1;
    CHECK_PTR(kb_handler_host_execute(&f.frame), NULL);
    CHECK_INT(f.metadata.api_version.minor_version, -1);
    fake_frame_free(&f);
}

static void test_metadata(void)
{
    kb_xla_handler *const handlers[] = {kb_handler_host_instantiate, kb_handler_host_execute,
                                        kb_handler_idle};
    const struct {
        int theirs, answer;
    } cases[] = {{-1, 1}, {1, 1}, {2, 2}, {3, 3}, {4, KB_XLA_API_MINOR}, {9, KB_XLA_API_MINOR}};
    for (size_t h = 0; h < 3; h++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            fake_frame f;
            const kb_xla_api *api = cases[i].theirs < 0 ? NULL : fake_api(cases[i].theirs);
            fake_frame_init(&f, api, KB_XLA_STAGE_EXECUTE);
            fake_ask_metadata(&f);
            CHECK_PTR(handlers[h](&f.frame), NULL);
            CHECK_INT(f.metadata.api_version.major_version, 0);
            CHECK_INT(f.metadata.api_version.minor_version, cases[i].answer);
            CHECK_INT(f.metadata.traits, 0);
            CHECK_INT(f.metadata.struct_size, KB_XLA_SIZE(kb_xla_metadata, traits));
            fake_frame_free(&f);
        }
}

/* Extensions that we do not know are passed over, before a question and in a call. */
static void test_other_extensions(void)
{
    fake_frame f;
    frame_for(&f, KB_XLA_STAGE_EXECUTE);
    kb_xla_extension second = {.struct_size = sizeof second, .type = 99};
    kb_xla_extension first = {.struct_size = sizeof first, .type = 77, .next = &second};
    f.frame.extension_start = &first;
    expect(kb_handler_host_execute(&f.frame), KB_NOT_FOUND, "not registered");
    expect(kb_handler_host_instantiate(&f.frame), KB_NOT_FOUND, "not registered");
    fake_ask_metadata(&f);
    second.next = f.frame.extension_start;
    f.frame.extension_start = &first;
    CHECK_PTR(kb_handler_host_execute(&f.frame), NULL);
    CHECK_INT(f.metadata.api_version.minor_version, 3);
    fake_frame_free(&f);
}

static void add_twice(void)
{
    kb_error err;
    bool inserted;
    kb_registry *registry = &kb_handler_registry;
    CHECK_PTR(&kb_handler_registry, registry);
    CHECK_INT(kb_registry_add(registry, &twice.kernel, &inserted, &err), KB_OK);
}

static void test_execute(void)
{
    float x[5] = {1, 2, 3, 4, 5}, out[5] = {0};
    const int64_t dims[] = {5}, batch_dims[] = {3, 1};
    fake_frame f;
    frame_for(&f, KB_XLA_STAGE_EXECUTE);
    kb_xla_buffer *arg = fake_arg(&f, KB_DTYPE_F32, x, 1, dims);
    fake_ret(&f, KB_DTYPE_F32, out, 1, dims);
    expect(kb_handler_host_instantiate(&f.frame), 0, NULL);
    expect(kb_handler_host_execute(&f.frame), 0, NULL);
    for (int i = 0; i < 5; i++)
        CHECK_INT(out[i], 2 * (i + 1));
    arg->dtype = KB_DTYPE_S32;
    expect(kb_handler_host_execute(&f.frame), KB_INVALID_ARGUMENT,
           "op1: input 0 (x) is int32, expected float32");
    fake_frame_free(&f);

    memset(out, 0, sizeof out);
    frame_for(&f, KB_XLA_STAGE_EXECUTE);
    sample_call(&f, &twice.kernel, 1, (const int64_t[]){1});
    fake_arg(&f, KB_DTYPE_F32, x, 2, batch_dims);
    fake_ret(&f, KB_DTYPE_F32, out, 2, batch_dims);
    expect(kb_handler_host_execute(&f.frame), 0, NULL);
    for (int i = 0; i < 5; i++)
        CHECK_INT(out[i], i < 3 ? 2 * (i + 1) : 0);
    fake_frame_free(&f);
}

static void test_failing_kernel(void)
{
    sample s;
    kb_error err;
    bool inserted;
    sample_init(&s, 2, sample_record);
    sample_recorder_reset(&s.kernel);
    recorder.fail_at = 0;
    recorder.status = 5;
    CHECK_INT(kb_registry_add(&kb_handler_registry, &s.kernel, &inserted, &err), KB_OK);
    fake_frame f;
    fake_frame_init(&f, fake_api(1), KB_XLA_STAGE_EXECUTE);
    sample_attrs(&f, &s.kernel);
    expect(kb_handler_host_execute(&f.frame), KB_INTERNAL, "op2: the kernel failed with status 5");
    expect(kb_handler_host_execute(&f.frame), 0, NULL);
    fake_frame_free(&f);
}

/* The call attribute in every wrong form; both handlers say so. */
static void test_damaged_call(void)
{
    const char text[] = "without its key";
    kb_xla_handler *const handlers[] = {kb_handler_host_instantiate, kb_handler_host_execute};
    for (size_t h = 0; h < 2; h++) {
        int64_t key = twice.kernel.key;
        fake_frame f;
        frame_for(&f, KB_XLA_STAGE_EXECUTE);
        fake_attr_remove(&f, "call");
        expect(handlers[h](&f.frame), KB_INVALID_ARGUMENT, text);
        fake_attr_array(&f, "call", KB_DTYPE_S64, 0, NULL, 0);
        expect(handlers[h](&f.frame), KB_INVALID_ARGUMENT, text);
        fake_attr_array(&f, "call", KB_DTYPE_U64, 1, &key, sizeof key);
        expect(handlers[h](&f.frame), KB_INVALID_ARGUMENT, text);
        fake_attr_array(&f, "call", KB_DTYPE_S32, 2, &key, sizeof key);
        expect(handlers[h](&f.frame), KB_INVALID_ARGUMENT, text);
        fake_attr_scalar(&f, "call", KB_DTYPE_S64, &key, sizeof key);
        expect(handlers[h](&f.frame), KB_INVALID_ARGUMENT, text);
        fake_attr_string(&f, "call", "call", 4);
        expect(handlers[h](&f.frame), KB_INVALID_ARGUMENT, text);
        fake_frame_free(&f);
        fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE); /* without any attribute */
        expect(handlers[h](&f.frame), KB_INVALID_ARGUMENT, h ? text : "without a digest");
        fake_frame_free(&f);
    }
}

/* A key that comes alone is found; what is missing is the digest. */
static void test_lone_key(void)
{
    const int64_t key = 12345;
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_attr_array(&f, "call", KB_DTYPE_S64, 1, &key, sizeof key);
    expect(kb_handler_host_execute(&f.frame), KB_INVALID_ARGUMENT, "without a digest");
    fake_frame_free(&f);
}

static void test_damaged_digest(void)
{
    const char text[] = "without a digest of 32 bytes";
    const size_t sizes[] = {0, 8, 31, 33};
    uint8_t digest[KB_DIGEST_SIZE + 1] = {0};
    memcpy(digest, twice.kernel.digest, KB_DIGEST_SIZE);
    fake_frame f;
    frame_for(&f, KB_XLA_STAGE_INSTANTIATE);
    fake_attr_remove(&f, "digest");
    expect(kb_handler_host_instantiate(&f.frame), KB_INVALID_ARGUMENT, text);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fake_attr_array(&f, "digest", KB_DTYPE_U8, sizes[i], digest, sizes[i]);
        expect(kb_handler_host_instantiate(&f.frame), KB_INVALID_ARGUMENT, text);
    }
    fake_attr_array(&f, "digest", KB_DTYPE_S8, KB_DIGEST_SIZE, digest, KB_DIGEST_SIZE);
    expect(kb_handler_host_instantiate(&f.frame), KB_INVALID_ARGUMENT, text);
    fake_attr_string(&f, "digest", (const char *)digest, KB_DIGEST_SIZE);
    expect(kb_handler_host_instantiate(&f.frame), KB_INVALID_ARGUMENT, text);
    fake_frame_free(&f);
}

/* A message that leaves the core has one code: its own, or that of its status. */
static void test_codes(void)
{
    static const struct {
        kb_status status;
        const char *message, *expected;
    } cases[] = {
        {KB_NOT_FOUND, "no kernel", "no kernel [KB5107]"},
        {KB_INVALID_ARGUMENT, "damaged\nhere", "damaged [KB5107]\nhere"},
        {KB_FAILED_PRECONDITION, "refused", "refused [KB5107]"},
        {KB_RESOURCE_EXHAUSTED, "no memory", "no memory [KB3009]"},
        {KB_INTERNAL, "the driver failed", "the driver failed [KB3004]"},
        {KB_UNIMPLEMENTED, "not here", "not here"},
        {KB_INTERNAL, "f: no [KB3005]", "f: no [KB3005]"},
    };
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kb_error err;
        (void)kb_error_set(&err, cases[i].status, "%s", cases[i].message);
        kb_xla_error *error = kb_handler_fail(&f.frame, &err);
        if (CHECK(error != NULL)) {
            CHECK_TEXT(error->message, cases[i].expected);
            CHECK_INT(error->code, cases[i].status);
        }
        fake_error_destroy(error);
    }
    fake_frame_free(&f);
}

/* The line that says where a code is explained stands wherever it fits: fake_xla looks for it. */
static void test_room_for_the_way(void)
{
    static const char text[] = "a fault [KB3004] ";
    fake_frame f;
    frame_for(&f, KB_XLA_STAGE_EXECUTE);
    for (size_t length = KB_ERROR_CAPACITY - 50; length < KB_ERROR_CAPACITY; length++) {
        kb_error err = {.status = KB_INTERNAL};
        memset(err.message, 'x', length);
        memcpy(err.message, text, sizeof text - 1);
        err.message[length] = '\0';
        expect(kb_handler_fail(&f.frame, &err), KB_INTERNAL, text);
        CHECK(strlen(err.message) < KB_ERROR_CAPACITY);
    }
    fake_frame_free(&f);
}

int main(void)
{
    sample_init(&twice, 1, twice_entry);
    sample_input(&twice, KB_DTYPE_F32, 1, "x");
    sample_output(&twice, KB_DTYPE_F32, 1, "out");
    test_no_table();
    test_before_anything();
    test_metadata();
    test_short_structures();
    test_short_question();
    test_other_extensions();
    add_twice();
    test_execute();
    test_failing_kernel();
    test_damaged_call();
    test_lone_key();
    test_damaged_digest();
    test_codes();
    test_room_for_the_way();
    return kb_test_end("test_handler");
}
