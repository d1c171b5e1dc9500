/* Proves that what the macros of a source make is bounded in memory, whatever the source, and that
 * macros are expanded as before within these bounds. */
#include "core/kb_arena.h"
#include "scanned.h"

enum { PARAMETERS = 128, MEBIBYTE = 1 << 20 };

/* A macro of 128 parameters, called `n_calls` times without arguments, in 4 bytes each; or, with
 * `body`, with one token made by every call. */
static char *many_calls(size_t n_calls, const char *body)
{
    size_t room = PARAMETERS * 8 + n_calls * 4 + 256, n = 0;
    char *text = malloc(room);
    if (!text)
        abort();
    n += (size_t)snprintf(text + n, room - n, "#define F(p0");
    for (int i = 1; i < PARAMETERS; i++)
        n += (size_t)snprintf(text + n, room - n, ",p%d", i);
    n += (size_t)snprintf(text + n, room - n, ") %s\n", body);
    for (size_t i = 0; i < n_calls; i++)
        n += (size_t)snprintf(text + n, room - n, "F() ");
    (void)snprintf(text + n, room - n,
                   "\n// @BE f arg ret\nvoid f(BE::Tensor x, BE::Tensor y) {}\n");
    return text;
}

static void check_bounded(const char *body)
{
    char *text = many_calls(75000, body); /* 293 KiB */
    scanned s;
    scanned_begin(&s, text);
    if (CHECK_INT(s.status, KB_OK)) {
        CHECK(kb_arena_bytes(s.scan.arena) < (size_t)64 * MEBIBYTE);
        CHECK_HAS(scanned_tell(&s), "f arg");
    }
    scanned_free(&s);
    free(text);
}

/* A few calls of it are expanded whole. */
static void test_within_bounds(void)
{
    char *text = many_calls(3, "");
    scanned s;
    scanned_begin(&s, text);
    CHECK_HAS(scanned_tell(&s), "f arg");
    scanned_free(&s);
    free(text);
    CHECK_SCAN("#define PAIR(T, a, b) T a, T b\n"
               "// @BE f arg ret\n"
               "void f(PAIR(BE::Tensor, x, y)) {}\n",
               "::f arg:x ret:y");
}

/* A macro's name within what it makes is a name like others, also where it is written as an
 * argument of a macro that is called afterwards. */
static void test_painted(void)
{
    CHECK_SCAN("#define ID(x) x\n#define f ID(f)\n// @BE f\n"
               "void f(const BE::Tensor x, BE::Tensor y) {}\n",
               "::f arg:x ret:y");
    CHECK_SCAN("#define ID(x) x\n#define x ID(x)\n// @BE f\n"
               "void f(const BE::Tensor ID(x), BE::Tensor y) {}\n",
               "::f arg:x ret:y");
}

/* A call that nothing closes is no call, and neither is any behind it: each is looked for once. */
static void test_unclosed(void)
{
    CHECK_REFUSED("#define F(x) x\n// @BE f\nF(;\n"
                  "void f(const BE::Tensor x, BE::Tensor y, float F(a));\n",
                  "f: parameter 3 is `float F(a)`");
}

int main(void)
{
    test_painted();
    test_unclosed();
    check_bounded("");
    check_bounded(";");
    test_within_bounds();
    return kb_test_end("test_expand");
}
