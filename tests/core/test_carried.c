/* Proves when the code that a call carries is loaded, when its origin is asked instead, and that
 * what the process was told to refuse is refused; and what the message says if neither works. */
#include "core/kb_handler.h"
#include "kb_test.h"
#include "sample.h"

static sample offered;
static int loads, resolves;
static kb_status load_status, resolve_status;

static kb_status offer(kb_status status, const char *text, kb_error *err)
{
    bool inserted;
    if (status == KB_OK)
        return kb_registry_add(&kb_handler_registry, &offered.kernel, &inserted, err);
    return kb_error_set(err, status, "%s", text);
}

static kb_status load(const void *bytes, size_t size, const uint8_t digest[KB_DIGEST_SIZE],
                      const void *local, bool *inserted, kb_error *err)
{
    CHECK_PTR(local, NULL);
    (void)digest, (void)inserted;
    CHECK(size == 4 && memcmp(bytes, "KBXX", size) == 0);
    loads++;
    return offer(load_status, "the code does not run", err);
}

static kb_status resolve(const uint8_t digest[KB_DIGEST_SIZE], kb_xla_bytes origin, kb_error *err)
{
    (void)digest, (void)origin;
    resolves++;
    return offer(resolve_status, "no module of that name", err);
}

typedef struct expected {
    int32_t code;
    int loads, resolves;
    const char *text;
} expected;

static kb_xla_handler *stage = kb_handler_host_instantiate;

/* Instantiates a call of a kernel that nobody has seen yet, or executes it. */
static void instantiate(bool with_origin, bool with_program, expected e)
{
    static uint64_t id = 100;
    fake_frame f;
    const uint8_t program[] = {'K', 'B', 'X', 'X'};
    sample_init(&offered, id++, sample_record);
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_INSTANTIATE);
    sample_attrs(&f, &offered.kernel);
    if (!with_origin)
        fake_attr_remove(&f, "origin");
    if (with_program)
        fake_attr_array(&f, "program", KB_DTYPE_U8, sizeof program, program, sizeof program);
    sample_recorder_reset(&offered.kernel);
    loads = resolves = 0;
    kb_xla_error *error = stage(&f.frame);
    CHECK_INT(error ? error->code : 0, e.code);
    CHECK_INT(loads, e.loads);
    CHECK_INT(resolves, e.resolves);
    if (error)
        CHECK_HAS(error->message, e.text);
    fake_error_destroy(error);
    fake_frame_free(&f);
}

static void test_run(void)
{
    load_status = resolve_status = KB_OK;
    instantiate(true, true, (expected){0, 1, 0, ""});
    instantiate(false, true, (expected){0, 1, 0, ""});
    instantiate(true, false, (expected){0, 0, 1, ""});
    instantiate(false, false, (expected){KB_NOT_FOUND, 0, 0, "not registered in this process"});
}

static void test_code_that_does_not_run(void)
{
    load_status = KB_FAILED_PRECONDITION, resolve_status = KB_OK;
    instantiate(true, true, (expected){0, 1, 1, ""});
    instantiate(false, true, (expected){load_status, 1, 0, "the code does not run"});
    resolve_status = KB_NOT_FOUND;
    instantiate(true, true,
                (expected){load_status, 1, 1,
                           "the code does not run. Nor can the kernel be compiled again: no module "
                           "of that name"});
    load_status = KB_INVALID_ARGUMENT, resolve_status = KB_OK; /* damage is told */
    instantiate(true, true, (expected){load_status, 1, 0, "the code does not run"});
    load_status = KB_NOT_FOUND; /* it is no code for this loader */
    instantiate(true, true, (expected){0, 1, 1, ""});
}

static void test_recompile(void)
{
    kb_handler_carried_code = KB_CARRIED_RECOMPILE;
    load_status = resolve_status = KB_OK;
    instantiate(true, true, (expected){0, 0, 1, ""});
    instantiate(true, false, (expected){0, 0, 1, ""});
    instantiate(false, true,
                (expected){KB_FAILED_PRECONDITION, 0, 0, "set_exported_code(\"recompile\")"});
    resolve_status = KB_NOT_FOUND;
    instantiate(true, true, (expected){KB_NOT_FOUND, 0, 1, "no module of that name"});
}

static void test_refuse(void)
{
    kb_handler_carried_code = KB_CARRIED_REFUSE;
    load_status = resolve_status = KB_OK;
    for (int origin = 0; origin < 2; origin++)
        instantiate(origin, true,
                    (expected){KB_FAILED_PRECONDITION, 0, 0, "set_exported_code(\"refuse\")"});
    instantiate(true, false, (expected){0, 0, 1, ""}); /* it carries no code */
    kb_handler_carried_code = KB_CARRIED_RUN;
}

int main(void)
{
    const kb_handler_format formats[] = {
        {"KBYX", NULL}, {"KBXX", load}, {"KBXX", NULL}, {NULL, NULL}};
    kb_handler_formats = formats;
    kb_handler_resolve = resolve;
    test_run();
    test_code_that_does_not_run();
    test_recompile();
    test_refuse();
    stage = kb_handler_host_execute; /* of a program that XLA loaded without instantiating it */
    test_run();
    test_refuse();
    return kb_test_end("test_carried");
}
