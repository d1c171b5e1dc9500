/* Proves that no source, whatever it says, makes the scanner leave its memory, take the time of its
 * square, or tell of what is not there. Bytes are read as changes to good sources: pieces put in,
 * taken out, doubled, bytes changed, tokens of random words. Every source has exactly its size, so
 * that AddressSanitizer sees one byte too many. */
#include "fuzz.h"

#include "source/kb_scan.h"

#include <stdio.h>
#include <stdlib.h>

enum { SIZE_MAX_FUZZED = 4096 };

static struct {
    long read, refused, kernels, whole, unknown;
} counts;

static const char *const sources[] = {
    "// @BE vector_add arg arg ret stream\nvoid vector_add(const BE::Tensor a, const BE::Tensor "
    "b,\n"
    "                BE::Tensor out, int64_t stream) {\n    add<<<1, 2, 0, s>>>(a);\n}\n",
    "// @BE f\nint f(const BE::Tensor &x, BE::Tensor o, float a = g(1, 2), std::complex<float> z,\n"
    "      bool b, unsigned long long n, cudaStream_t s) noexcept { return 0; }\n",
    "#define CAT_(a, b) a##b\n#define CAT(a, b) CAT_(a, b)\n#define DEF(T, S) void CAT(f_, "
    "S)(const "
    "BE::Tensor a, BE::Tensor o, T k, int64_t stream) { }\n// @BE f_x arg ret attr.k stream\n"
    "DEF(float, x)\n#undef DEF\n",
    "namespace a::b { extern \"C\" { namespace { // @BE f arg:f32[n, 2] ret:any attr.k:float16\n"
    "void f(const kb_tensor *a, kb_tensor *o, uint16_t k); } } }\n",
    "#if 0\n// @BE g\n#elif X\n#else\n// @BE f any\n#endif\nstatic auto f(const kb_call *call) -> "
    "int "
    "{}\n",
    "const char *s = R\"x(\n// @BE no )\" )x\"; /* // @BE no */ // @BE f arg ret attr.p:int8 \\\n\n"
    "void f(const Tensor a, Tensor o, std::pair<int, U<(3 > 2)>> p = {1, [](int x) { return x; "
    "}});\n",
    "template <typename T, int N = (1 > 2)> __global__ void __launch_bounds__(256) k(const T *x,\n"
    "    T *__restrict__ y, T a, size_t n, float z[], const unsigned char *w) { }\n",
    "// @BE k arg ret attr.n\nnamespace ns { __global__ void k(const float *x, float *y, int n); "
    "}\n",
    "#define LIST(X, ...) X(1, __VA_ARGS__) X(2, ## __VA_ARGS__)\n#define X(n, ...) void f##n(#n)\n"
    "LIST(X, a, b) LIST(X)\n// @BE f ret\nvoid f(BE::Tensor o) try { } catch (...) { }\n",
    "// @BE f arg ret attr.a attr.b:complex128\r\nvoid f(Tensor const a, Tensor o, double a, T<A, "
    "B> b)"
    " __attribute__((hot));\r\n",
};

static const char *const pieces[] = {
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ",",
    ";",
    ":",
    "::",
    "*",
    "&",
    "&&",
    "=",
    "->",
    "...",
    "#",
    "##",
    "\n",
    "\\\n",
    "\"",
    "'",
    "R\"(",
    ")\"",
    "//",
    "/*",
    "*/",
    "// @BE ",
    "\n// @BE f ",
    "\n#if 0\n",
    "\n#if 1\n",
    "\n#ifdef A\n",
    "\n#else\n",
    "\n#elif 0\n",
    "\n#endif\n",
    "\n#define f ",
    "\n#define A(x) x A(x)\n",
    "\n#define B A A\n",
    "\n#undef A\n",
    " A(",
    " B ",
    "arg ",
    "ret ",
    "stream ",
    "attr.x ",
    "attr.x:int32 ",
    "attrs.y:bool ",
    "const ",
    "float ",
    "BE::Tensor ",
    "kb_tensor *",
    "int64_t stream",
    "unsigned ",
    "long ",
    "void ",
    "f(",
    " f ",
    "namespace a {",
    "extern \"C\" {",
    "template <",
    "__global__ ",
    "void f(",
    "std::complex<float>",
    "[[",
    "]]",
    "__attribute__((",
    "noexcept(",
    "auto ",
    "\xc3\xa9",
    "\xff",
    "\t",
    "arg:f32[n] ",
    "ret:any[2,n] ",
    " any",
    "\r",
    " ",
    "0",
    "1'0",
    "struct S {",
    "using ",
    "operator ",
    "decltype(",
    "x",
    "k",
    "\0",
};

