/* Proves what annotations mean: their tokens, the types that they name, what is inferred without
 * them, and functions that the caller names instead. */
#include "scanned.h"

#define T     "const BE::Tensor a, BE::Tensor o"
#define FOUND " arg:a ret:o"

static void test_tokens(void)
{
    CHECK_SCAN("// @BE f arg ret stream attr.x:int8 attrs.y:bool", "f arg ret stream attr:x:int8 "
                                                                   "attr:y:bool");
    CHECK_SCAN("//@BE\tf\targs  rets ctx.stream\r\n", "f arg ret stream");
    CHECK_SCAN("// @BE f ret \\\n arg \\ \r\n arg", "f ret arg arg");
    CHECK_SCAN("// @BE f ret\n// @BE g arg ret", "f ret; g arg ret");
    CHECK_SCAN("// @BE f attr.x ret arg stream\nvoid f(float x, Tensor o, Tensor a, int64_t s);",
               "::f attr:x ret:o arg:a stream:s");
    CHECK_SCAN("// @BE f arg ret attr.h:float16 attr.b:bfloat16\nvoid f(" T
               ", uint16_t h, __nv_bfloat16 "
               "b);",
               "::f" FOUND " attr:h:float16 attr:b:bfloat16");
}

/* Every type of the list, under its name. */
static void test_types(void)
{
    static const struct {
        const char *name, *c_type;
        int bytes;
        kb_dtype dtype;
    } types[] = {
#define TYPE(NAME, name, DTYPE, bytes, c_type) {name, c_type, bytes, KB_DTYPE_##DTYPE},
        KB_ATTR_TYPE_LIST(TYPE)
#undef TYPE
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char source[256], expected[256];
        CHECK_TEXT(kb_dtype_name(types[i].dtype), types[i].name);
        CHECK_INT(kb_dtype_bits(types[i].dtype), 8 * types[i].bytes);
        kb_attr_type type = kb_attr_type_of(kb_text_of(types[i].name));
        CHECK_INT(type, i + 1);
        CHECK_TEXT(kb_attr_type_name(type), types[i].name);
        CHECK_HAS(kb_attr_type_names(), types[i].name);
        snprintf(source, sizeof source, "// @BE f arg ret attr.k:%s\nvoid f(" T ", %s k);",
                 types[i].name, types[i].c_type);
        snprintf(expected, sizeof expected, "::f" FOUND " attr:k:%s", types[i].name);
        CHECK_SCAN(source, expected);
    }
    CHECK_INT(kb_attr_type_of(kb_text_of("float")), KB_ATTR_NONE);
    CHECK_INT(kb_attr_type_of(kb_text_of("")), KB_ATTR_NONE);
    CHECK_TEXT(kb_attr_type_name(KB_ATTR_NONE), "");
}

static void test_inferred(void)
{
    CHECK_SCAN("// @BE f\nint f(Tensor const &a, Tensor const b, Tensor o, double k, CUstream s);",
               "::f arg:a arg:b ret:o attr:k stream:s");
    CHECK_SCAN("// @BE f\nvoid f(" T ", int64_t stream);", "::f" FOUND " stream:stream");
    CHECK_SCAN("// @BE f\nvoid f(" T ", int64_t other);", "::f" FOUND " attr:other");
}

/* A declared type is the text that stands there; what is in brackets may have blanks. */
static void test_declared(void)
{
    CHECK_SCAN("// @BE f arg:f32[n] rets:any\nvoid f(" T ");", "::f arg:a:f32[n] ret:o:any");
    CHECK_SCAN("// @BE f args:bf16[ n,\tm ] ret:x[[y z]\nvoid f(" T ");",
               "::f arg:a:bf16[ n,\tm ] ret:o:x[[y z]");
    CHECK_SCAN(
        "// @BE f arg:i4[n, 2] ret:i8[] attr.k\nvoid f(const kb_tensor *a, kb_tensor *o, int k);",
        "::f arg:a:i4[n, 2] ret:o:i8[] attr:k");
    CHECK_REFUSED("// @BE f arg: ret\nvoid f(" T ");", "Invalid arg_spec token 'arg:'");
    CHECK_REFUSED("// @BE f arg ret stream:f32\nvoid f(" T ");",
                  "Invalid arg_spec token 'stream:f32'");
    CHECK_REFUSED("// @BE f any\nvoid f(" T ");",
                  "a.cu:1:10: f: `any` alone stands for all arrays");
    CHECK_REFUSED("// @BE f any ret\nint f(const kb_call *c);", "f: `any` alone stands for all");
}

