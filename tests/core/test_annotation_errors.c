/* Proves that whatever an annotation gets wrong is told: where, what, and what to write instead. */
#include "scanned.h"

#define T "const BE::Tensor a, BE::Tensor o"

static void test_grammar(void)
{
    CHECK_REFUSED("", "a.cu: no function is annotated; write before each that is to be called what "
                      "it takes, for example\n    // @BE add arg:f32[n] arg:f32[n] ret:f32[n]");
    CHECK_REFUSED("\n // @BE", "a.cu:2:5: @BE names no function");
    CHECK_REFUSED("// @BE int ret", "a.cu:1:8: 'int' is no name of a function");
    CHECK_REFUSED("// @BE f arg out ret",
                  "a.cu:1:14: Invalid arg_spec token 'out'; expected arg, ret, stream");
    CHECK_REFUSED("// @BE f x", "a.cu:1:10: Invalid arg_spec token 'x'; expected arg, ret, stream");
    CHECK_REFUSED("// @BE f ret x",
                  "a.cu:1:14: Invalid arg_spec token 'x'; expected arg, ret, stream");
    CHECK_REFUSED("// @BE f ret attr.",
                  "Invalid arg_spec token 'attr.': '' is not a valid name for an attribute");
    CHECK_REFUSED("// @BE f ret attrs.",
                  "Invalid arg_spec token 'attrs.': '' is not a valid name for an attribute");
    CHECK_REFUSED("// @BE f ret attr", "Invalid arg_spec token 'attr'; expected arg, ret, stream");
    CHECK_REFUSED("// @BE f ret attrs",
                  "Invalid arg_spec token 'attrs'; expected arg, ret, stream");
    CHECK_REFUSED("// @BE f ret \\x", "a.cu:1:14: Invalid arg_spec token '\\x'; expected arg");
    CHECK_REFUSED("// @BE f ret attr.:int8",
                  "Invalid arg_spec token 'attr.:int8': '' is not a valid name for an attribute");
    CHECK_REFUSED("// @BE f ret attr.x:", "'' is no type of an attribute; expected one of bool");
    CHECK_REFUSED("// @BE f ret attr.x:int", "'int' is no type of an attribute");
    CHECK_REFUSED("// @BE f ret stream stream", "a.cu:1:21: stream is there twice");
    CHECK_REFUSED("// @BE f ret attr.x:int8 attr.x:int8", "a.cu:1:26: attribute x is there twice");
    CHECK_REFUSED("// @BE f attr.x:int8 attr.x:int8 ret", "attribute x is there twice");
    CHECK_REFUSED("// @BE f arg", "f has no result");
    CHECK_REFUSED("// @BE f ret\n// @BE f ret", "a.cu:2:8: f is annotated twice, in lines 1 and 2");
}

/* Which of several is there twice, among others before and behind it. */
static void test_twice(void)
{
    static const char names[][2] = {"g", "f", "a", "f", "h"};
    CHECK_REFUSED(
        "// @BE g ret\n// @BE f ret\n// @BE a ret\n// @BE f arg ret\n// @BE h ret",
        "a.cu:4:8: f is annotated twice, in lines 2 and 4; remove one\n// @BE f arg ret\n       ^");
    CHECK_REFUSED("// @BE h ret\n// @BE h ret\n// @BE a ret",
                  "a.cu:2:8: h is annotated twice, in lines 1 and 2; remove one\n");
    kb_given given[5];
    scanned s;
    for (int i = 0; i < 5; i++)
        given[i] = (kb_given){.name = kb_text_of(names[i]), .tokens = kb_text_of("arg ret")};
    s.status = kb_scan_functions(scanned_copy(&s, ""), kb_text_of("a.cu"), given, 5, false, &s.scan,
                                 &s.err);
    CHECK_INT(s.status, KB_INVALID_ARGUMENT);
    CHECK_TEXT(scanned_tell(&s), "functions['f']: f is there twice; list it once");
    scanned_free(&s);
    s.status = kb_scan_functions(scanned_copy(&s, ""), kb_text_of("a.cu"), given + 1, 2, false,
                                 &s.scan, &s.err);
    CHECK_TEXT(scanned_tell(&s), "f arg ret; a arg ret");
    scanned_free(&s);
}