enum {
    SOURCES = sizeof sources / sizeof *sources,
    PIECES = sizeof pieces / sizeof *pieces,
};

static size_t place(reader *r, size_t size)
{
    return ((size_t)byte(r) << 8 | byte(r)) % (size + 1);
}

/* Puts `n` bytes in, as far as there is room. */
static void put_in(char *text, size_t *size, size_t at, const char *piece, size_t n)
{
    char copy[SIZE_MAX_FUZZED];
    if (*size + n > SIZE_MAX_FUZZED)
        return;
    memcpy(copy, piece, n); /* it may be a part of the text */
    memmove(text + at + n, text + at, *size - at);
    memcpy(text + at, copy, n);
    *size += n;
}

static void change(char *text, size_t *size, reader *r)
{
    size_t at = place(r, *size), n = byte(r) % 24;
    switch (byte(r) % 8) {
    case 0:
        n = n < *size - at ? n : *size - at;
        memmove(text + at, text + at + n, *size - at - n);
        *size -= n;
        break;
    case 1:
        if (at < *size)
            text[at] = (char)byte(r);
        break;
    case 2:
        n = n < *size - at ? n : *size - at;
        put_in(text, size, place(r, *size), text + at, n);
        break;
    case 3:
        *size = at;
        break;
    case 4: {
        const char *other = sources[byte(r) % SOURCES];
        size_t from = place(r, strlen(other)), left = strlen(other) - from;
        put_in(text, size, at, other + from, left < 4 * n ? left : 4 * n);
        break;
    }
    default: {
        const char *piece = pieces[byte(r) % PIECES];
        for (int i = byte(r) % 16 ? 1 : 40; i > 0; i--)
            put_in(text, size, at, piece, *piece ? strlen(piece) : 1);
    }
    }
}

/* Every byte is there. */
static void touch(kb_text text)
{
    static volatile char sum;
    for (size_t i = 0; i < text.size; i++)
        sum = (char)(sum + text.at[i]);
}

static void check_function(const kb_described *f, kb_text source, bool kernel)
{
    size_t lines = 1, n_rets = 0;
    for (size_t i = 0; i < source.size; i++)
        lines += source.at[i] == '\n';
    require(f->line <= lines, "a line is behind the end");
    require(kb_annotation_is_name(f->name), "a function has no name");
    bool found = f->qualified.size > f->name.size; /* by ::, but in a path that is too long */
    touch(f->name);
    touch(f->qualified);
    for (uint32_t i = 0; i < f->n_parameters; i++) {
        const kb_described_parameter *p = &f->parameters[i];
        touch(p->name);
        touch(p->ctype);
        touch(p->array);
        require(p->role <= KB_ROLE_STREAM, "a parameter has no role");
        require(p->type <= KB_ATTR_COMPLEX128, "a parameter has no type");
        n_rets += p->role == KB_ROLE_RET;
        require(p->role != KB_ROLE_ATTR || kb_annotation_is_name(p->name),
                "an attribute has no name");
        require(p->role == KB_ROLE_ATTR || p->type == KB_ATTR_NONE, "a type comes from nowhere");
        require(p->role <= KB_ROLE_RET || p->array.size == 0, "a declaration of no array");
        require(p->role > KB_ROLE_RET || !p->bytes || p->array.size > 0, "bytes are not declared");
        require(p->role != KB_ROLE_ATTR || p->type || !f->whole_call, "an attribute has no type");
        require((found && !f->whole_call) || p->ctype.size == 0 || f->name.size > 64,
                "a type of C++ comes from nowhere");
    }
    require(n_rets > 0 || f->whole_call, "a function has no result");
    counts.whole += f->whole_call;
    counts.unknown += !found;
    counts.kernels += kernel;
}

