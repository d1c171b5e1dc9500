/* Proves how a source is cut into tokens: each of its kind, at its place, and nothing of what a
 * comment, a literal or a condition hides. Sources lie in blocks of exactly their size. */
#include "kb_test.h"
#include "source/kb_lexer.h"

#include <stdlib.h>

/* "w:int n:1 m:( " and so on; a blank before a token is an underscore. */
static const char *cut(const char *source, bool annotations)
{
    static char text[2048];
    size_t size = strlen(source), n = 0;
    char *block = malloc(size ? size : 1);
    kb_lexed lexed;
    kb_error err;
    if (!block)
        abort();
    memcpy(block, source, size);
    CHECK_INT(kb_lex((kb_text){block, size}, &lexed, &err), KB_OK);
    const kb_tokens *tokens = annotations ? &lexed.annotations : &lexed.tokens;
    text[0] = '\0';
    for (size_t i = 0; i < tokens->n; i++) {
        const kb_token *t = &tokens->at[i];
        CHECK_PTR(t->text, block + t->at);
        CHECK(t->at + t->size <= size);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%.*s", i ? t->blank ? "_" : " " : "",
                              annotations ? ""
                                          : (const char *const[]){"w", "n", "s", "c", "m"}[t->kind],
                              (int)t->size, t->text);
    }
    kb_lexed_free(&lexed);
    free(block);
    return text;
}

static void test_tokens(void)
{
    CHECK_TEXT(cut("", false), "");
    CHECK_TEXT(cut("int x=1;", false), "wint_wx m= n1 m;");
    CHECK_TEXT(cut("a::b->c...d##e", false), "wa m:: wb m-> wc m. m. m. wd m# m# we");
    CHECK_TEXT(cut("a>>b>=c>d<<e<=f", false), "wa m> m> wb m>= wc m> wd m<< we m<= wf");
    CHECK_TEXT(cut("&&& ||| !==", false), "m&& m&_m|| m|_m!= m=");
    CHECK_TEXT(cut(":-> >& &| |= =! =< =>", false), "m: m->_m> m&_m& m|_m| m=_m= m!_m= m<_m= m>");
    CHECK_TEXT(cut("$x _y \xc3\xa9t\xc3\xa9", false), "w$x_w_y_w\xc3\xa9t\xc3\xa9");
    CHECK_TEXT(cut("a\\\nb \\ \r\n c", false), "wa_wb_wc");
    CHECK_TEXT(cut("\\ x", false), "m\\_wx");
    CHECK_TEXT(cut("@`", false), "m@ m`");
}

static void test_numbers(void)
{
    CHECK_TEXT(cut("1 1.5e+3 .5f 0x1p-3 1'000'000u 1e", false),
               "n1_n1.5e m+ n3_n.5f_n0x1p m- n3_n1'000'000u_n1e");
    CHECK_TEXT(cut("1+2 1'", false), "n1 m+ n2_n1 c'");
    CHECK_TEXT(cut("a.b 1..2", false), "wa m. wb_n1..2");
    CHECK_TEXT(cut("1'0 1'a;", false), "n1'0_n1'a m;");
}

static void test_literals(void)
{
    CHECK_TEXT(cut("\"a//b\" \"\\\"\" ''", false), "s\"a//b\"_s\"\\\"\"_c''");
    CHECK_TEXT(cut("u8\"x\" L'x' xR\"(a)\"", false), "su8\"x\"_cL'x'_wxR s\"(a)\"");
    CHECK_TEXT(cut("u8\"a(b\" x L\"(\" x", false), "su8\"a(b\"_wx_sL\"(\"_wx");
    CHECK_TEXT(cut("R\"(a)b\"c)\" x", false), "sR\"(a)b\"c)\"_wx");
    CHECK_TEXT(cut("u8R\"d(a)\" )x\" )d\" x", false), "su8R\"d(a)\" )x\" )d\"_wx");
    CHECK_TEXT(cut("R\"(\n\"\n)\"x", false), "sR\"(\n\"\n)\" wx");
    CHECK_TEXT(cut("R\"1234567890123456()\"a)1234567890123456\"b", false),
               "sR\"1234567890123456()\"a)1234567890123456\" wb");
    CHECK_TEXT(cut("R\"12345678901234567()12345678901234567\"b", false),
               "sR\"12345678901234567()12345678901234567\" wb");
    CHECK_TEXT(cut("R\"12345678901234567()\"a)12345678901234567\"b", false),
               "sR\"12345678901234567()\" wa m) n12345678901234567 s\"b");
    CHECK_TEXT(cut("\"abc\nx", false), "s\"abc_wx");
    CHECK_TEXT(cut("\"a\\\nb\" x", false), "s\"a\\\nb\"_wx");
    CHECK_TEXT(cut("don't\nx", false), "wdon c't_wx");
}

/* What has no end goes to the end. */
static void test_open_ends(void)
{
    const char *const sources[] = {"\"",      "'",
                                   "R\"",     "R\"(",
                                   "R\"d",    "R\"d(x)d",
                                   "\"\\",    "'\\",
                                   "/*",      "/* *",
                                   "//",      "// \\",
                                   "/",       "#",
                                   "#if",     "\\",
                                   "1'",      "1e+",
                                   ".",       "u8R",
                                   "#define", "// @B",
                                   "// @BE",  "#define x \\",
                                   "\\\r",    "R\"12345678901234567("};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        for (size_t from = 0; from <= strlen(sources[i]); from++) {
            cut(sources[i] + from, false);
            cut(sources[i] + from, true);
        }
    CHECK_TEXT(cut("a R\"(x", false), "wa_sR\"(x");
    CHECK_TEXT(cut("a /* x", false), "wa");
    CHECK_TEXT(cut("a \"x\\", false), "wa_s\"x\\");
}