static void test_agreement(void)
{
    CHECK_REFUSED("// @BE f attr.c:int32 attr.a:int32 arg ret\nvoid f(int32_t a, int32_t b, " T
                  ");",
                  "'a' is parameter 1: write the tokens in the order of the parameters");
    CHECK_REFUSED("// @BE f\nvoid f(int k);", "f: it has no tensor");
    CHECK_REFUSED("// @BE f\nvoid f(const Tensor a);",
                  "f: it has no result: all its tensors are const");
    CHECK_REFUSED("// @BE f\nvoid f(" T ", float);",
                  "a.cu:2:42: f: parameter 3 is an attribute, so it needs a name");
    CHECK_REFUSED("// @BE f\nvoid f(" T ", CUstream s, CUstream t);",
                  "parameter 4 't' is a second stream");
    CHECK_REFUSED("// @BE f arg ret attr.n\nvoid f(" T ");",
                  "f: the annotation describes 3 parameters, and C++ has 2 (const BE::Tensor a, "
                  "BE::Tensor o): attr.n not found in signature; if a macro generates the name or "
                  "the parameters of a function, write them out");
    CHECK_REFUSED("// @BE f ret arg\nvoid f(" T ");",
                  "a.cu:1:10: f: parameter 1 'a' is `const BE::Tensor`, and the annotation says "
                  "`ret`: a result must not be const");
    CHECK_REFUSED(
        "// @BE f ret\nvoid f(const float *p);",
        "a.cu:1:10: f: parameter 1 'p' is `const float *`, and the annotation says `ret`: a "
        "result must not be const\n");
    CHECK_SCAN("// @BE f ret arg\nvoid f(const int k, const Tensor a);", "::f ret:k arg:a");
    CHECK_REFUSED("// @BE f arg ret attr.l attr.k\nvoid f(" T ", int k, int l);",
                  "a.cu:1:18: f: parameter 3 'k' is `attr.l` in the annotation, and 'l' is "
                  "parameter 4: write the tokens in the order of the parameters");
    CHECK_REFUSED("// @BE f arg ret attr.l:int32 attr.k:int32\nvoid f(" T ", int k, int l);",
                  "parameter 3 'k' is `attr.l:int32` in the annotation, and 'l' is parameter 4");
    CHECK_REFUSED("// @BE f arg ret attr.n\nvoid f(" T ", int k);",
                  "a.cu:1:18: f: parameter 3 'k' is `attr.n` in the annotation: attr.n not found "
                  "in signature; write attr.k, or attr.n:TYPE to give it another name, TYPE one "
                  "of bool");
    CHECK_REFUSED("// @BE f ret attr.k\nint f(const kb_call *);",
                  "f takes a kb_call, so the type of");
}

/* The first attribute that no parameter is named like is told, wherever the others are. */
static void test_missing_attribute(void)
{
    CHECK_REFUSED("// @BE f attr.k arg ret attr.z\nvoid f(int k, " T ");",
                  "(int k, const BE::Tensor a, BE::Tensor o): attr.z not found in signature; if a");
    CHECK_REFUSED("// @BE f arg ret attr.k attr.z\nvoid f(" T ", int k);",
                  "(const BE::Tensor a, BE::Tensor o, int k): attr.z not found in signature; if a");
    CHECK_REFUSED("// @BE f attr.y attr.k arg ret attr.z\nvoid f(int k, " T ");",
                  "BE::Tensor o): attr.y not found in signature; if a macro");
    CHECK_REFUSED("// @BE f attr.k arg ret\nvoid f(int k, " T ", int z);",
                  "(int k, const BE::Tensor a, BE::Tensor o, int z); if a macro generates");
}

