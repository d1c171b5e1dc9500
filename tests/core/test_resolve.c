/* Proves how instantiation finds a kernel: by all of its digest, and, where this process has not
 * registered it, through the resolver, which is asked once and only then. */
#include "core/kb_handler.h"
#include "kb_test.h"
#include "sample.h"

static struct {
    int calls;
    uint8_t digest[KB_DIGEST_SIZE];
    char origin[32];
} asked;

static sample offered;

static void note(const uint8_t *digest, kb_xla_bytes origin)
{
    asked.calls++;
    memcpy(asked.digest, digest, KB_DIGEST_SIZE);
    memcpy(asked.origin, origin.data, origin.size);
    asked.origin[origin.size] = '\0';
}

static kb_status registers(const uint8_t *digest, kb_xla_bytes origin, kb_error *err)
{
    bool inserted;
    note(digest, origin);
    return kb_registry_add(&kb_handler_registry, &offered.kernel, &inserted, err);
}

static kb_status fails(const uint8_t *digest, kb_xla_bytes origin, kb_error *err)
{
    note(digest, origin);
    return kb_error_set(err, KB_FAILED_PRECONDITION, "no module of that name");
}

static kb_status forgets(const uint8_t *digest, kb_xla_bytes origin, kb_error *err)
{
    (void)err;
    note(digest, origin);
    return KB_OK;
}

/* Instantiates a call of kernel `id`; returns the error's code, 0 for none. */
static int32_t instantiate(const kb_kernel *kernel, bool with_origin, const char *text)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_INSTANTIATE);
    sample_attrs(&f, kernel);
    if (!with_origin)
        fake_attr_remove(&f, "origin");
    asked.calls = 0;
    kb_xla_error *error = kb_handler_host_instantiate(&f.frame);
    int32_t code = error ? error->code : 0;
    if (error)
        CHECK_HAS(error->message, text);
    fake_error_destroy(error);
    CHECK_INT(fake_errors_alive(), 0);
    fake_frame_free(&f);
    return code;
}

static void test_without_resolver(void)
{
    sample s;
    sample_init(&s, 1, sample_record);
    kb_handler_resolve = NULL;
    CHECK_INT(instantiate(&s.kernel, true, "not registered in this process"), KB_NOT_FOUND);
}

static void test_without_origin(void)
{
    sample s;
    sample_init(&s, 1, sample_record);
    kb_handler_resolve = registers;
    CHECK_INT(instantiate(&s.kernel, false, "not registered in this process"), KB_NOT_FOUND);
    CHECK_INT(asked.calls, 0);
}

/* An origin of no bytes is none; any other is asked for as it is. */
static void test_short_origins(void)
{
    sample s;
    sample_init(&s, 10, sample_record);
    kb_handler_resolve = fails;
    for (size_t size = 0; size < 3; size++) {
        fake_frame f;
        fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_INSTANTIATE);
        sample_attrs(&f, &s.kernel);
        fake_attr_string(&f, "origin", "ab", size);
        asked.calls = 0;
        kb_xla_error *error = kb_handler_host_instantiate(&f.frame);
        if (CHECK(error != NULL))
            CHECK_HAS(error->message,
                      size ? "no module of that name" : "not registered in this process");
        CHECK_INT(asked.calls, size > 0);
        if (size)
            CHECK_INT(strlen(asked.origin), (long long)size);
        fake_error_destroy(error);
        fake_frame_free(&f);
    }
}

static void test_resolver_registers(void)
{
    sample_init(&offered, 2, sample_record);
    kb_handler_resolve = registers;
    CHECK_INT(instantiate(&offered.kernel, true, ""), 0);
    CHECK_INT(asked.calls, 1);
    CHECK_INT(memcmp(asked.digest, offered.kernel.digest, KB_DIGEST_SIZE), 0);
    CHECK_TEXT(asked.origin, "module:op");
    CHECK_INT(instantiate(&offered.kernel, true, ""), 0);
    CHECK_INT(instantiate(&offered.kernel, false, ""), 0);
    CHECK_INT(asked.calls, 0);
}

static void test_resolver_fails(void)
{
    sample s;
    sample_init(&s, 3, sample_record);
    kb_handler_resolve = fails;
    CHECK_INT(instantiate(&s.kernel, true, "no module of that name"), KB_FAILED_PRECONDITION);
    CHECK_INT(asked.calls, 1);
}

/* A resolver that registers another kernel, or none, is not believed. */
static void test_resolver_lies(void)
{
    sample s;
    sample_init(&s, 4, sample_record);
    sample_init(&offered, 5, sample_record);
    kb_handler_resolve = registers;
    CHECK_INT(instantiate(&s.kernel, true, "no kernel with the key"), KB_NOT_FOUND);
    kb_handler_resolve = forgets;
    CHECK_INT(instantiate(&s.kernel, true, "no kernel with the key"), KB_NOT_FOUND);
    CHECK_INT(asked.calls, 1);
}

static void test_collision(void)
{
    sample s;
    kb_error err;
    bool inserted;
    sample_init(&s, 6, sample_record);
    CHECK_INT(kb_registry_add(&kb_handler_registry, &s.kernel, &inserted, &err), KB_OK);
    s.kernel.digest[31] ^= 1;
    kb_handler_resolve = registers;
    CHECK_INT(instantiate(&s.kernel, true, "but another digest"), KB_ALREADY_EXISTS);
    CHECK_INT(asked.calls, 0);

    sample_init(&s, 7, sample_record); /* and a resolver that offers a collision */
    sample_init(&offered, 7, sample_record);
    offered.kernel.digest[20] ^= 1;
    CHECK_INT(instantiate(&s.kernel, true, "but another digest"), KB_ALREADY_EXISTS);
    CHECK_INT(asked.calls, 1);
}

/* The key of one kernel with the digest of another. */
static void test_key_of_another(void)
{
    sample s, other;
    kb_error err;
    bool inserted;
    sample_init(&s, 8, sample_record);
    sample_init(&other, 9, sample_record);
    CHECK_INT(kb_registry_add(&kb_handler_registry, &s.kernel, &inserted, &err), KB_OK);
    CHECK_INT(kb_registry_add(&kb_handler_registry, &other.kernel, &inserted, &err), KB_OK);
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_INSTANTIATE);
    sample_attrs(&f, &s.kernel);
    sample_call(&f, &other.kernel, 0, NULL);
    kb_xla_error *error = kb_handler_host_instantiate(&f.frame);
    if (CHECK(error != NULL)) {
        CHECK_INT(error->code, KB_INVALID_ARGUMENT);
        CHECK_HAS(error->message, "does not belong to its digest");
    }
    fake_error_destroy(error);
    fake_frame_free(&f);
}

int main(void)
{
    test_without_resolver();
    test_without_origin();
    test_short_origins();
    test_resolver_registers();
    test_resolver_fails();
    test_resolver_lies();
    test_collision();
    test_key_of_another();
    return kb_test_end("test_resolve");
}