/* A place that a message tells is one of the source. */
static void check_place(const char *message, kb_text source)
{
    unsigned long line, column, n = 1;
    if (sscanf(message, "f.cu:%lu:%lu: ", &line, &column) != 2)
        return;
    size_t at = 0, length = 0;
    for (; n < line && at < source.size; at++)
        n += source.at[at] == '\n';
    while (at + length < source.size && source.at[at + length] != '\n')
        length++;
    require(n == line, "an error's line is behind the end");
    require(column >= 1 && column <= length + 1, "an error's column is behind the line's end");
    require(strchr(message, '^') != NULL || strlen(message) > 1500, "an error has no caret");
}

static void check(kb_status s, kb_scan *scan, kb_text source, bool kernel, const kb_error *err)
{
    if (s == KB_OK) {
        counts.read++;
        for (uint32_t i = 0; i < scan->n; i++)
            check_function(&scan->functions[i], source, kernel);
        kb_scan_free(scan);
        return;
    }
    counts.refused++;
    require(s == KB_INVALID_ARGUMENT && err->status == s, "an error has another status");
    require(*err->message && strlen(err->message) < KB_ERROR_CAPACITY, "an error has no message");
    check_place(err->message, source);
}

static void scan(kb_text source, reader *r)
{
    static const char *const names[] = {"f", "k", "k<float, 4>", "ns::k", "f_x", "::a::b::f"};
    static const char *const words[] = {"arg",     "ret", "stream",     "attr.x", "attr.y:int32",
                                        "attrs.z", "any", "arg:f32[n]", "ret:any"};
    bool bytes = source.size % 2;
    char tokens[8 * 16] = "";
    kb_text file = kb_text_of("f.cu");
    kb_given given = {.name = kb_text_of(names[byte(r) % 6]), .infer = byte(r) % 2};
    kb_scan result;
    kb_error err;
    for (int i = given.infer ? 0 : byte(r) % 8; i > 0; i--)
        strcat(strcat(tokens, words[byte(r) % 9]), " ");
    given.tokens = kb_text_of(tokens);
    kb_status s = kb_scan_functions(source, file, NULL, 0, bytes, &result, &err);
    check(s, &result, source, false, &err);
    s = kb_scan_functions(source, file, &given, 1, bytes, &result, &err);
    check(s, &result, source, false, &err);
    s = kb_scan_kernel(source, file, &given, bytes, &result, &err);
    check(s, &result, source, true, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reader r = {data, data + size};
    char text[SIZE_MAX_FUZZED];
    const char *good = sources[byte(&r) % SOURCES];
    size_t n = strlen(good);
    memcpy(text, good, n);
    for (int changes = byte(&r) % 12; changes > 0; changes--)
        change(text, &n, &r);
    char *exact = malloc(n ? n : 1);
    if (!exact)
        return 0;
    memcpy(exact, text, n);
    scan((kb_text){exact, n}, &r);
    free(exact);
    return 0;
}

const char fuzz_name[] = "fuzz_annotation";

bool fuzz_tell(uint64_t n)
{
    printf("fuzz_annotation: %llu sources; %ld scans read, %ld refused; %ld kernels, %ld whole "
           "calls, %ld not found\n",
           (unsigned long long)n, counts.read, counts.refused, counts.kernels, counts.whole,
           counts.unknown);
    return counts.read && counts.refused && counts.kernels && counts.whole && counts.unknown;
}
