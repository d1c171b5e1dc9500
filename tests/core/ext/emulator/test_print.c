/* Proves what a kernel's print writes: each conversion, arguments at multiples of their sizes, and
 * what becomes of long texts, and of conversions that are longer than there is room for. */
#include "ext/emulator/kb_thread.h"
#include "kb_test.h"

#include <stdio.h>
#include <stdlib.h>

enum { LONG = 4096, SPEC_MAX = 32, ROOM = 3 * LONG };

/* What it writes; it must convert so many arguments. */
static const char *printed(const char *format, const void *arguments, int n_converted)
{
    static char text[ROOM];
    FILE *kept = stdout, *file = tmpfile();
    if (!file)
        abort();
    stdout = file;
    int n = kb_print(format, arguments);
    stdout = kept;
    rewind(file);
    size_t size = fread(text, 1, sizeof text - 1, file);
    text[size] = '\0';
    CHECK_INT(strlen(text), size); /* no NUL among it */
    (void)fclose(file);
    CHECK_INT(n, n_converted);
    return text;
}

static void test_conversions(void)
{
    const struct {
        int64_t wide;
        double real;
        const char *text;
        int32_t small;
        uint32_t letter;
    } mixed = {-5, 1.5, "end", -7, 'x'};
    CHECK_TEXT(printed("%lld %08.3f%% [%6s] %d %c\n", &mixed, 5), "-5 0001.500% [   end] -7 x\n");
    const int32_t integers[] = {-1, -2, 255, 8, -9};
    CHECK_TEXT(printed("%u %i %x %o %hd", integers, 5), "4294967295 -2 ff 10 -9");
    const int64_t wide[] = {-1, INT64_MAX, 255, -4};
    CHECK_TEXT(printed("%lu %zd %#llX %jd", wide, 4),
               "18446744073709551615 9223372036854775807 0XFF -4");
    const double reals[] = {0.5, 1e6, 2};
    CHECK_TEXT(printed("%e|%g|%-5.1fx", reals, 3), "5.000000e-01|1e+06|2.0  x");
    const struct {
        int32_t first;
        int64_t second; /* behind four bytes that nobody reads */
    } apart = {1, 2};
    CHECK_TEXT(printed("%d%ld", &apart, 2), "12");
    const void *pointer = NULL;
    CHECK_TEXT(printed("%p", &pointer, 1), "(nil)");
}

/* The rest of a format that is none is left out. */
static void test_no_conversions(void)
{
    CHECK_TEXT(printed("", NULL, 0), "");
    CHECK_TEXT(printed("100%%, %%d", NULL, 0), "100%, %d");
    CHECK_TEXT(printed("a%", NULL, 0), "a");
    CHECK_TEXT(printed("a%5", NULL, 0), "a");
    CHECK_TEXT(printed("a%l", NULL, 0), "a");
    CHECK_TEXT(printed("a%qb", NULL, 0), "a");
    CHECK_TEXT(printed("a%nb", NULL, 0), "a");
}

static void test_long_texts(void)
{
    char text[LONG + 8], format[LONG + 8];
    for (size_t n = LONG - 3; n < LONG + 3; n++) {
        const char *argument = text;
        memset(text, 'x', n);
        text[n] = '\0';
        CHECK_TEXT(printed(text, NULL, 0), text);
        CHECK_TEXT(printed("%s", &argument, 1), text);
        memcpy(format, text, n);
        memcpy(format + n, "%s", 3);
        CHECK_INT(strlen(printed(format, &argument, 1)), 2 * n);
    }
}

/* Of flags, width and precision as many characters count as there is room for. */
static void test_long_conversions(void)
{
    const int32_t number = 5;
    for (size_t n = SPEC_MAX - 2; n < SPEC_MAX + 8; n++) {
        char format[2 * SPEC_MAX] = "%";
        memset(format + 1, '0', n - 2);
        memcpy(format + n - 1, "8d", 3);
        CHECK_TEXT(printed(format, &number, 1), n < SPEC_MAX ? "00000005" : "5");
    }
}

/* The last character that counts is the width's first digit: of 84, the 4 does not. */
static void test_last_character(void)
{
    const int32_t number = 5;
    char format[SPEC_MAX + 3] = "%";
    memset(format + 1, '0', SPEC_MAX - 3);
    memcpy(format + SPEC_MAX - 2, "84d", 4);
    CHECK_TEXT(printed(format, &number, 1), "00000005");
    char shorter[SPEC_MAX + 2] = "%"; /* both digits have room */
    memset(shorter + 1, '0', SPEC_MAX - 4);
    memcpy(shorter + SPEC_MAX - 3, "12d", 4);
    CHECK_TEXT(printed(shorter, &number, 1), "000000000005");
}

int main(void)
{
    test_conversions();
    test_no_conversions();
    test_long_texts();
    test_long_conversions();
    test_last_character();
    return kb_test_end("test_print");
}
