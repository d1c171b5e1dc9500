/* Proves where the scanner draws its lines: how long, how deep and how many, and which tokens may
 * stand in a declaration. See test_lexer.c, test_annotation.c and test_signature.c for the rest. */
#include "scanned.h"
#include "source/kb_lexer.h"

#define T     "const BE::Tensor a, BE::Tensor o"
#define FOUND " arg:a ret:o"

/* The declaration of f is one of a function: FOUND, with what else it has. */
static void declares(const char *declaration, const char *expected)
{
    char source[2048], whole[512];
    snprintf(source, sizeof source, "// @BE f\n%s", declaration);
    snprintf(whole, sizeof whole, "::f" FOUND "%s", expected);
    CHECK_SCAN(source, whole);
}

static void declares_nothing(const char *declaration)
{
    char source[2048];
    snprintf(source, sizeof source, "// @BE f\n%s", declaration);
    scanned s;
    scanned_begin(&s, source);
    if (!CHECK_HAS(scanned_tell(&s), "the definition of f was not found in this source"))
        fprintf(stderr, "%s\n", declaration);
    scanned_free(&s);
}

/* What may stand in front of the name. */
static void test_heads(void)
{
    declares("static inline const int *f(" T ");", "");
    declares("int &f(" T ");", "");
    declares("T &&f(" T ");", "");
    declares("a::b<c, 4> f(" T ");", "");
    declares("[[nodiscard]] int f(" T ");", "");
    declares("__attribute__((used)) int f(" T ");", "");
    declares("EXPORT(1) int f(" T ");", "");
    declares("template <typename U> void f(" T ") {}", "");
    declares("extern \"C\" { int f(" T "); }", "");
    declares_nothing("f(" T ");");
    declares_nothing("int a::f(" T ");");
    declares_nothing("int ::f(" T ");");
    declares_nothing("int x = f(" T ");");
    declares_nothing("int 3 f(" T ");");
    declares("extern \"C\" int f(" T ");", "");
    declares_nothing("auto x + f(" T ");");
    declares_nothing("a < f(" T ");");
    declares_nothing("a(b f(" T ");");
    static const char *const words[] = {
        "return", "typedef", "using", "friend", "operator", "new",    "delete",    "throw", "case",
        "goto",   "else",    "do",    "if",     "while",    "sizeof", "co_return", "switch"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char source[128];
        snprintf(source, sizeof source, "%s int f(" T ");", words[i]);
        declares_nothing(source);
    }
    declares("{ int f(int); } int f(" T ");", "");
    declares_nothing("void g() { { } int f(" T "); }");
    declares_nothing("struct S { int f(" T "); };");
    declares("void g() { { } } int f(" T ");", "");
    declares("int y; namespace { } int f(" T ");", "");
    declares("int g(int h(int x), int f(int z)); int f(" T ");", "");
    declares_nothing("extern \"C\" ( f(" T ")");
    declares_nothing("\"C\" { int f(" T "); }");
    declares_nothing("extern { int f(" T "); }");
    declares_nothing("(extern \"C\" { int f(" T "); })");
    declares("int g(x); ; int f(" T ");", "");
    declares("int x[] = {f(1), 2}; int f(" T ");", "");
    declares("extern \"C\" { namespace a { } int f(" T "); }", "");
    declares_nothing("int x = {1}, f(" T ");");
    declares("int g({1}) f(" T ");", ""); /* somebody's macro, whatever is in it */
    declares_nothing("extern x { int f(" T "); }");
    declares_nothing("x \"C\" { int f(" T "); }");
    declares_nothing("extern \"C\" x { int f(" T "); }");
    CHECK_SCAN("// @BE f\nnamespace a { namespace b { } namespace { } extern \"C\" { } void f(" T
               "); }",
               "::a::f" FOUND);
    CHECK_SCAN("// @BE f\nnamespace a { } } namespace b { void f(" T "); }", "::b::f" FOUND);
    CHECK_SCAN("// @BE f\nnamespace a { void g() { } struct s { int x; }; void f(" T "); }",
               "::a::f" FOUND);
    declares_nothing("g(extern \"C\" { int f(" T "); })");
    declares_nothing("(namespace a { int f(" T "); })");
    CHECK_REFUSED("// @BE f\nint namespace", "the definition of f was not found");
    CHECK_REFUSED("// @BE f\nint f", "the definition of f was not found");
}

