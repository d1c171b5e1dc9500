/* Proves that text of any bytes leaves as UTF-8: what is a character is told by an own table of
 * ranges, over all sequences of two bytes that begin above ASCII and many of three and four; what
 * does not fit is cut between characters. */
#include "core/kb_error.h"
#include "kb_test.h"

#include <stdint.h>
#include <stdlib.h>

/* Well-formed sequences, as the Unicode standard lists them (table 3-7). */
static const struct {
    size_t width;
    unsigned char low[4], high[4];
} forms[] = {
    {1, {0x00}, {0x7F}},
    {2, {0xC2, 0x80}, {0xDF, 0xBF}},
    {3, {0xE0, 0xA0, 0x80}, {0xE0, 0xBF, 0xBF}},
    {3, {0xE1, 0x80, 0x80}, {0xEC, 0xBF, 0xBF}},
    {3, {0xED, 0x80, 0x80}, {0xED, 0x9F, 0xBF}},
    {3, {0xEE, 0x80, 0x80}, {0xEF, 0xBF, 0xBF}},
    {4, {0xF0, 0x90, 0x80, 0x80}, {0xF0, 0xBF, 0xBF, 0xBF}},
    {4, {0xF1, 0x80, 0x80, 0x80}, {0xF3, 0xBF, 0xBF, 0xBF}},
    {4, {0xF4, 0x80, 0x80, 0x80}, {0xF4, 0x8F, 0xBF, 0xBF}},
};

static size_t width_by_table(const unsigned char *text, size_t size)
{
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        size_t i = 0;
        while (i < forms[f].width && i < size && text[i] >= forms[f].low[i] &&
               text[i] <= forms[f].high[i])
            i++;
        if (i == forms[f].width)
            return i;
    }
    return 0;
}

static void check_width(const unsigned char *text, size_t size)
{
    size_t got = kb_utf8_width((const char *)text, size), want = width_by_table(text, size);
    if (got != want)
        CHECK_INT(got, (long long)want);
}

static void test_width(void)
{
    static const unsigned char edges[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0,
                                          0xBF, 0xC0, 0xC2, 0xE0, 0xF0, 0xFF};
    const size_t n_edges = sizeof edges;
    for (unsigned pair = 0x7F00; pair < 1u << 16; pair++)
        for (size_t last = 0; last < n_edges * n_edges; last++) {
            const unsigned char text[] = {(unsigned char)(pair >> 8), (unsigned char)pair,
                                          edges[last / n_edges], edges[last % n_edges]};
            check_width(text, 1 + last % 4);
            check_width(text, 4);
        }
    CHECK_INT(kb_utf8_width("", 0), 0);
}

static void check_escape(const char *text, size_t size, const char *want)
{
    char to[64];
    CHECK_INT(kb_utf8_escape(to, sizeof to, text, size), (long long)strlen(want));
    CHECK_TEXT(to, want);
}

static void test_escape(void)
{
    check_escape("", 0, "");
    check_escape("plain\ttext\n", 11, "plain\ttext\n");
    check_escape("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 14,
                 "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    check_escape("caf\xe9!", 5, "caf\\xe9!");
    check_escape("\xff\xfe", 2, "\\xff\\xfe");
    check_escape("a\0b", 3, "a\\x00b");
    check_escape("\xed\xa0\x80", 3, "\\xed\\xa0\\x80");
    check_escape("\xe2\x82", 2, "\\xe2\\x82");
    check_escape("\xe2\x82(", 3, "\\xe2\\x82(");
    check_escape("a\xe2\x82\xac", 3, "a\\xe2\\x82"); /* its third byte is not ours */
}

/* Random bytes into rooms of every size: the result is whole characters, and as long as it can
 * be. */
static void test_cut(void)
{
    srand(7);
    for (int round = 0; round < 3000; round++) {
        static const unsigned char likely[] = {'a',  0,    0xC3, 0xA9, 0xE2, 0x82,
                                               0xAC, 0xF0, 0x9F, 0x98, 0x80};
        unsigned char text[24];
        char whole[128], cut[128];
        size_t size = (size_t)rand() % sizeof text;
        for (size_t i = 0; i < size; i++)
            text[i] = rand() % 8 ? likely[(size_t)rand() % sizeof likely] : (unsigned char)rand();
        size_t length = kb_utf8_escape(whole, sizeof whole, (const char *)text, size);
        CHECK_INT(strlen(whole), (long long)length);
        for (size_t capacity = 1; capacity <= length + 1; capacity++) {
            memset(cut, '#', sizeof cut);
            size_t n = kb_utf8_escape(cut, capacity, (const char *)text, size);
            bool good = n < capacity && cut[n] == '\0' && cut[capacity] == '#' &&
                        memcmp(cut, whole, n) == 0 &&
                        n + 4 >= (capacity <= length ? capacity : length);
            for (size_t i = 0; good && i < n; i += kb_utf8_width(cut + i, n - i))
                good = kb_utf8_width(cut + i, n - i) > 0;
            if (!good)
                CHECK_TEXT(cut, whole);
        }
    }
}

static void test_whole(void)
{
    static const char *const characters[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t width = 1; width <= 4; width++) {
        char text[8] = "abc";
        memcpy(text + 3, characters[width - 1], width);
        for (size_t size = 3; size < 3 + width; size++)
            CHECK_INT(kb_utf8_whole(text, size), 3);
        CHECK_INT(kb_utf8_whole(text, 3 + width), (long long)(3 + width));
        CHECK_INT(kb_utf8_whole(text + 3, width), (long long)width);
        CHECK_INT(kb_utf8_whole(text + 3, width - 1), 0);
    }
    CHECK_INT(kb_utf8_whole("\x80\x80\x80\x80", 4), 4);
    CHECK_INT(kb_utf8_whole("\xff", 1), 1);
}

/* What a kernel says of its failure, whatever the bytes. */
static void test_messages(void)
{
    kb_error err;
    kb_error_set(&err, KB_INTERNAL, "op: %s", "caf\xe9");
    kb_error_append(&err, " [%s]", "\xc3\xa9\xc3");
    CHECK_TEXT(kb_error_text(&err), "op: caf\\xe9 [\xc3\xa9\\xc3]");
    CHECK_TEXT(kb_error_text(&err), "op: caf\\xe9 [\xc3\xa9\\xc3]");
    char text[2 * KB_ERROR_CAPACITY];
    memset(text, 0xE9, sizeof text);
    text[sizeof text - 1] = '\0';
    kb_error_set(&err, KB_INTERNAL, "%s", text);
    CHECK_INT(strlen(kb_error_text(&err)), (KB_ERROR_CAPACITY - 1) / 4 * 4);
    CHECK_INT(memcmp(err.message, "\\xe9\\xe9", 8), 0);
}

int main(void)
{
    test_width();
    test_escape();
    test_cut();
    test_whole();
    test_messages();
    return kb_test_end("test_utf8");
}