static void test_comments(void)
{
    CHECK_TEXT(cut("a/**/b /* // */ c // d */\ne", false), "wa_wb_wc_we");
    CHECK_TEXT(cut("a // b \\\n c \\ \r\n d\ne", false), "wa_we");
    CHECK_TEXT(cut("a /* \" ' R\"( */ b", false), "wa_wb");
    CHECK_TEXT(cut("a /*/ b */ c", false), "wa_wc");
}

static void test_directives(void)
{
    CHECK_TEXT(cut("#include <x>\na", false), "wa");
    CHECK_TEXT(cut("#define A(x) x // y\na", false), "wa");
    CHECK_TEXT(cut("  /* */ # /* */ undef A\n", false), "");
    CHECK_TEXT(cut("#define A \\\n 1 /* \n */ 2\nb", false), "wb");
    CHECK_TEXT(cut("a # define\n#define\n#\n", false), "wa_m#_wdefine");
    CHECK_TEXT(cut("#define A", false), "");
}

static void test_conditions(void)
{
    CHECK_TEXT(cut("#if 0\na\n#else\nb\n#endif\nc", false), "wb_wc");
    CHECK_TEXT(cut("#if 1\na\n#elif x\nz\n#else\nb\n#endif\nc", false), "wa_wc");
    CHECK_TEXT(cut("#if x\na\n#elif 0\nb\n#elif 1\nc\n#else\nd\n#endif", false), "wa_wc");
    CHECK_TEXT(cut("#if 0\n#if 1\na\n#else\nb\n#endif\n#define c\n#endif\nd", false), "wd");
    CHECK_TEXT(cut("#ifdef x\na\n#else\nb\n#endif", false), "wa_wb");
    CHECK_TEXT(cut("#ifdef x\na{\n#elif y\nb{\n#else\nc{\n#endif\n}", false), "wa m{_m}");
    CHECK_TEXT(cut("#ifndef x\n(\n#else\n(\n#endif\n)", false), "m(_m)");
    CHECK_TEXT(cut("#if 0\n/*\n#endif\n*/ a\n#endif\nb", false), "wb");
    CHECK_TEXT(cut("#if 0\nit's\n#endif\nb", false), "wb");
    CHECK_TEXT(cut("#endif\n#else\n#elif 0\na\n#if 0", false), "wa");
    CHECK_TEXT(cut("#if 0 || x\na\n#endif\n#if 1 && x\nb\n#else\nc\n#endif", false), "wa_wb_wc");
    CHECK_TEXT(cut("#if 1\n#\na\n#else\nb\n#endif", false), "wa");
    CHECK_TEXT(cut("#ifdef x\na{}\n#else\nb()\n#endif", false), "wa m{ m}_wb m( m)");
    CHECK_TEXT(cut("# # if 0\na\n# # endif\nb", false), "wa_wb");
    CHECK_TEXT(cut("#if false\na\n#elif true\nb\n#elifdef x\nc\n#else\nd\n#endif", false), "wb");
    CHECK_TEXT(cut("#ifndef x\na\n#elifndef y\nb\n#elifdef z\nc\n#endif", false), "wa_wb_wc");
}

/* Beyond so many conditions, one in the other, each branch counts, and belongs to none before. */
static void test_deep_conditions(void)
{
    enum { DEPTH = 64, ROOM = 8 * DEPTH };
    char text[ROOM + 128] = "";
    for (int i = 0; i < DEPTH; i++)
        strcat(text, "#if 1\n");
    size_t n = strlen(text);
    strcpy(text + n, "#if 0\na\n#else\nb\n#endif\nc\n#else\nd");
    CHECK_TEXT(cut(text, false), "wa_wb_wc");
    strcpy(text + n, "#if 0\n#if 0\na\n#endif\n#else\nb\n#endif\nc\n#else\nd");
    CHECK_TEXT(cut(text, false), "wa_wb_wc");
    strcpy(text + n - strlen("#if 1\n"), "#if 0\na\n#else\nb\n#endif");
    CHECK_TEXT(cut(text, false), "wb");
}

static void test_annotations(void)
{
    CHECK_TEXT(cut("// @BE f\n/// @BE g \\\n h\n//@BE\n", true), "@BE f_@BE g \\\n h_@BE");
    CHECK_TEXT(cut("/* @BE f */ \"// @BE g\" R\"(\n// @BE h\n)\" // x @BE i\n", true), "");
    CHECK_TEXT(cut("// @BEf\n// @Be f\n// BE f\n//@ BE\n", true), "");
    CHECK_TEXT(cut("#if 0\n// @BE f\n#else\n// @BE g\n#endif", true), "@BE g");
    CHECK_TEXT(cut("#ifdef x\n{\n#else\n// @BE g\n{\n#endif", true), "");
    CHECK_TEXT(cut("#ifdef x\n#else\n// @BE g\n#endif", true), "@BE g");
    CHECK_TEXT(cut("int x; // @BE f arg\r\n", true), "@BE f arg\r");
}

int main(void)
{
    test_tokens();
    test_numbers();
    test_literals();
    test_open_ends();
    test_comments();
    test_directives();
    test_conditions();
    test_deep_conditions();
    test_annotations();
    return kb_test_end("test_lexer");
}