/* What may stand behind the parameters. */
static void test_suffixes(void)
{
    declares("int f(" T ") const & noexcept(true) [[x]] MACRO(1) override;", "");
    declares("int f(" T ") && {}", "");
    declares("auto f(" T ") -> a::b<3>* {}", "");
    declares("auto f(" T ") -> void;", "");
    declares_nothing("int f(" T ") = 0;");
    declares_nothing("int f(" T "), g;");
    declares_nothing("int f(" T ") 3;");
    declares_nothing("int f(" T ") f;");
    declares_nothing("int f(" T ") * ;");
    declares_nothing("auto f(" T ") -> int = 0;");
    declares_nothing("int f(" T ")");
    declares_nothing("int f(" T);
    static const char *const words[] = {"void",   "int",   "static",  "inline",   "extern",
                                        "struct", "class", "enum",    "template", "union",
                                        "auto",   "using", "typedef", "namespace"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char source[128];
        snprintf(source, sizeof source, "int f(" T ") %s;", words[i]);
        declares_nothing(source);
    }
    /* What follows one that was refused counts. */
    declares("int f(int) f(" T "); int f(" T ");", "");
    declares("int f(int) int f(" T ");", "");
    declares("int f(x; int f(" T ");", "");
    char source[512] = "int f(" T ")";
    for (int n = 63; n <= 64; n++) {
        size_t size = strlen("int f(" T ")");
        for (int i = 0; i < n - 1; i++)
            size += (size_t)snprintf(source + size, 4, " x");
        snprintf(source + size, 4, ";");
        if (n == 63)
            declares(source, "");
        else
            declares_nothing(source);
    }
}

/* Sources that end anywhere in a declaration: of as many tokens as the first block has room for, so
 * that AddressSanitizer sees what reads behind the last. */
static void test_ends(void)
{
    static const char *const endings[] = {"namespace",
                                          "namespace a",
                                          "namespace a::b",
                                          "namespace a::b {",
                                          "namespace a =",
                                          "namespace [[x]]",
                                          "namespace a(",
                                          "namespace a { int f",
                                          "int f",
                                          "int f(",
                                          "int f(x",
                                          "int f(x,",
                                          "int f(x, y)",
                                          "int f(x, y) const",
                                          "auto f(x, y) ->",
                                          "int f(x, y) [[",
                                          "int f(x, y) noexcept(",
                                          "extern",
                                          "extern \"C\"",
                                          "extern \"C\" {",
                                          "template <",
                                          "template <class x>",
                                          "[[",
                                          "[[x]]",
                                          "x(",
                                          "x()",
                                          "x() f",
                                          "x() f(",
                                          "f",
                                          "f(",
                                          "(f",
                                          "{ f(",
                                          "a<b",
                                          "a<b>",
                                          "a<b> f(",
                                          "::",
                                          ":: f(",
                                          "int f(x)(",
                                          "operator",
                                          "{",
                                          "}",
                                          "(",
                                          ")",
                                          "int f(x) f(y)"};
    enum { ROOM = 32 };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char source[256] = "// @BE f arg ret\n";
        kb_lexed lexed;
        kb_error err;
        CHECK_INT(kb_lex(kb_text_of(endings[i]), &lexed, &err), KB_OK);
        for (size_t n = lexed.tokens.n; n < ROOM; n++)
            strcat(source, "; ");
        kb_lexed_free(&lexed);
        strcat(source, endings[i]);
        CHECK_INT(kb_lex(kb_text_of(source), &lexed, &err), KB_OK);
        CHECK(lexed.tokens.n == ROOM && lexed.tokens.room == ROOM);
        kb_lexed_free(&lexed);
        CHECK_SCAN(source, "f arg ret");
    }
}

