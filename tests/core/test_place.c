/* Proves what a message shows of a source: the line and the column of a place, the part of a long
 * line that is around it, and a caret below, whatever characters the line has. Sources lie in
 * blocks of exactly their size. */
#include "kb_test.h"
#include "source/kb_place.h"

#include <stdlib.h>

enum { SHOWN = 160, BEFORE = 80, FILE_SHOWN = 240, MESSAGE_SHOWN = 1100 };

/* The whole message of an error at an offset of a source. */
static const char *told(const char *source, size_t at, const char *file, const char *message)
{
    static kb_error err;
    size_t size = strlen(source);
    char *block = malloc(size ? size : 1);
    kb_places places;
    if (!block)
        abort();
    memcpy(block, source, size);
    CHECK_INT(kb_places_begin(&places, (kb_text){block, size}, kb_text_of(file), &err), KB_OK);
    CHECK_INT(kb_place_error(&places, (uint32_t)at, &err, "%s", message), KB_INVALID_ARGUMENT);
    CHECK_INT(err.status, KB_INVALID_ARGUMENT);
    kb_places_free(&places);
    CHECK_PTR(places.lines, NULL);
    free(block);
    return err.message;
}

static const char *place(const char *source, size_t at)
{
    return told(source, at, "f", "m");
}

/* Writes `n` characters that tell one place from its neighbours, and their end. */
static char *put_line(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('A' + i * 7 % 53);
    text[n] = '\0';
    return text;
}