/* Where a function sees bytes, they have to be declared: the line to write is in the message. */
static void test_undeclared(void)
{
    CHECK_REFUSED("// @BE f\nvoid f(const kb_tensor *a, Tensor o, int k);",
                  "\n    // @BE f arg:f32[n] ret:f32[n] attr.k\n");
    CHECK_REFUSED(
        "// @BE f arg ret:i8[n] attr.q:int8\nvoid f(const kb_tensor *a, Tensor o, int k);",
        "\n    // @BE f arg:f32[n] ret:i8[n] attr.q:int8\n");
    CHECK_SCAN("// @BE f arg:any ret\nvoid f(const kb_tensor *a, Tensor o);",
               "::f arg:a:any ret:o");
    CHECK_REFUSED("// @BE f\nint f(const kb_call *c);", "\n    // @BE f any\n");
    CHECK_REFUSED("// @BE f ret arg:any\nint f(const kb_call *c);",
                  "\n    // @BE f ret:f32[n] arg:any\n");
#define FOUR(text) text text text text
    CHECK_REFUSED(
        "// @BE f ret" FOUR(FOUR(FOUR(" arg"))) "\nint f(const kb_call *c);",
        "    // @BE f ret:f32[n] " FOUR("arg:f32[n] arg:f32[n] arg:f32[n] ") "arg:f32[n]");
    CHECK_REFUSED("// @BE f ret" FOUR(FOUR(FOUR(" arg"))) "\nint f(const kb_call *c);",
                  " arg:f32[n] ...\n(n is a name");
    kb_given given = {.name = kb_text_of("f"), .tokens = kb_text_of("arg ret")};
    scanned s;
    s.status = kb_scan_functions(scanned_copy(&s, ""), kb_text_of("a.c"), &given, 1, true, &s.scan,
                                 &s.err);
    CHECK_HAS(scanned_tell(&s), "functions['f']: f sees only");
    CHECK_HAS(scanned_tell(&s), "\n    \"f\": \"arg:f32[n] ret:f32[n]\"\n");
    scanned_free(&s);
    s.status =
        kb_scan_kernel(scanned_copy(&s, ""), kb_text_of("a.cubin"), &given, true, &s.scan, &s.err);
    CHECK_HAS(scanned_tell(&s), "\n    params=\"arg:f32[n] ret:f32[n]\"\n");
    scanned_free(&s);
    s.status = kb_scan_functions(scanned_copy(&s, "// @BE f\nint f(const kb_tensor *a);"),
                                 kb_text_of("a.c"), NULL, 0, true, &s.scan, &s.err);
    CHECK_HAS(scanned_tell(&s), "a result is a `kb_tensor *` without const");
    scanned_free(&s);
}

static void test_whole_call(void)
{
    scanned s;
    CHECK_SCAN("// @BE f any\nint f(const kb_call *call);", "::f");
    CHECK_SCAN("// @BE f arg:i8[n] stream attr.k:int8\nint f(kb_call const*);",
               "::f arg:i8[n] stream attr:k:int8");
    scanned_begin(&s, "// @BE f any\nint f(const kb_call *call) { return 0; }");
    CHECK(s.status == KB_OK && s.scan.functions[0].whole_call);
    CHECK_INT(s.scan.functions[0].line, 2);
    scanned_free(&s);
}

/* Of the declaration, or of the annotation where there is none; 0 of a function that is named
 * instead and not declared. */
