/* Proves that the scanner finds the one function that is meant, with its namespaces and its
 * parameters, and that a kernel's parameters become arrays and values. */
#include "scanned.h"

#define T     "const BE::Tensor a, BE::Tensor o"
#define FOUND " arg:a ret:o"

static void test_namespaces(void)
{
    CHECK_SCAN("// @BE f\nvoid f(" T ") {}", "::f" FOUND);
    CHECK_SCAN("// @BE f\nnamespace a::inline b { namespace { extern \"C\" { void f(" T "); } } }",
               "::a::b::f" FOUND);
    CHECK_SCAN("namespace a { int x; }\n// @BE f\nnamespace b { void f(" T "); } namespace c {}",
               "::b::f" FOUND);
    CHECK_SCAN("// @BE f\nnamespace a { struct f { void f(int); }; enum { A }; } void f(" T ") {}",
               "::f" FOUND);
    CHECK_SCAN("// @BE f\nusing namespace a; namespace c = d; void f(" T ") {}", "::f" FOUND);
}

/* Attributes of a namespace are no part of its path, whatever brackets they have. */
static void test_attributes_of_namespaces(void)
{
    CHECK_SCAN("// @BE f\nnamespace [[deprecated(\"x\")]] a { void f(" T ") {} }", "::a::f" FOUND);
    CHECK_SCAN("// @BE f\nnamespace [[x(1)]] a [[y]] { void f(" T ") {} }", "::a::f" FOUND);
    CHECK_SCAN("// @BE f\nnamespace __attribute__((x(b))) a { void f(" T ") {} }", "::a::f" FOUND);
    CHECK_SCAN("// @BE f\nnamespace EXPORT(x) a { void f(" T ") {} }", "::a::f" FOUND);
    CHECK_SCAN("// @BE f\nnamespace a<x && y> b { void f(" T ") {} }", "::a::b::f" FOUND);
    CHECK_SCAN("// @BE f\nnamespace a<x && {y}> b { void f(" T ") {} }", "::a::b::f" FOUND);
    CHECK_SCAN("// @BE f\nnamespace ) a { void f(" T ") {} }", "::a::f" FOUND);
    CHECK_SCAN("// @BE f\nnamespace ]] a { void f(" T ") {} }", "::a::f" FOUND);
}

/* A parenthesis that nothing closes ends with its declaration, or with its scope. */
static void test_open_parentheses(void)
{
    CHECK_SCAN("// @BE f\nint x = (1; namespace a { void f(" T ") {} }", "::a::f" FOUND);
    CHECK_SCAN("// @BE f\nnamespace b { MAKE( } namespace a { void f(" T ") {} }", "::a::f" FOUND);
}

static void test_which(void)
{
    CHECK_SCAN(
        "void f(int z) {}\n// @BE f arg ret\nint x = f(1), y[] = {f(2)}; void g() { f(3); }\n"
        "void f(" T ") {}\nvoid f() {}",
        "::f" FOUND);
    CHECK_SCAN("void f(" T ") {}\n// @BE f\nvoid f(int);", "::f" FOUND);
    CHECK_SCAN("void f(" T ");\n// @BE f\nvoid g();", "::f" FOUND);
    CHECK_SCAN(
        "// @BE f\nvoid S::f(int a) {}\n#define g f(1)\n#if 0\nvoid f() {}\n#endif\nvoid f(" T
        ") {}",
        "::f" FOUND);
    CHECK_SCAN("// @BE f arg ret\nMAKE(f)", "f arg ret");
}

static void test_parameters(void)
{
    CHECK_SCAN("// @BE f\nvoid f(" T ", bool b = a<1>, float z = 2) {}",
               "::f" FOUND " attr:b attr:z");
    CHECK_SCAN("// @BE f\nvoid f(" T ", int k = g(1, 2), bool b = a<1, 2>(0), float z = x < y) {}",
               "::f" FOUND " attr:k attr:b attr:z");
    CHECK_SCAN("// @BE f arg ret attr.p:int8 attr.q\nvoid f(" T
               ", std::map<int, A<(1 > 2)>> p = {1, "
               "2}, double q /* , */ = [](int x, int y) { return x, y; }(1, 2)) {}",
               "::f" FOUND " attr:p:int8 attr:q");
    CHECK_SCAN(
        "// @BE f\nvoid f([[maybe_unused]] const BE::Tensor & a, kb_tensor *o, "
        "std::complex<float> c, unsigned long long n, cudaStream_t)",
        "a.cu:1:8: the definition of f was not found in this source; write its parameters "
        "out, for example\n    // @BE f arg:f32[n] ret:f32[n] attr.alpha:float32\n(if a macro "
        "generates the "
        "name or the parameters of a function, write them out, there or here)\n// @BE f\n       ^");
    CHECK_SCAN("// @BE f\nvoid f([[maybe_unused]] const BE::Tensor & a, Tensor o, "
               "std::complex<float> c, unsigned long long n, cudaStream_t);",
               "::f" FOUND " attr:c attr:n stream");
}

/* What macros make is nowhere: it is told by tokens, or written out. */
static void test_macros(void)
{
    CHECK_SCAN("#define DEF(n, T) void f_##n(const Tensor a, Tensor o, T k) {}\n"
               "// @BE f_x arg ret attr.k\nDEF(x, float)\n",
               "f_x arg ret attr:k");
    CHECK_REFUSED("#define D(n) void n(const Tensor a, Tensor o) {}\n// @BE f\nD(f)",
                  "if a macro generates the name or the parameters of a function");
    CHECK_REFUSED("#define MORE , float k\n// @BE f arg ret attr.k\nvoid f(" T " MORE) {}",
                  "the annotation describes 3 parameters, and C++ has 2 (const BE::Tensor "
                  "a, BE::Tensor "
                  "o MORE): attr.k not found in signature; if a macro generates the name or "
                  "the parameters");
}

