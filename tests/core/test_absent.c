/* Proves that a call without a kernel fails with the text that it carries. */
#include "core/kb_handler.h"

#include "core/kb_error.h"
#include "kb_test.h"
#include "sample.h"

static void expect(fake_frame *f, int32_t code, const char *text)
{
    kb_xla_error *error = kb_absent_execute(&f->frame);
    if (CHECK(error != NULL)) {
        CHECK_INT(error->code, code);
        CHECK_TEXT(error->message, text);
    }
    fake_error_destroy(error);
}

static void test_message(void)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_attr_string(&f, "message", "no kernel here, and more", strlen("no kernel here"));
    expect(&f, KB_UNIMPLEMENTED, "no kernel here");
    fake_frame_free(&f);
}

static void test_a_long_message_is_cut(void)
{
    static char text[3 * KB_ERROR_CAPACITY];
    memset(text, 'x', sizeof text);
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_attr_string(&f, "message", text, sizeof text);
    text[KB_ERROR_CAPACITY - 1] = '\0';
    kb_xla_error *error = kb_absent_execute(&f.frame);
    if (CHECK(error != NULL))
        CHECK_HAS(error->message, "xxxx");
    fake_error_destroy(error);
    fake_frame_free(&f);
}

static void test_without_a_message(void)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    static const char text[] = "a kernbridge call that has no kernel on this platform, and no "
                               "message: the program is damaged [KB5107]";
    expect(&f, KB_INVALID_ARGUMENT, text);
    int64_t number = 1;
    fake_attr_scalar(&f, "message", 1, &number, sizeof number);
    expect(&f, KB_INVALID_ARGUMENT, text);
    f.frame.attrs.struct_size -= 1;
    kb_xla_error *error = kb_absent_execute(&f.frame);
    if (CHECK(error != NULL))
        CHECK_HAS(error->message, "XLA's list of attributes has 47 bytes, expected 48 or more");
    fake_error_destroy(error);
    fake_frame_free(&f);
}

static void test_metadata(void)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_ask_metadata(&f);
    CHECK_PTR(kb_absent_execute(&f.frame), NULL);
    CHECK_INT(f.metadata.traits, 0);
    fake_frame_free(&f);
}

int main(void)
{
    test_message();
    test_a_long_message_is_cut();
    test_without_a_message();
    test_metadata();
    return kb_test_end("test_absent");
}