static void test_lines(void)
{
    const kb_given given[] = {{.name = kb_text_of("f"), .infer = true},
                              {.name = kb_text_of("g"), .tokens = kb_text_of("arg ret")}};
    scanned s;
    scanned_begin(&s, "\n// @BE g arg ret\n// @BE f\nvoid\nf(" T ");");
    if (CHECK(s.status == KB_OK && s.scan.n == 2)) {
        CHECK_INT(s.scan.functions[0].line, 2);
        CHECK_INT(s.scan.functions[1].line, 5);
    }
    scanned_free(&s);
    s.status = kb_scan_functions(scanned_copy(&s, "\nvoid f(" T ");"), kb_text_of("a.cu"), given, 2,
                                 false, &s.scan, &s.err);
    if (CHECK(s.status == KB_OK && s.scan.n == 2)) {
        CHECK_INT(s.scan.functions[0].line, 2);
        CHECK_INT(s.scan.functions[1].line, 0);
    }
    scanned_free(&s);
}

/* What is freed is empty, and so is what was refused. */
static void test_empty(void)
{
    static const char *const sources[] = {"// @BE f arg ret", "// @BE f out"};
    for (int i = 0; i < 2; i++) {
        scanned s;
        scanned_begin(&s, sources[i]);
        if (i == 0)
            kb_scan_free(&s.scan);
        CHECK(!s.scan.arena && !s.scan.functions && !s.scan.n);
        kb_scan_free(&s.scan);
        free(s.source);
    }
}

/* Parameters as they are spelled, in memory of exactly their size: 16 bytes and more. */
static void test_spelling(void)
{
    static const char *const types[] = {"const scalar_of16", "const scalar_of_17", "unsigned",
                                        "struct Pair"};
    scanned s;
    scanned_begin(&s, "// @BE f\n"
                      "void f(" T ", const  scalar_of16 b, const scalar_of_17\nc, unsigned d,\n"
                      "alignas(16) struct __attribute__((packed)) Pair e);");
    if (CHECK_INT(s.status, KB_OK))
        for (int i = 0; i < 4; i++) {
            kb_text text = s.scan.functions[0].parameters[2 + i].ctype;
            CHECK_INT(text.size, strlen(types[i]));
            CHECK_INT(memcmp(text.at, types[i], text.size), 0);
        }
    scanned_free(&s);
}

static void test_names(void)
{
    static const char *const good[] = {"f", "_f1", "F", "arg", "final", "override"};
    static const char *const bad[] = {"",   "1f",    "int", "a-b", "a::b", "\xc3\xa9", "a\x80",
                                      "a$", "while", "$a",  "-a",  "$",    "\x80"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(kb_annotation_is_name(kb_text_of(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!kb_annotation_is_name(kb_text_of(bad[i])));
}

/* Comments count for nothing then. */
static void test_given(void)
{
    const kb_given given[] = {
        {.name = kb_text_of("f"), .infer = true},
        {.name = kb_text_of("g"), .tokens = kb_text_of("arg ret attr.k:int8 \\")},
    };
    scanned s;
    s.status = kb_scan_functions(scanned_copy(&s, "// @BE\nvoid f(" T ", float k) {}"),
                                 kb_text_of("a.cu"), given, 2, false, &s.scan, &s.err);
    CHECK_TEXT(scanned_tell(&s), "::f" FOUND " attr:k; g arg ret attr:k:int8");
    scanned_free(&s);
    s.status = kb_scan_functions(scanned_copy(&s, ""), kb_text_of("a.cu"), &given[1], 1, false,
                                 &s.scan, &s.err);
    CHECK_TEXT(scanned_tell(&s), "g arg ret attr:k:int8");
    scanned_free(&s);
}

int main(void)
{
    test_tokens();
    test_types();
    test_inferred();
    test_declared();
    test_undeclared();
    test_whole_call();
    test_lines();
    test_empty();
    test_spelling();
    test_names();
    test_given();
    return kb_test_end("test_annotation");
}
