/* Proves that values of exceptions are written as Python writes them, that a text is cut where its
 * room ends, and that what could not be made is taken for what it is. */
#include "core/kb_boxed.h"
#include "core/kb_memory.h"
#include "kb_test.h"

#include <float.h>
#include <math.h>

static void check(kb_boxed *value, const char *str, const char *repr)
{
    char text[200];
    memset(text, '#', sizeof text);
    kb_boxed_write(value, 's', text, sizeof text);
    CHECK_TEXT(text, str);
    memset(text, '#', sizeof text);
    kb_boxed_write(value, 'r', text, sizeof text);
    CHECK_TEXT(text, repr);
    for (size_t room = 1; room <= strlen(repr) + 1; room++) {
        char *cut = text + sizeof text - room; /* AddressSanitizer sees what is behind it */
        memset(text, '#', sizeof text);
        kb_boxed_write(value, 'r', cut, room);
        CHECK_INT(strlen(cut), (long long)room - 1);
        CHECK_INT(memcmp(cut, repr, room - 1), 0);
        CHECK_INT(cut[-1], '#');
    }
    kb_boxed_free(value);
}

static void check_real(double value, const char *text)
{
    check(kb_boxed_float(value), text, text);
}

static void test_numbers(void)
{
    check(kb_boxed_signed(-9223372036854775807 - 1), "-9223372036854775808",
          "-9223372036854775808");
    check(kb_boxed_unsigned(18446744073709551615u), "18446744073709551615", "18446744073709551615");
    check(kb_boxed_bool(1), "True", "True");
    check(kb_boxed_bool(0), "False", "False");
    check_real(0, "0.0");
    check_real(-0.0, "-0.0");
    check_real(1, "1.0");
    check_real(-2.5, "-2.5");
    check_real(12, "12.0");
    check_real(1.25, "1.25");
    check_real(123.5, "123.5");
    check_real(-1e-4, "-0.0001");
    check_real(0.00012345, "0.00012345");
    check_real(0.000099, "9.9e-05");
    check_real(0.3 - 0.1, "0.19999999999999998");
    check_real(0.1 + 0.2, "0.30000000000000004");
    check_real(1e22, "1e+22");
    check_real(-1.5e300, "-1.5e+300");
    check_real(9999999999999998.0, "9999999999999998.0");
    check_real(0.1, "0.1");
    check_real(100, "100.0");
    check_real(1.0 / 3, "0.3333333333333333");
    check_real(0.0001, "0.0001");
    check_real(0.00001, "1e-05");
    check_real(123456789012345680.0, "1.2345678901234568e+17");
    check_real(1e15, "1000000000000000.0");
    check_real(1e16, "1e+16");
    check_real(9007199254740993.0, "9007199254740992.0");
    check_real(DBL_MAX, "1.7976931348623157e+308");
    check_real(5e-324, "5e-324");
    check_real((double)0.1F, "0.10000000149011612");
    check_real(INFINITY, "inf");
    check_real(-INFINITY, "-inf");
    check_real(NAN, "nan");
}

static void test_texts(void)
{
    const uint8_t plain[] = "it's \n\t\x7f\xe9";
    check(kb_boxed_text(1, plain, sizeof plain - 1), "it's \n\t\x7f\xc3\xa9",
          "\"it's \\n\\t\\x7f\xc3\xa9\"");
    const uint8_t both[] = "'\"\\";
    check(kb_boxed_text(1, both, 3), "'\"\\", "'\\'\"\\\\'");
    const uint16_t euro[] = {0x20ac, 0, 0xdce9};
    check(kb_boxed_text(2, euro, 3), "\xe2\x82\xac\\x00\\udce9", "'\xe2\x82\xac\\x00\\udce9'");
    const uint32_t face[] = {0x1f600};
    check(kb_boxed_text(4, face, 1), "\xf0\x9f\x98\x80", "'\xf0\x9f\x98\x80'");
    check(kb_boxed_text(1, NULL, 0), "", "''");
    CHECK_PTR(kb_boxed_text(1, NULL, -1), NULL);
}