/* A path of 1024 bytes is told, a longer one left out. */
static void test_long_paths(void)
{
    for (int more = 0; more < 2; more++) {
        char source[2400], name[1200];
        int size = 1024 - 2 - 3 + more; /* "::" and "::f" */
        memset(name, 'n', (size_t)size);
        name[size] = '\0';
        snprintf(source, sizeof source, "// @BE f\nnamespace %s { void f(" T "); }", name);
        scanned s;
        scanned_begin(&s, source);
        if (CHECK_INT(s.status, KB_OK)) {
            kb_text told = s.scan.functions[0].qualified;
            char whole[1300];
            (void)snprintf(whole, sizeof whole, "::%s::f", name);
            CHECK(kb_text_is(told, more ? "f" : whole));
        }
        scanned_free(&s);
    }
}

/* Which of several: a body, then what stands behind the annotation, then the first. */
static void test_ranks(void)
{
    CHECK_SCAN("void f(" T ", int p) {}\n// @BE f\nvoid f(" T ", int q);", "::f" FOUND " attr:p");
    CHECK_SCAN("void f(" T ", int p);\n// @BE f\nvoid f(" T ", int q);", "::f" FOUND " attr:q");
    CHECK_SCAN("// @BE f\nvoid f(" T ", int p);void f(" T ", int q);", "::f" FOUND " attr:p");
    CHECK_SCAN("// @BE f\nvoid f(" T ", int p) {} void f(" T ", int q) {}", "::f" FOUND " attr:p");
    CHECK_KERNEL("// @BE k\n__global__ void k(int *p); void k(int *q) {}", "k", "::k ret:p");
    CHECK_KERNEL("void k(int *q) {} __global__ void k(int *p);", "k", "::k ret:p");
    CHECK_SCAN("// @BE f\n__global__ void f(" T ", int p) {} void f(" T ", int q);",
               "::f" FOUND " attr:q");
    CHECK_REFUSED("// @BE x::f\n", "'x::f' is no name");
    scanned s;
    scanned_kernel(&s, "namespace ba { __global__ void k(int *p); }", "a::k");
    CHECK_HAS(scanned_tell(&s), "the definition of the kernel (__global__) k was not found");
    scanned_free(&s);
}

/* Parameters: where a name is, and what belongs to the type. */
static void test_parameters(void)
{
    declares("void f(" T ", unsigned long k);", " attr:k");
    declares("void f(" T ", const volatile struct s k);", " attr:k");
    declares("void f(" T ", auto k);", " attr:k");
    declares("void f(" T ", float k[3]);", " attr:k");
    declares("void f(" T ", alignas(8) int k);", " attr:k");
    declares("void f(" T ", [[maybe_unused]] int k);", " attr:k");
    declares("void f(" T ", __attribute__((unused)) int k);", " attr:k");
    declares("void f(" T ", int k = (1, 2));", " attr:k");
    declares("void f(" T ", int k = a < b, int l = 1);", " attr:k attr:l");
    declares("void f(" T ", int k = a < b, int l = c > d);", " attr:k attr:l");
    declares("void f(" T ", int k = a < b);", " attr:k");
    declares("void f(" T ", A<B<1>, 2> k);", " attr:k");
    declares("void f(" T ", A<3 < 4, 2> k);", " attr:k");
    declares("void f(" T ", A<1, 2> k);", " attr:k");
    declares("void f(" T ", A<(1, 2), B<3>> k, int l);", " attr:k attr:l");
    CHECK_REFUSED("// @BE f\nvoid f(" T ", unsigned long);", "parameter 3 is an attribute");
    CHECK_REFUSED("// @BE f\nvoid f(" T ", const k);", "parameter 3 is an attribute");
    CHECK_REFUSED("// @BE f\nvoid f(" T ", a::b);", "parameter 3 is an attribute");
    CHECK_REFUSED("// @BE f\nvoid f(" T ", );", "a.cu:2:40: f: parameter 3 is an attribute");
    CHECK_REFUSED("// @BE f\nvoid f(" T ", void (*k)(int));", "parameter 3 is an attribute");
    CHECK_REFUSED("// @BE f arg ret attr.x\nvoid f(void);", "C++ has 0 (void)");
    CHECK_REFUSED("// @BE f arg ret attr.x\nvoid f();", "C++ has 0 ()");
    CHECK_REFUSED("// @BE f arg ret attr.x\nvoid f(void x);", "C++ has 1 (void x)");
    /* A type is told as it is written, without its name. */
    CHECK_REFUSED("// @BE f ret ret\nvoid f(BE::Tensor  const &a, Tensor b);",
                  "parameter 1 'a' is `BE::Tensor const &`");
    CHECK_REFUSED("// @BE f ret ret\nvoid f(const Tensor/**/&a, Tensor b);",
                  "parameter 1 'a' is `const Tensor &`");
}

