/* Proves that attributes are found by their whole name and type, and no others. */
#include "core/kb_attrs.h"
#include "kb_test.h"
#include "sample.h"

static void test_find(void)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_INSTANTIATE);
    const kb_xla_attrs *attrs = &f.frame.attrs;
    CHECK_PTR(KB_ATTRS_FIND(attrs, "key", KB_XLA_ATTR_SCALAR), NULL); /* names is NULL */

    int64_t value = 7;
    kb_xla_array *array = fake_attr_array(&f, "keys", KB_DTYPE_S64, 1, &value, sizeof value);
    kb_xla_scalar *scalar = fake_attr_scalar(&f, "key", KB_DTYPE_S64, &value, sizeof value);
    kb_xla_bytes *string = fake_attr_string(&f, "ke", "text", 4);
    kb_xla_bytes *nameless = fake_attr_string(&f, "", "", 0);
    CHECK_INT(attrs->size, 4);
    CHECK_PTR(KB_ATTRS_FIND(attrs, "key", KB_XLA_ATTR_SCALAR), scalar);
    CHECK_PTR(KB_ATTRS_FIND(attrs, "keys", KB_XLA_ATTR_ARRAY), array);
    CHECK_PTR(KB_ATTRS_FIND(attrs, "ke", KB_XLA_ATTR_STRING), string);
    CHECK_PTR(KB_ATTRS_FIND(attrs, "", KB_XLA_ATTR_STRING), nameless);

    CHECK_PTR(KB_ATTRS_FIND(attrs, "k", KB_XLA_ATTR_SCALAR), NULL);
    CHECK_PTR(KB_ATTRS_FIND(attrs, "keyss", KB_XLA_ATTR_ARRAY), NULL);
    CHECK_PTR(KB_ATTRS_FIND(attrs, "Key", KB_XLA_ATTR_SCALAR), NULL);
    CHECK_PTR(KB_ATTRS_FIND(attrs, "key\0", KB_XLA_ATTR_SCALAR), NULL);
    fake_frame_free(&f);
}

static void test_type(void)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_INSTANTIATE);
    int value = 0;
    for (int32_t type = 0; type < 6; type++) {
        fake_attr(&f, "a", type, &value);
        for (int32_t wanted = 0; wanted < 6; wanted++)
            CHECK_PTR(KB_ATTRS_FIND(&f.frame.attrs, "a", wanted), wanted == type ? &value : NULL);
    }
    CHECK_INT(f.frame.attrs.size, 1); /* the fake replaced it each time */
    fake_frame_free(&f);
}

/* Names are spans: the one in the frame has no NUL behind it, which AddressSanitizer watches. */
static void test_spans(void)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_INSTANTIATE);
    kb_xla_bytes *origin = fake_attr_string(&f, "origin", "x", 1);
    for (size_t size = 0; size < 6; size++)
        CHECK_PTR(kb_attrs_find(&f.frame.attrs, "origin", size, KB_XLA_ATTR_STRING), NULL);
    CHECK_PTR(kb_attrs_find(&f.frame.attrs, "origin and more", 6, KB_XLA_ATTR_STRING), origin);
    fake_frame_free(&f);
}

int main(void)
{
    test_find();
    test_type();
    test_spans();
    return kb_test_end("test_attrs");
}