/* As many tokens as there may be, and one more. */
static void test_many_tokens(void)
{
    for (int n = KB_ANNOTATION_TOKENS; n <= KB_ANNOTATION_TOKENS + 1; n++) {
        static char source[8 * KB_ANNOTATION_TOKENS];
        scanned s;
        size_t size = (size_t)snprintf(source, sizeof source, "// @BE f ret");
        for (int i = 1; i < n; i++)
            size += (size_t)snprintf(source + size, sizeof source - size, " arg");
        scanned_begin(&s, source);
        if (n > KB_ANNOTATION_TOKENS)
            CHECK_HAS(scanned_tell(&s), "a.cu:1:8: f has more than 1024 parameters\n");
        else if (CHECK_INT(s.status, KB_OK))
            CHECK_INT(s.scan.functions[0].n_parameters, n);
        scanned_free(&s);
    }
}

/* The line is shown as it is, tabs and all, cut where it is long; the caret stands below. */
static void test_carets(void)
{
    scanned s;
    char source[1200], expected[1300];
    scanned_begin(&s, "int \xc3\xbc;\n\tint x; // @BE f arg out\r\n");
    CHECK_HAS(scanned_tell(&s), "a.cu:2:22: Invalid arg_spec token 'out'; expected");
    CHECK_HAS(scanned_tell(&s), "arg:f32[n]\n\tint x; // @BE f arg out\n\t                    ^");
    scanned_free(&s);

    memset(source, 'x', 500);
    snprintf(source + 500, 700, ";// @BE f arg out %0500d", 0);
    scanned_begin(&s, source);
    snprintf(expected, sizeof expected, "\n...%.*s;// @BE f arg out %076d...\n%*s^", 80 - 14,
             source, 0, 3 + 80, "");
    CHECK_HAS(scanned_tell(&s), expected);
    CHECK(strstr(scanned_tell(&s), "a.cu:1:515: Invalid arg_spec token 'out'") != NULL);
    scanned_free(&s);

    snprintf(source, sizeof source, "%85s // @BE f arg out %0200d", ";", 0); /* before its end */
    scanned_begin(&s, source);
    CHECK_HAS(scanned_tell(&s), "\n...     ");
    scanned_free(&s);

    snprintf(source, sizeof source, "%60s // @BE f arg out %0200d", ";", 0);
    scanned_begin(&s, source);
    CHECK_HAS(scanned_tell(&s), "\n          ");
    CHECK(strstr(scanned_tell(&s), "\n...") == NULL);
    scanned_free(&s);

    /* a line that there is just room for, and a longer one */
    for (int more = 0; more < 2; more++) {
        snprintf(source, sizeof source, "%*s // @BE f arg out", 160 - 17 + more, ";");
        scanned_begin(&s, source);
        snprintf(expected, sizeof expected, "\n%s", more ? "... " : source);
        CHECK_HAS(scanned_tell(&s), expected);
        scanned_free(&s);
    }
}

/* Names as long as they like: the message stays within its room, and has its caret. */
static void test_long(void)
{
    enum { SIZE = 100000 };
    char *source = malloc(3 * SIZE + 256);
    if (!source)
        abort();
    size_t n = (size_t)sprintf(source, "// @BE f arg ret attr.k");
    memset(source + n, 'k', SIZE);
    n += SIZE;
    n += (size_t)sprintf(source + n, ":int8\nvoid f(" T ", int, A");
    memset(source + n, 'a', SIZE);
    n += SIZE;
    n += (size_t)sprintf(source + n, " *k");
    memset(source + n, 'p', SIZE);
    sprintf(source + n + SIZE, ");");
    CHECK_REFUSED(source, "\na.cu:2:");
    free(source);
}

