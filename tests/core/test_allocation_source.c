/* Proves that every allocation of a scan may fail: an error comes back, nothing leaks, and the same
 * thing done again succeeds. See test_allocation.c. */
#include "allocation.h"
#include "source/kb_scan.h"

#include <stdlib.h>

static bool scan(const char *source, uint32_t n)
{
    kb_scan result;
    kb_error err;
    if (!had_memory(kb_scan_functions(kb_text_of(source), kb_text_of("a.cu"), NULL, 0, false,
                                      &result, &err),
                    &err))
        return false;
    CHECK_INT(result.n, n);
    kb_scan_free(&result);
    return true;
}

static bool scan_functions(void)
{
    return scan("namespace a { // @BE f\nvoid f(const BE::Tensor a, BE::Tensor o, float k) {} }\n"
                "// @BE g arg ret attr.x:int32 attr.y\n"
                "int g(const BE::Tensor a, BE::Tensor o, int x, std::complex<float> y) noexcept;\n"
                "// @BE h arg ret attr.x:int8\n// @BE i any\nint i(const kb_call *call);\n",
                4);
}

/* Far enough that every list and table grows more than once. */
static bool scan_many(void)
{
    enum { N = 100, SIZE = 96 };
    char *source = malloc((size_t)N * SIZE);
    size_t n = 0;
    if (!source)
        abort();
    for (int i = 0; i < N; i++)
        n +=
            (size_t)snprintf(source + n, SIZE,
                             "#define m%d x\n#ifdef a\n// @BE f%d\nvoid f%d(Tensor o);\n", i, i, i);
    bool ok = scan(source, N);
    free(source);
    return ok;
}

static bool scan_kernel(void)
{
    kb_given given = {.name = kb_text_of("a::k<float>"), .tokens = kb_text_of("arg ret attr.n")};
    kb_text source =
        kb_text_of("namespace a { template <typename T>\n__global__ void k(const T *x, T "
                   "*y, int n) {} }");
    kb_scan result;
    kb_error err;
    if (!had_memory(kb_scan_kernel(source, kb_text_of("a.cu"), &given, false, &result, &err), &err))
        return false;
    CHECK_INT(result.functions[0].n_parameters, 3);
    kb_scan_free(&result);
    return true;
}

/* A refusal needs memory too; it is refused with what there is. */
static bool refuse(void)
{
    kb_scan result;
    kb_error err;
    kb_status s =
        kb_scan_functions(kb_text_of("// @BE f\nvoid f(const Tensor a, Tensor o, float);"),
                          kb_text_of("a.cu"), NULL, 0, false, &result, &err);
    if (s == KB_INVALID_ARGUMENT) {
        CHECK_HAS(err.message, "needs a name");
        return true;
    }
    return had_memory(s, &err);
}

int main(void)
{
    each_allocation("functions", scan_functions, 10);
    each_allocation("many", scan_many, 20);
    each_allocation("kernel", scan_kernel, 8);
    each_allocation("refused", refuse, 8);
    return kb_test_end("test_allocation_source");
}