/* Characters at the ends of what is written alike. */
static void test_characters(void)
{
    static const struct {
        uint32_t c;
        const char *str, *repr;
    } cases[] = {
        {0x00, "\\x00", "'\\x00'"},
        {0x1f, "\x1f", "'\\x1f'"},
        {'\r', "\r", "'\\r'"},
        {' ', " ", "' '"},
        {'~', "~", "'~'"},
        {0x7f, "\x7f", "'\\x7f'"},
        {0x80, "\xc2\x80", "'\\x80'"},
        {0xa0, "\xc2\xa0", "'\\xa0'"},
        {0xa1, "\xc2\xa1", "'\xc2\xa1'"},
        {0xac, "\xc2\xac", "'\xc2\xac'"},
        {0xad, "\xc2\xad", "'\\xad'"},
        {0xae, "\xc2\xae", "'\xc2\xae'"},
        {0xff, "\xc3\xbf", "'\xc3\xbf'"},
        {0x7ff, "\xdf\xbf", "'\xdf\xbf'"},
        {0x401, "\xd0\x81", "'\xd0\x81'"},
        {0x800, "\xe0\xa0\x80", "'\xe0\xa0\x80'"},
        {0xd7ff, "\xed\x9f\xbf", "'\xed\x9f\xbf'"},
        {0xd800, "\\ud800", "'\\ud800'"},
        {0xdfff, "\\udfff", "'\\udfff'"},
        {0xe000, "\xee\x80\x80", "'\xee\x80\x80'"},
        {0xffff, "\xef\xbf\xbf", "'\xef\xbf\xbf'"},
        {0x10000, "\xf0\x90\x80\x80", "'\xf0\x90\x80\x80'"},
        {0x43042, "\xf1\x83\x81\x82", "'\xf1\x83\x81\x82'"},
        {0x84083, "\xf2\x84\x82\x83", "'\xf2\x84\x82\x83'"},
        {0xfffff, "\xf3\xbf\xbf\xbf", "'\xf3\xbf\xbf\xbf'"},
        {0x10ffff, "\xf4\x8f\xbf\xbf", "'\xf4\x8f\xbf\xbf'"},
        {'"', "\"", "'\"'"},
        {'\'', "'", "\"'\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(kb_boxed_text(4, &cases[i].c, 1), cases[i].str, cases[i].repr);
}

/* What Numba's code links to and needs no result of. */
static void test_left_out(void)
{
    kb_boxed *value = kb_boxed_signed(5);
    CHECK_INT(kb_boxed_hash(value), 0);
    kb_boxed_ignore(value, "text");
    check(value, "5", "5");
}

static void check_item(const kb_boxed *item, const char *repr)
{
    char text[32];
    kb_boxed_write(item, 'r', text, sizeof text);
    CHECK_TEXT(text, repr);
}

static void test_tuples(void)
{
    const uint8_t a[] = "a";
    kb_boxed *pair = kb_boxed_tuple(2);
    CHECK_INT(kb_boxed_set(pair, 0, kb_boxed_signed(5)), 0);
    CHECK_INT(kb_boxed_set(pair, 1, kb_boxed_text(1, a, 1)), 0);
    CHECK_INT(kb_boxed_set(pair, 2, kb_boxed_signed(6)), -1); /* and the value is released */
    CHECK_INT(kb_boxed_set(pair, -1, kb_boxed_signed(6)), -1);
    CHECK_INT(kb_boxed_set(NULL, 0, kb_boxed_signed(6)), -1);
    kb_boxed *all = kb_boxed_pack(2, pair, kb_boxed_pack(1, kb_boxed_float(2)));
    CHECK_PTR(kb_boxed_item(all, 0), pair);
    CHECK_PTR(kb_boxed_item(all, 2), NULL);
    CHECK_PTR(kb_boxed_item(NULL, 0), NULL);
    CHECK_PTR(kb_boxed_item(kb_boxed_item(pair, 0), 0), NULL);
    const kb_boxed *text = kb_boxed_item(pair, 1); /* of one character, and no item */
    check_item(text, "'a'");
    CHECK_PTR(kb_boxed_item(text, 0), NULL);
    check(all, "((5, 'a'), (2.0,))", "((5, 'a'), (2.0,))");
    check(kb_boxed_tuple(0), "()", "()");
    CHECK_PTR(kb_boxed_tuple(-1), NULL);
}

static void test_no_memory(void)
{
    char text[8];
    for (long n = 1; n <= 2; n++) {
        kb_memory_fail_nth(n);
        CHECK_PTR(kb_boxed_text(1, "a", 1), NULL);
        kb_memory_fail_nth(n);
        CHECK_PTR(kb_boxed_pack(1, NULL), NULL);
    }
    kb_memory_fail_nth(0);
    kb_boxed_write(NULL, 'r', text, sizeof text);
    CHECK_TEXT(text, "?");
    kb_boxed_free(NULL);
    kb_memory_fail_nth(2);
    kb_boxed_free(kb_boxed_pack(1, kb_boxed_signed(1))); /* the value is not lost */
    kb_memory_fail_nth(0);
}

int main(void)
{
    test_numbers();
    test_texts();
    test_characters();
    test_left_out();
    test_tuples();
    test_no_memory();
    return kb_test_end("test_boxed");
}