static void test_bytes(void)
{
    kb_scan scan;
    kb_error err;
    CHECK_INT(
        kb_scan_functions((kb_text){"a\0b", 3}, kb_text_of("a.cu"), NULL, 0, false, &scan, &err),
        KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "a.cu:1:2: a NUL byte is no part of a source");
    char *big = malloc(KB_TEXT_LIMIT + 1);
    if (!big)
        return;
    memset(big, ' ', KB_TEXT_LIMIT + 1);
    CHECK_INT(kb_scan_functions((kb_text){big, KB_TEXT_LIMIT + 1}, kb_text_of("a.cu"), NULL, 0,
                                false, &scan, &err),
              KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "at most 16777216 bytes");
    memcpy(big, "// @BE f ret\n", 13);
    CHECK_INT(kb_scan_functions((kb_text){big, KB_TEXT_LIMIT}, kb_text_of("a.cu"), NULL, 0, false,
                                &scan, &err),
              KB_OK);
    kb_scan_free(&scan);
    free(big);
}

static void test_given(void)
{
    kb_given given = {.name = kb_text_of("f"), .tokens = kb_text_of("ret ret attr.k:int8")};
    scanned s;
    s.status = kb_scan_functions(scanned_copy(&s, "\nvoid f(" T ", float k);"), kb_text_of("a.cu"),
                                 &given, 1, false, &s.scan, &s.err);
    CHECK_TEXT(scanned_tell(&s),
               "functions['f'] token 1: f: parameter 1 'a' is `const BE::Tensor`, "
               "and the annotation says `ret`: a result must not be const\n"
               "a.cu:2:8: declared here\nvoid f(" T ", float k);\n"
               "       ^");
    scanned_free(&s);
    s.status = kb_scan_functions(scanned_copy(&s, ""), kb_text_of("a.cu"), &given, 0, false,
                                 &s.scan, &s.err);
    CHECK_TEXT(scanned_tell(&s), "functions: expected 1 to 4096 of them, got 0");
    scanned_free(&s);
}

/* As many functions as there may be, and one more: annotated, and given. */
static void test_many(void)
{
    enum { LINE = 24, MANY = KB_SCAN_FUNCTIONS };
    char *source = calloc(MANY + 2, LINE), (*names)[LINE] = calloc(MANY + 1, LINE);
    kb_given *given = calloc(MANY + 1, sizeof *given);
    if (!source || !names || !given)
        abort();
    size_t n = 0;
    for (uint32_t i = 0; i <= MANY; i++) {
        scanned s;
        snprintf(names[i], LINE, "f%u", i);
        given[i] = (kb_given){.name = kb_text_of(names[i]), .tokens = kb_text_of("arg ret")};
        n += (size_t)snprintf(source + n, LINE, "// @BE %s arg ret\n", names[i]);
        if (i + 1 < MANY)
            continue;
        bool fits = i < MANY;
        scanned_begin(&s, source);
        if (CHECK_INT(s.status, fits ? KB_OK : KB_INVALID_ARGUMENT) && !fits)
            CHECK_HAS(s.err.message, "a.cu:4097:4: a source annotates at most 4096 functions");
        scanned_free(&s);
        s.status = kb_scan_functions(scanned_copy(&s, ""), kb_text_of("a.cu"), given, i + 1, false,
                                     &s.scan, &s.err);
        if (CHECK_INT(s.status, fits ? KB_OK : KB_INVALID_ARGUMENT) && !fits)
            CHECK_TEXT(s.err.message, "functions: expected 1 to 4096 of them, got 4097");
        scanned_free(&s);
    }
    free(source);
    free(names);
    free(given);
}

int main(void)
{
    test_grammar();
    test_twice();
    test_agreement();
    test_missing_attribute();
    test_many_tokens();
    test_carets();
    test_long();
    test_bytes();
    test_given();
    test_many();
    return kb_test_end("test_annotation_errors");
}
