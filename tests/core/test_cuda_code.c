/* Proves that a CUDA kernel for the CPU that comes as machine code runs, and that bytes which are
 * not whole, not of this kernel or not for this machine are refused with a reason. */
#include "cuda_code.h"
#include "kb_test.h"
#include "object/kb_cpu.h"
#include "sealed.h"

#include <stdlib.h>

static const cuda_code_text GOOD = {.abi = KB_HOSTCUDA_ABI, .shared = 48, .stack = 96};
static kb_error err;

/* A digest of its own for each test: known code is not forgotten. */
static const char *new_digest(void)
{
    static char digest[KB_HOSTCUDA_DIGEST + 1];
    static int n;
    snprintf(digest, sizeof digest, "%064d", ++n);
    return digest;
}

static kb_status load(const cuda_code_text *t, const char *digest)
{
    size_t size;
    uint8_t *bytes = cuda_code_write(t, digest, &size);
    kb_status s = kb_cuda_code_load(digest, bytes, size, "op", &err);
    free(bytes); /* before anybody runs the code */
    return s;
}

static void test_runs(void)
{
    const char *digest = new_digest();
    int64_t out[6] = {0}, *at = out;
    void *parameters[] = {&at};
    const uint32_t sizes[6] = {3, 2, 1, 1, 1, 1};
    if (!CHECK_INT(load(&GOOD, digest), KB_OK))
        return;
    const kb_hostcuda_code *code = kb_hostcuda_find(digest);
    CHECK_INT(code->threads.shared, 48);
    CHECK_INT(code->threads.stack, 96);
    CHECK(code->concurrent);
    CHECK(!code->cooperative && !code->threads.run && !code->threads.checked);
    CHECK_INT(kb_hostcuda_launch(digest, sizes, 0, parameters, NULL, &err), KB_OK);
    for (int i = 0; i < 6; i++)
        CHECK_INT(out[i], i);
}

static void damaged_is_refused(const uint8_t *bytes, size_t size, const void *digest)
{
    CHECK_INT(kb_cuda_code_load(digest, bytes, size, "op", &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "op: the machine code");
    CHECK_HAS(err.message, "is damaged");
}

static void changed_is_refused(const uint8_t *bytes, size_t size, const void *digest)
{
    damaged_is_refused(bytes, size, digest);
    CHECK_HAS(err.message, "the check of its digest failed");
}

static void test_a_part_is_refused(void)
{
    const char *digest = new_digest();
    size_t size;
    uint8_t *bytes = cuda_code_write(&GOOD, digest, &size);
    sealed_each_part(bytes, size, 37, digest, KB_HOSTCUDA_DIGEST, damaged_is_refused);
    CHECK(!kb_hostcuda_has(digest));
    free(bytes);
}

static void test_digest(void)
{
    const char *digest = new_digest();
    size_t size;
    uint8_t *bytes = cuda_code_write(&GOOD, digest, &size);
    sealed_each_flip(bytes, size, 101, digest, changed_is_refused);
    CHECK_INT(kb_cuda_code_load(new_digest(), bytes, size, "op", &err), KB_INVALID_ARGUMENT);
    bytes[0] = 'X';
    CHECK_INT(kb_cuda_code_load(digest, bytes, size, "op", &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "its first bytes");
    free(bytes);
}

static void test_wrong_fields(void)
{
    const char *digest = new_digest();
    cuda_code_text t = GOOD;
    t.abi++;
    CHECK_INT(load(&t, digest), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "op: the program's machine code for the CPU was generated for ABI 2 of "
                           "kernbridge, and this kernbridge has ABI 1");
    t = GOOD, t.form = 3;
    CHECK_INT(load(&t, digest), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "the check of its beginning failed");
    for (uint32_t form = 1; form < 3; form++) {
        t = GOOD, t.form = form;
        CHECK_INT(load(&t, digest), KB_INVALID_ARGUMENT);
        CHECK_HAS(err.message, "the check of what it defines failed");
    }
    t = GOOD, t.features = INT64_MIN;
    CHECK_INT(load(&t, digest), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "op: the machine code needs what this processor does not have");
    t = GOOD, t.features = (int64_t)kb_cpu_features();
    CHECK_INT(load(&t, digest), KB_OK);
}

/* The tables of hostcuda, Numba's runtime and the C library's mathematics, and not all that the
 * process has. */
static void test_names(void)
{
    CHECK(kb_cuda_code_find("kb_barrier", NULL) != NULL);
    CHECK(kb_cuda_code_find("kb_nv_erfinv", NULL) != NULL);
    CHECK(kb_cuda_code_find("remquof", NULL) != NULL);
    CHECK(kb_cuda_code_find("memset", NULL) != NULL);
    CHECK(kb_cuda_code_find("NRT_MemInfo_alloc_aligned", NULL) != NULL);
    CHECK(kb_cuda_code_find("NRT_unknown", NULL) == NULL);
    CHECK(kb_cuda_code_find("kb_PyBool_FromLong", NULL) == NULL);
    CHECK(kb_cuda_code_find("system", NULL) == NULL);
}

static void test_what_it_defines(void)
{
    const char *digest = new_digest(), *name;
    size_t size, at = 0, n = 0;
    void *address;
    const kb_object *object = NULL;
    uint8_t *bytes = cuda_code_write(&GOOD, digest, &size);
    CHECK_INT(kb_cuda_code_add(digest, bytes, size, "op", &object, &err), KB_OK);
    while (kb_object_next(object, &at, &name, &address)) {
        n++;
        CHECK_TEXT(name, "kb_blocks");
        CHECK(address == kb_object_find(object, "kb_blocks"));
    }
    CHECK_INT(n, 1);
    free(bytes);
}

int main(void)
{
    test_runs();
    test_a_part_is_refused();
    test_digest();
    test_wrong_fields();
    test_names();
    test_what_it_defines();
    return kb_test_end("test_cuda_code");
}
