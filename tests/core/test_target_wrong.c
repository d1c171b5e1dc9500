/* Proves that a call whose target is not that of its kernel is refused: whoever writes a program by
 * hand chooses both, and the kernel would run on memory or a stream that it cannot use. */
#include "core/kb_handler.h"
#include "cuda/kb_target.h"
#include "module/kb_source.h"
#include "target.h"
#include "targets/kb_targets.h"

#include "core/kb_dtype.h"
#include "core/kb_plan.h"

static const char text[] = "the target of the call does not run kernels of this kind";
static int n_runs;

/* The handler of CUDA kernels on the CPU, or NULL where the extension is not built. */
static kb_xla_handler *find_emulator(void)
{
    const kb_target *target = NULL;
    for (size_t i = 0; (target = kb_targets_get(i)) != NULL; i++)
        if (strcmp(target->name, "kernbridge.cuda.host") == 0)
            return target->execute;
    return NULL;
}

static int32_t run_on_host(void **result, void **exception, void *const *inputs,
                           void *const *outputs)
{
    (void)result, (void)exception, (void)inputs, (void)outputs;
    n_runs++;
    return 0;
}

static int run_source(const kb_call *call)
{
    CHECK_INT(call->n_outputs, 1);
    n_runs++;
    return 0;
}

static void test_gpu_kernel_on_cpu(void)
{
    static const uint32_t kinds[] = {KB_STEP_LAUNCH, KB_STEP_FILL, KB_STEP_COPY};
    for (uint64_t i = 0; i < 3; i++) {
        program_text p;
        target_call c;
        program_simple(&p, 60 + i, "entry");
        p.steps[0].kind = kinds[i];
        p.steps[0].fill = (kb_fill_step){.buffer = 1, .item_size = 4, .count = gpu_constant(1, 1)};
        p.steps[0].copy = (kb_copy_step){.to = 1, .from = 0, .size = gpu_constant(4, 1)};
        target_call_init(&c, 60 + i, &p);
        target_expect(kb_target_instantiate, &c, 0, NULL);
        target_expect(kb_handler_host_instantiate, &c, 0, NULL);
        target_expect(kb_handler_host_execute, &c, KB_INVALID_ARGUMENT, text);
        target_call_free(&c);
    }
}

static void register_step(target_call *c, uint64_t id, const kb_step *step)
{
    static const kb_buffer_spec buffers[] = {{KB_DTYPE_F32, 1, "x"}, {KB_DTYPE_F32, 1, "y"}};
    kb_kernel k = {.name = "op", .source = "", .n_inputs = 1, .n_outputs = 1, .buffers = buffers};
    kb_error err;
    bool inserted;
    sample_digest(k.digest, id);
    k.plan = (kb_plan){.n_steps = 1, .steps = step};
    CHECK_INT(kb_handler_register(&k, &inserted, &err), KB_OK);
    target_call_init(c, id, NULL);
    n_runs = 0;
}

static void test_cpu_kernel_on_gpu(void)
{
    const kb_step step = {.kind = KB_STEP_HOST, .host = {.entry = run_on_host}};
    target_call c;
    register_step(&c, 70, &step);
    target_expect(kb_target_instantiate, &c, 0, NULL);
    target_expect(kb_target_execute, &c, KB_INVALID_ARGUMENT, text);
    target_expect(kb_target_graph_execute, &c, KB_INVALID_ARGUMENT, text);
    CHECK_INT(n_runs, 0);
    target_expect(kb_handler_host_execute, &c, 0, NULL);
    CHECK_INT(n_runs, 1);
    if (find_emulator()) {
        target_expect(find_emulator(), &c, 0, NULL);
        CHECK_INT(n_runs, 2);
    }
    target_call_free(&c);
}

static void test_source(void)
{
    kb_plan_runners[KB_STEP_SOURCE] = kb_source_run;
    for (uint64_t cuda = 0; cuda < 2; cuda++) {
        const kb_source_step source = {.run = run_source, .cuda = cuda};
        const kb_step step = {.kind = KB_STEP_SOURCE, .other = &source};
        target_call c;
        register_step(&c, 80 + cuda, &step);
        for (int i = 0; i < 3; i++) {
            kb_xla_handler *const handlers[] = {kb_handler_host_execute, find_emulator(),
                                                kb_target_execute};
            if (!handlers[i])
                continue;
            bool runs = cuda == (i == 2);
            n_runs = 0;
            target_expect(handlers[i], &c, KB_INVALID_ARGUMENT, runs ? NULL : text);
            CHECK_INT(n_runs, runs);
        }
        target_call_free(&c);
    }
}

/* A carrier writes no results. */
static void test_carrier(void)
{
    target_call c;
    target_call_init(&c, 90, NULL);
    const char *words = "has 1 operands and 1 results, expected none";
    target_expect(kb_handler_idle, &c, KB_INVALID_ARGUMENT, words);
    c.f.frame.args.size = 0;
    target_expect(kb_handler_idle, &c, KB_INVALID_ARGUMENT, "has 0 operands and 1 results");
    c.f.frame.rets.size = 0;
    target_expect(kb_handler_idle, &c, 0, NULL);
    c.f.frame.args.size = c.f.frame.rets.size = 1;
    target_call_free(&c);
}

int main(void)
{
    gpu_start();
    fake_cuda_set_twin("entry", target_double, NULL);
    fake_stream_set(fake_cuda_stream_create(0), false);
    test_gpu_kernel_on_cpu();
    test_cpu_kernel_on_gpu();
    test_source();
    test_carrier();
    sample_free_registry(&kb_handler_registry);
    kb_function_free_all();
    return kb_test_end("test_target_wrong");
}