static void test_lines(void)
{
    static const char source[] = "ab\n\ncde\r\n\tf";
    static const struct {
        size_t at;
        const char *message;
    } cases[] = {
        {0, "f:1:1: m\nab\n^"},     {1, "f:1:2: m\nab\n ^"},     {2, "f:1:3: m\nab\n  ^"},
        {3, "f:2:1: m\n\n^"},       {4, "f:3:1: m\ncde\n^"},     {6, "f:3:3: m\ncde\n  ^"},
        {7, "f:3:4: m\ncde\n   ^"}, {8, "f:3:4: m\ncde\n   ^"},  {9, "f:4:1: m\n\tf\n^"},
        {10, "f:4:2: m\n\tf\n\t^"}, {11, "f:4:3: m\n\tf\n\t ^"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_TEXT(place(source, cases[i].at), cases[i].message);
    CHECK_TEXT(place("", 0), "f:1:1: m\n\n^");
    CHECK_TEXT(place("\nx", 0), "f:1:1: m\n\n^");
    CHECK_TEXT(place("\r", 1), "f:1:1: m\n\n^");
}

/* Each number of lines, each line. */
static void test_line_numbers(void)
{
    enum { MANY = 20 };
    char source[3 * MANY + 1];
    for (uint32_t n = 1; n <= MANY; n++) {
        kb_places places;
        kb_error err;
        strcpy(source + (size_t)3 * (n - 1), "ab\n");
        kb_text all = {source, 3 * n - 1}; /* the last has no end */
        CHECK_INT(kb_places_begin(&places, all, kb_text_of("f"), &err), KB_OK);
        CHECK_INT(places.n_lines, n);
        for (uint32_t at = 0; at <= all.size; at++)
            CHECK_INT(kb_place_line(&places, at), at / 3 + 1);
        kb_places_free(&places);
    }
}

/* Of a line that is longer than what is shown, what is around the caret. */
static void test_long_lines(void)
{
    static const size_t sizes[] = {SHOWN - 1, SHOWN, SHOWN + 1, SHOWN + 2, 2 * SHOWN};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (size_t caret = 0; caret <= sizes[k]; caret++) {
            const size_t size = sizes[k];
            char source[512], expected[512];
            strcpy(put_line(source, size) + size, "\nlast");
            size_t from = size > SHOWN && caret > BEFORE ? caret - BEFORE : 0;
            size_t end = size - from > SHOWN ? from + SHOWN : size;
            (void)snprintf(expected, sizeof expected, "f:1:%zu: m\n%s%.*s%s\n%*s^", caret + 1,
                           from ? "..." : "", (int)(end - from), source + from,
                           end < size ? "..." : "", (int)(caret - from + (from ? 3 : 0)), "");
            CHECK_TEXT(place(source, caret), expected);
        }
}

/* A column counts characters, and none is halved. */
static void test_characters(void)
{
    char line[512], expected[512], xs[256];
    memset(xs, 'x', sizeof xs);
    CHECK_TEXT(place("\xc3\xa9t\xe2\x82\xac = 1", 6), "f:1:4: m\n\xc3\xa9t\xe2\x82\xac = 1\n   ^");
    (void)snprintf(line, sizeof line, "\xc3\xa9%.*s", 200, xs);
    (void)snprintf(expected, sizeof expected, "f:1:81: m\n\xc3\xa9%.*s...\n%80s^", 158, xs, "");
    CHECK_TEXT(place(line, BEFORE + 1), expected); /* the part would begin in its midst */
    (void)snprintf(expected, sizeof expected, "f:1:82: m\n...%.*s...\n%83s^", 160, xs, "");
    CHECK_TEXT(place(line, BEFORE + 2), expected);
    for (size_t caret = BEFORE + 2; caret <= BEFORE + 4; caret++) {
        (void)snprintf(line, sizeof line, "ab\xe2\x82\xac%.*s", 200, xs);
        (void)snprintf(expected, sizeof expected, "f:1:%zu: m\n...\xe2\x82\xac%.*s...\n%*s^",
                       caret - 1, 157, xs, (int)(caret - 4 + 3), "");
        CHECK_TEXT(place(line, caret), expected);
    }
    (void)snprintf(line, sizeof line, "%.*s\xc3\xa9%.*s", 159, xs, 9, xs); /* nor does it end so */
    (void)snprintf(expected, sizeof expected, "f:1:1: m\n%.*s...\n^", 159, xs);
    CHECK_TEXT(place(line, 0), expected);
    memset(line, '\x80', 200); /* no character begins in such a line */
    line[200] = '\0';
    CHECK_HAS(place(line, 100), "f:1:1: m\n...\n^");
}

static void test_tabs(void)
{
    char line[256];
    memset(line, 'x', sizeof line - 1);
    line[255] = line[0] = '\0';
    line[0] = line[19] = line[20] = line[99] = line[100] = '\t';
    char expected[512];
    (void)snprintf(expected, sizeof expected, "f:1:101: m\n...%.*s...\n   \t%78s\t^", 160,
                   line + 20, "");
    CHECK_TEXT(place(line, 100), expected);
}

/* Names of files and messages are cut at a character. */
static void test_cut(void)
{
    static char text[MESSAGE_SHOWN + 64], expected[MESSAGE_SHOWN + 64];
    for (size_t size = FILE_SHOWN - 1; size <= FILE_SHOWN + 1; size++) {
        int shown = size < FILE_SHOWN ? FILE_SHOWN - 1 : FILE_SHOWN;
        put_line(text, size);
        (void)snprintf(expected, sizeof expected, "%.*s:1:1: m\nx\n^", shown, text);
        CHECK_TEXT(told("x", 0, text, "m"), expected);
    }
    for (size_t size = MESSAGE_SHOWN - 1; size <= MESSAGE_SHOWN + 20; size++) {
        int shown = size < MESSAGE_SHOWN ? MESSAGE_SHOWN - 1 : MESSAGE_SHOWN;
        put_line(text, size);
        (void)snprintf(expected, sizeof expected, "f:1:1: %.*s\nx\n^", shown, text);
        CHECK_TEXT(told("x", 0, "f", text), expected);
    }
    for (int more = 1; more <= 3; more++) { /* of a character of four bytes */
        strcpy(put_line(text, (size_t)(MESSAGE_SHOWN - more)) + MESSAGE_SHOWN - more,
               "\xf0\x9d\x84\x9ex");
        (void)snprintf(expected, sizeof expected, "f:1:1: %.*s\nx\n^", MESSAGE_SHOWN - more, text);
        CHECK_TEXT(told("x", 0, "f", text), expected);
    }
}

static void test_append(void)
{
    kb_places places;
    kb_error err;
    CHECK_INT(kb_places_begin(&places, kb_text_of("a\n bc\n"), kb_text_of("f.c"), &err), KB_OK);
    CHECK_INT(kb_place_error(&places, 0, &err, "no %d", 7), KB_INVALID_ARGUMENT);
    kb_place_append(&places, 3, &err, "declared here");
    CHECK_TEXT(err.message, "f.c:1:1: no 7\na\n^\nf.c:2:2: declared here\n bc\n ^");
    kb_places_free(&places);
}

int main(void)
{
    test_lines();
    test_line_numbers();
    test_long_lines();
    test_characters();
    test_tabs();
    test_cut();
    test_append();
    return kb_test_end("test_place");
}
