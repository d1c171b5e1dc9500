/* Proves that every element type of the list is found by its code alone, with NumPy's width and
 * name, and that every other number is refused. */
#include "core/kb_dtype.h"
#include "kb_test.h"

#include <stdlib.h>

static const struct {
    int32_t code;
    uint32_t bits;
    const char *name;
} list[] = {
#define ROW(NAME, code, bits, name, OURS, dlpack, pjrt) {KB_DTYPE_##NAME, bits, name},
    KB_DTYPE_LIST(ROW)
#undef ROW
};

enum { N = sizeof list / sizeof *list };

static void test_each_once(void)
{
    CHECK_INT(N, 31);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < i; j++) {
            CHECK(list[i].code != list[j].code);
            CHECK(strcmp(list[i].name, list[j].name) != 0);
        }
}

static void test_known(void)
{
    for (int i = 0; i < N; i++) {
        CHECK(kb_dtype_known(list[i].code));
        CHECK_INT(kb_dtype_bits(list[i].code), list[i].bits);
        CHECK_TEXT(kb_dtype_name(list[i].code), list[i].name);
    }
}

/* A second source for the widths: the digits in NumPy's names. A bool is a byte, and a complex
 * number counts both parts. */
static void test_widths_follow_names(void)
{
    for (int i = 0; i < N; i++) {
        const char *digits = strpbrk(list[i].name, "0123456789");
        if (digits)
            CHECK_INT(list[i].bits, strtol(digits, NULL, 10));
    }
    CHECK_INT(kb_dtype_bits(KB_DTYPE_PRED), 8);
    CHECK_INT(kb_dtype_bits(KB_DTYPE_TOKEN), 0);
    CHECK_TEXT(kb_dtype_name(11), "float32");
    CHECK_INT(kb_dtype_bits(12), 64);
}

static void test_unknown(void)
{
    int known = 0;
    for (int32_t code = -300; code < 300; code++)
        known += kb_dtype_known(code);
    CHECK_INT(known, N);
    const int32_t unknown[] = {0,         13,       14,  34,      63,
                               64,        65,       255, 256,     -1,
                               -11,       -64,      75,  1 << 20, 11 + (1 << 16),
                               INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        CHECK(!kb_dtype_known(unknown[i]));
        CHECK_INT(kb_dtype_bits(unknown[i]), 0);
        CHECK_TEXT(kb_dtype_name(unknown[i]), "unknown dtype");
    }
}

int main(void)
{
    test_each_once();
    test_known();
    test_widths_follow_names();
    test_unknown();
    return kb_test_end("test_dtype");
}
