/* Proves that messages are formatted, appended and cut without leaving their buffer, and that every
 * status has its name and XLA's number. */
#include "core/kb_error.h"
#include "kb_test.h"

static void test_set(void)
{
    kb_error err;
    CHECK_INT(kb_error_set(&err, KB_NOT_FOUND, "no %s, %d of %llu", "kernel", -3, 7ull),
              KB_NOT_FOUND);
    CHECK_INT(err.status, KB_NOT_FOUND);
    CHECK_TEXT(err.message, "no kernel, -3 of 7");
    kb_error_set(&err, KB_INTERNAL, "%s", "");
    CHECK_INT(err.status, KB_INTERNAL);
    CHECK_TEXT(err.message, "");
}

static void test_append(void)
{
    kb_error err;
    kb_error_set(&err, KB_INVALID_ARGUMENT, "a");
    kb_error_append(&err, "%d", 12);
    kb_error_append(&err, "%s", "");
    kb_error_append(&err, " [%s]", "end");
    CHECK_TEXT(err.message, "a12 [end]");
    CHECK_INT(err.status, KB_INVALID_ARGUMENT);
}

static void test_code(void)
{
    kb_error err;
    kb_error_set(&err, KB_INTERNAL, "a kernel failed");
    CHECK_INT(kb_error_code(&err, "KB3001"), KB_INTERNAL);
    CHECK_TEXT(err.message, "a kernel failed [KB3001]");
    CHECK_INT(kb_error_code(&err, "KB3002"), KB_INTERNAL);
    CHECK_TEXT(err.message, "a kernel failed [KB3001]");
    kb_error_set(&err, KB_INTERNAL, "two\nlines");
    kb_error_code(&err, "KB3001");
    CHECK_TEXT(err.message, "two [KB3001]\nlines");
    for (size_t length = KB_ERROR_CAPACITY - 12; length < KB_ERROR_CAPACITY; length++) {
        memset(err.message, 'x', length);
        err.message[length] = '\0';
        kb_error_code(&err, "KB3001");
        CHECK(strlen(err.message) < KB_ERROR_CAPACITY);
        CHECK_TEXT(strchr(err.message, ' '), " [KB3001]");
    }
}

static void test_note(void)
{
    const struct {
        const char *before, *after;
    } cases[] = {
        {"failed", "failed [slice 2]"},
        {"failed [KB3001]", "failed [slice 2] [KB3001]"},
        {"failed [KB3001]\n  line", "failed [slice 2] [KB3001]\n  line"},
        {"failed\n  line [KB3001]", "failed [slice 2]\n  line [KB3001]"},
        {"too short", "too short [slice 2]"},
        {" [KB3001]", " [slice 2] [KB3001]"},
        {"", " [slice 2]"},
    };
    kb_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kb_error_set(&err, KB_INTERNAL, "%s", cases[i].before);
        kb_error_note(&err, " [slice %d]", 2);
        CHECK_TEXT(err.message, cases[i].after);
        CHECK_INT(err.status, KB_INTERNAL);
    }
    const size_t room = strlen(" [slice 2]");
    for (size_t length = KB_ERROR_CAPACITY - 1; length > KB_ERROR_CAPACITY - 20; length--) {
        memset(err.message, 'x', length);
        err.message[length] = '\0';
        kb_error_note(&err, " [slice %d]", 2);
        bool fits = length + room < KB_ERROR_CAPACITY;
        CHECK_INT(strlen(err.message), fits ? length + room : length);
    }
}

/* The error lies between guards: a byte too many changes one. */
struct guarded {
    kb_error err;
    char after[64];
};

static void fill(char *text, size_t length)
{
    memset(text, 'x', length);
    text[length] = '\0';
}

static void test_truncation(void)
{
    static struct guarded g;
    static char text[3 * KB_ERROR_CAPACITY];
    const int lengths[] = {KB_ERROR_CAPACITY - 2, KB_ERROR_CAPACITY - 1, KB_ERROR_CAPACITY,
                           KB_ERROR_CAPACITY + 1, 2 * KB_ERROR_CAPACITY};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int length = lengths[i], kept = length < KB_ERROR_CAPACITY ? length : KB_ERROR_CAPACITY - 1;
        memset(&g, '#', sizeof g);
        fill(text, (size_t)length);
        kb_error_set(&g.err, KB_INTERNAL, "%s", text);
        CHECK_INT(strlen(g.err.message), kept);
        CHECK(memchr(g.after, 'x', sizeof g.after) == NULL && g.after[0] == '#');
    }
}

static void test_append_to_the_brim(void)
{
    static struct guarded g;
    static char text[KB_ERROR_CAPACITY];
    for (int room = 0; room < 5; room++) {
        memset(&g, '#', sizeof g);
        fill(text, (size_t)(KB_ERROR_CAPACITY - 1 - room));
        kb_error_set(&g.err, KB_INTERNAL, "%s", text);
        kb_error_append(&g.err, "%s", "abc");
        kb_error_append(&g.err, "%s", "d");
        CHECK_INT(strlen(g.err.message), KB_ERROR_CAPACITY - 1 - room + (room < 4 ? room : 4));
        CHECK_INT(strncmp(g.err.message + KB_ERROR_CAPACITY - 1 - room, "abcd", (size_t)room), 0);
        CHECK_INT(g.after[0], '#');
    }
}

/* A message that was cut inside a character loses the half; a whole one stays. */
static void test_cut_characters(void)
{
    static const char *const characters[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t width = 1; width <= 4; width++) {
        for (size_t before = 0; before < 4; before++) {
            char text[2 * KB_ERROR_CAPACITY] = "";
            memset(text, 'a', before);
            for (size_t at = before; at + width < sizeof text; at += width)
                memcpy(text + at, characters[width - 1], width);
            kb_error err;
            kb_error_set(&err, KB_INTERNAL, "%s", text);
            size_t room = KB_ERROR_CAPACITY - 1 - before;
            CHECK_INT(strlen(kb_error_text(&err)), before + room / width * width);
            kb_error_set(&err, KB_INTERNAL, "%s", characters[width - 1]);
            CHECK_TEXT(kb_error_text(&err), characters[width - 1]);
        }
    }
    kb_error err;
    kb_error_set(&err, KB_INTERNAL, "%s", "");
    CHECK_TEXT(kb_error_text(&err), "");
}

int main(void)
{
    test_cut_characters();
    test_set();
    test_append();
    test_code();
    test_note();
    test_truncation();
    test_append_to_the_brim();
    return kb_test_end("test_error");
}