static void test_kernels(void)
{
    const char *source = "namespace a { template <typename T, int N = (1 > 2)> __global__ void "
                         "__launch_bounds__(N)\n"
                         "k(const T *__restrict__ x, float *y, __half const *h, T s, size_t n, "
                         "long m, int z[]) { } }\n"
                         "__device__ void k(int);\nnamespace b { __global__ void k(int *q); }";
    CHECK_KERNEL(source, "k<float, 4>", "::a::k arg:x ret:y arg:h attr:s attr:n attr:m ret:z");
    CHECK_KERNEL(source, "b::k", "::b::k ret:q");
    CHECK_KERNEL(source, "::a::k", "::a::k arg:x ret:y arg:h attr:s attr:n attr:m ret:z");
    CHECK_KERNEL("// @BE k ret attr.n:int8", "x::k", "k ret attr:n:int8");

    const char *alike = "namespace x { namespace a { __global__ void k(int *p); } }\n"
                        "namespace a { __global__ void k(float *q) {} }\n"
                        "extern \"C\" { __global__ void k(double *r); }";
    CHECK_KERNEL(alike, "k", "::k ret:r");
    CHECK_KERNEL(alike, "::k", "::k ret:r");
    CHECK_KERNEL(alike, "a::k", "::a::k ret:q");
    CHECK_KERNEL(alike, "x::a::k", "::x::a::k ret:p");
}

/* Of a kernel alone its own annotation is read, wherever it stands among the others'. */
static void test_other_annotations(void)
{
    static const char *const sources[] = {
        "// @BE k ret attr.n:int8\n// @BE kk nonsense\n// @BE\n// @BE l ret",
        "// @BE l ret\n// @BE kk nonsense\n// @BE k ret attr.n:int8",
        "// @BE l\n// @BE k ret attr.n:int8\n// @BE m ret\n// @BE l ret",
    };
    scanned s;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        CHECK_KERNEL(sources[i], "k", "k ret attr:n:int8");
        CHECK_KERNEL(sources[i], "a::k<2>", "k ret attr:n:int8");
        scanned_kernel(&s, sources[i], "k");
        CHECK_INT(s.scan.n, 1);
        scanned_free(&s);
    }
    CHECK_KERNEL(
        "// @BE k ret\n// @BE l ret\n// @BE k ret", "k",
        "a.cu:3:8: k is annotated twice, in lines 1 and 3; remove one\n// @BE k ret\n       ^");
    CHECK_KERNEL("// @BE l ret\n__global__ void k(float *y);", "k", "::k ret:y");
}

/* A name ends where it ends, whatever stands behind it in memory. */
static void test_ends_of_names(void)
{
    static const struct {
        kb_text name;
        const char *told;
    } cases[] = {
        {{"k:", 1}, "::k ret:y"},
        {{"a::k::", 4}, "kernel 'a::k': the definition of the kernel (__global__) k was not"},
        {{"k<int>", 2}, "::k ret:y"},
        {{"kx", 1}, "::k ret:y"},
        {{"<k>", 3}, "'<k>' is no name of a kernel; write for example scale or ns::scale<float"},
        {{"k::", 3}, "'k::' is no name of a kernel"},
        {{"", 0}, "'' is no name of a kernel"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kb_given given = {.name = cases[i].name, .infer = true};
        scanned s;
        s.status = kb_scan_kernel(scanned_copy(&s, "__global__ void k(float *y) {}"),
                                  kb_text_of("a.cu"), &given, false, &s.scan, &s.err);
        CHECK_HAS(scanned_tell(&s), cases[i].told);
        scanned_free(&s);
    }
}

/* Of the alternatives of a condition the first stands for all, if it leaves a bracket open. */
static void test_conditions(void)
{
    CHECK_SCAN("// @BE f\n#ifdef X\nvoid f(" T
               ") {\n#else\nvoid f(int z) {\n#endif\n}\n// @BE g\nvoid "
               "g(" T ") {}",
               "::f" FOUND "; ::g" FOUND);
}

/* Deep and long, but never to a power: the whole takes a moment. */
static void test_size(void)
{
    static const char *const pieces[] = {"f(",
                                         "f(;",
                                         "void f(a) ",
                                         "namespace a{",
                                         "a<",
                                         "[[",
                                         "auto f() -> f() ",
                                         "#if x\n",
                                         "R\"(",
                                         "{",
                                         "}",
                                         "int x = f(f,",
                                         "template<",
                                         "#define A(x) x x\nA(A(A(",
                                         "#define B B B\nB ",
                                         "extern \"C\"{"};
    enum { SIZE = 1 << 17 };
    char *source = malloc(SIZE + 64);
    for (size_t i = 0; source && i < sizeof pieces / sizeof *pieces; i++) {
        size_t n = (size_t)snprintf(source, 64, "// @BE f arg ret\n"), step = strlen(pieces[i]);
        for (; n + step < SIZE; n += step)
            memcpy(source + n, pieces[i], step + 1);
        scanned s;
        scanned_begin(&s, source);
        CHECK(s.status == KB_OK || s.status == KB_INVALID_ARGUMENT);
        scanned_free(&s);
    }
    free(source);
}

int main(void)
{
    test_namespaces();
    test_attributes_of_namespaces();
    test_open_parentheses();
    test_which();
    test_parameters();
    test_macros();
    test_kernels();
    test_other_annotations();
    test_ends_of_names();
    test_conditions();
    test_size();
    return kb_test_end("test_signature");
}