/* What a parameter looks like. */
static void test_looks(void)
{
    CHECK_SCAN("// @BE f arg:any ret:any stream\n"
               "void f(const kb_tensor *a, kb_tensor *o, cudaStream_t s);",
               "::f arg:a:any ret:o:any stream:s");
    CHECK_SCAN("// @BE f arg:any ret:any stream\n"
               "void f(const kb_tensor a[2], kb_tensor o[], cudaStream_st *s);",
               "::f arg:a:any ret:o:any stream:s");
    declares("void f(" T ", CUstream s);", " stream:s");
    declares("void f(" T ", CUstream_st *s);", " stream:s");
    declares("void f(" T ", hipStream_t s);", " stream:s");
    declares("void f(" T ", int64_t stream);", " stream:stream");
    declares("void f(" T ", int64_t s);", " attr:s");
    declares("void f(" T ", int stream);", " attr:stream");
    declares("void f(" T ", kb_tensor k);", " attr:k");
    declares("void f(" T ", cudaStream_t *k);", " attr:k");
    declares("void f(" T ", cudaStream_st k);", " attr:k");
    declares("void f(" T ", kb_call *k);", " attr:k");
    declares("void f(" T ", int64_t *stream);", " attr:stream");
    CHECK_REFUSED("// @BE f\nint f(kb_call *c);", "it has no tensor");
    CHECK_REFUSED("// @BE f\nint f(const kb_call c);", "it has no tensor");
    CHECK_SCAN("// @BE f any\nint f(const kb_call *c);", "::f");
    CHECK_KERNEL("__global__ void k(const float *x, float *y, cudaStream_t s, Tensor t);", "k",
                 "::k arg:x ret:y attr:s attr:t");
}

/* The arguments of a template end within 512 tokens: else their comma is one between parameters. */
static void test_long_templates(void)
{
    for (int last = 510; last <= 513; last++) {
        static char source[4096];
        size_t n = (size_t)snprintf(source, sizeof source, "// @BE f\nvoid f(" T ", A<x");
        for (int token = 2; token < last; token++)
            n += (size_t)snprintf(source + n, sizeof source - n, "%s", token == 2 ? "," : " x");
        snprintf(source + n, sizeof source - n, "> k);");
        CHECK_SCAN(source, last < 512 ? "::f" FOUND " attr:k" : "::f" FOUND " attr:x attr:k");
    }
}

/* Conditions in conditions: 64 are kept, and each branch of a deeper one counts. */
static void test_deep_conditions(void)
{
    for (int depth = 63; depth <= 65; depth++) {
        static char source[4096];
        size_t n = 0;
        for (int i = 0; i < depth; i++)
            n += (size_t)snprintf(source + n, sizeof source - n, "#if x\n");
        n += (size_t)snprintf(source + n, sizeof source - n,
                              "#if 0\n// @BE f arg ret\n#else\n// @BE g arg ret\n#endif\n");
        for (int i = 0; i < depth; i++)
            n += (size_t)snprintf(source + n, sizeof source - n, "#endif\n");
        snprintf(source + n, sizeof source - n, "#if 0\n// @BE h arg ret\n#endif\n");
        CHECK_SCAN(source, depth < 64 ? "g arg ret" : "f arg ret; g arg ret");
    }
}

int main(void)
{
    test_heads();
    test_suffixes();
    test_ends();
    test_long_paths();
    test_ranks();
    test_parameters();
    test_looks();
    test_long_templates();
    test_deep_conditions();
    return kb_test_end("test_scan");
}
