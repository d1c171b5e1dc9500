/* Proves the stages of a GPU program on the CPU: its code is compiled when XLA compiles the call,
 * and what the execution finds wrong is an error of the call. */
#include "hostcuda/kb_hostcuda.h"
#include "hostcuda/kb_hosttarget.h"
#include "target.h"

#include "core/kb_handler.h"
#include "cuda/kb_stream.h"

#include <stdio.h>
#include <stdlib.h>

enum { IMAGE_SIZE = KB_HOSTCUDA_DIGEST + 32 };

static int n_compiled;

/* Doubles, as target_double. */
static void double_all(void *const *parameters, const uint32_t sizes[6], int64_t begin, int64_t end,
                       const char **outside)
{
    (void)sizes, (void)end, (void)outside;
    if (begin == 0)
        target_double(NULL, "", NULL, NULL, 0, 3,
                      (const uint64_t[]){*(const uint64_t *)parameters[0],
                                         *(const uint64_t *)parameters[1],
                                         *(const uint64_t *)parameters[2]});
}

static kb_status compile(const char *image, size_t size, kb_error *err)
{
    (void)size;
    n_compiled++;
    return kb_hostcuda_add(image, &(kb_hostcuda_code){.blocks = double_all}, err);
}

/* With an image that ends behind so many characters. */
static void init(target_call *c, uint64_t id, int n_characters)
{
    static char image[IMAGE_SIZE + 1];
    program_text p;
    program_simple(&p, id, "entry");
    memset(image, 'a' + (int)id, KB_HOSTCUDA_DIGEST);
    snprintf(image + KB_HOSTCUDA_DIGEST, sizeof image - KB_HOSTCUDA_DIGEST, "\n%s%d",
             KB_HOSTCUDA_ABI_LINE, KB_HOSTCUDA_ABI);
    image[n_characters] = '\0';
    p.functions[0].images[0] = (program_image){.cc = KB_HOSTCUDA_CC, .text = image};
    target_call_init(c, id, &p);
}

static void test_runs(void)
{
    target_call c;
    init(&c, 1, IMAGE_SIZE);
    target_expect(kb_hosttarget_instantiate, &c, 0, NULL);
    target_expect(kb_hosttarget_instantiate, &c, 0, NULL);
    CHECK_INT(n_compiled, 1);
    target_expect(kb_hosttarget_execute, &c, 0, NULL);
    CHECK(target_doubled(&c));
    kb_stream_set_debug(KB_DEBUG_POISON);
    target_expect(kb_hosttarget_execute, &c, 0, NULL);
    CHECK(target_doubled(&c));
    kb_stream_set_debug(0);
    c.f.frame.args.size = 0; /* the frame is not that of the kernel */
    target_expect(kb_hosttarget_execute, &c, KB_INVALID_ARGUMENT, "simple");
    CHECK(!target_doubled(&c));
    target_call_free(&c);
}

static void test_refused(void)
{
    target_call c;
    init(&c, 2, KB_HOSTCUDA_DIGEST - 1);
    target_expect(kb_hosttarget_instantiate, &c, KB_FAILED_PRECONDITION,
                  "simple: the program has no code for the CPU");
    target_call_free(&c);
    init(&c, 7, 8);
    target_expect(kb_hosttarget_instantiate, &c, KB_FAILED_PRECONDITION, "no code for the CPU");
    target_expect(kb_hosttarget_execute, &c, KB_INTERNAL, "cuLibraryLoadData"); /* of another one */
    kb_stream_set_debug(KB_DEBUG_CHECKED);
    target_expect(kb_hosttarget_execute, &c, KB_INTERNAL, "cuLibraryLoadData");
    kb_stream_set_debug(0);
    target_call_free(&c);
    kb_hostcuda_set_compiler(NULL);
    init(&c, 3, IMAGE_SIZE);
    target_expect(kb_hosttarget_instantiate, &c, KB_FAILED_PRECONDITION,
                  "simple: nothing here compiles a CUDA kernel for the CPU");
    target_call_free(&c);
}

/* A call whose kernel another one brings, in either order of instantiation. */
static void test_elsewhere(void)
{
    target_call carrier, call, strange;
    init(&carrier, 4, IMAGE_SIZE);
    target_call_init(&call, 4, NULL);
    fake_attr_remove(&call.f, "digest");
    bool yes = true;
    fake_attr_scalar(&call.f, "elsewhere", KB_DTYPE_PRED, &yes, sizeof yes);
    carrier.f.frame.args.size = carrier.f.frame.rets.size = 0;
    int before = n_compiled;
    target_expect(kb_hosttarget_instantiate, &call, 0, NULL);
    target_expect(kb_hosttarget_execute, &call, KB_NOT_FOUND, "not registered in this process");
    target_expect(kb_handler_idle, &carrier, 0, NULL);
    CHECK_INT(n_compiled, before);
    target_expect(kb_hosttarget_instantiate, &carrier, 0, NULL);
    CHECK_INT(n_compiled, before + 1);
    target_expect(kb_handler_idle, &carrier, 0, NULL);
    carrier.f.frame.args.size = carrier.f.frame.rets.size = 1;
    CHECK(!target_doubled(&carrier));
    target_expect(kb_hosttarget_execute, &call, 0, NULL);
    CHECK(target_doubled(&call));
    target_expect(kb_hosttarget_instantiate, &call, 0, NULL);

    target_call_init(&strange, 5, NULL);
    fake_attr_remove(&strange.f, "call");
    fake_attr_scalar(&strange.f, "elsewhere", KB_DTYPE_PRED, &yes, sizeof yes);
    target_expect(kb_hosttarget_instantiate, &strange, KB_INVALID_ARGUMENT, "without its key");
    target_call_free(&strange);
    target_call_free(&call);
    target_call_free(&carrier);
}

/* A call of a loaded program, which XLA executes without instantiating it. */
static void test_not_instantiated(void)
{
    target_call call;
    init(&call, 6, IMAGE_SIZE);
    int before = n_compiled;
    target_expect(kb_hosttarget_execute, &call, 0, NULL);
    CHECK(target_doubled(&call));
    CHECK_INT(n_compiled, before + 1);
    target_call_free(&call);
}

int main(void)
{
    kb_hostcuda_set_compiler(compile);
    test_runs();
    test_not_instantiated();
    test_elsewhere();
    test_refused();
    CHECK_INT(fake_errors_alive(), 0);
    return kb_test_end("test_target_host");
}
