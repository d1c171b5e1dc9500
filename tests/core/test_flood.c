/* Proves that threads may do all that changes the core at once: they register kernels, look them
 * up and execute them, also for batches; they hold, load and drop functions of a GPU; they bind
 * slots anew and call them; they share loops. Values are right, and what can be given back is.
 * Meaningful under ThreadSanitizer. */
#include "core/kb_handler.h"
#include "core/kb_pool.h"
#include "cuda/kb_function.h"
#include "fake_xla.h"
#include "gpu.h"
#include "module/kb_slot.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 250, KERNELS = 24, FUNCTIONS = 4, SLOTS = 3, SIZE = 8, BATCH = 5 };

static const kb_driver *cu;
static kb_slot slots[SLOTS];

typedef struct worker {
    pthread_t thread;
    uint64_t state;
    long done[6];
} worker;

static uint32_t draw(worker *w, uint32_t below)
{
    w->state ^= w->state << 13;
    w->state ^= w->state >> 7;
    w->state ^= w->state << 17;
    return (uint32_t)(w->state >> 33) % below;
}

/* out = 2 * x; a kernel fails if x begins with -1. */
static int32_t twice(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result;
    *exception = NULL;
    const kb_xla_buffer *from = inputs[0], *to = outputs[0];
    const float *x = from->data;
    float *out = to->data;
    for (int64_t i = 0; i < from->dims[0]; i++)
        out[i] = 2 * x[i];
    return x[0] == -1 ? 7 : KB_NUMBA_OK;
}

static void kernel_init(sample *s, uint32_t id)
{
    sample_init(s, id, twice);
    s->step.host.concurrent = true;
    sample_input(s, KB_DTYPE_F32, 1, "x");
    sample_output(s, KB_DTYPE_F32, 1, "out");
}

static void register_kernel(worker *w)
{
    sample s;
    kb_error err;
    bool inserted;
    kernel_init(&s, draw(w, KERNELS));
    CHECK_INT(kb_handler_register(&s.kernel, &inserted, &err), KB_OK);
    const kb_kernel *found = kb_registry_find(&kb_handler_registry, s.kernel.key);
    if (CHECK(found != NULL))
        CHECK_TEXT(found->name, s.name);
    CHECK(kb_registry_count(&kb_handler_registry).kernels <= KERNELS);
}

/* One that is not registered is an error, and so is one that fails. */
static void execute(worker *w)
{
    sample s;
    fake_frame f;
    bool in_batch = draw(w, 2), fails = draw(w, 8) == 0;
    kernel_init(&s, draw(w, KERNELS));
    const kb_kernel *found;
    kb_error err;
    bool known = kb_registry_match(&kb_handler_registry, s.kernel.digest, &found, &err) == KB_OK;
    float x[BATCH][SIZE], out[BATCH][SIZE] = {{0}};
    int64_t dims[] = {BATCH, SIZE}, rows = in_batch ? BATCH : 1;
    for (int64_t i = 0; i < BATCH * SIZE; i++)
        x[i / SIZE][i % SIZE] = (float)draw(w, 1000);
    if (fails)
        x[draw(w, (uint32_t)rows)][0] = -1;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&f, KB_DTYPE_F32, x, in_batch ? 2 : 1, in_batch ? dims : dims + 1);
    fake_ret(&f, KB_DTYPE_F32, out, in_batch ? 2 : 1, in_batch ? dims : dims + 1);
    sample_attrs(&f, &s.kernel);
    if (in_batch)
        sample_call(&f, &s.kernel, 1, (const int64_t[]){1});
    kb_xla_error *error = kb_handler_host_execute(&f.frame);
    const char *message = error ? error->message : "";
    bool missed = error && !known && strstr(message, "not registered in this process");
    if (fails && !missed)
        CHECK_HAS(message, "the kernel failed with status 7");
    else if (!missed)
        CHECK_TEXT(message, "");
    for (int64_t i = 0; !error && i < rows * SIZE; i++)
        CHECK(out[i / SIZE][i % SIZE] == 2 * x[i / SIZE][i % SIZE]);
    fake_error_destroy(error);
    fake_frame_free(&f);
}

static void use_function(worker *w)
{
    static const char *const names[FUNCTIONS] = {"flood_a", "flood_b", "flood_c", "flood_d"};
    uint32_t i = draw(w, FUNCTIONS);
    kb_function *function = gpu_function(names[i], i + 1);
    kb_cu_kernel kernel = NULL;
    kb_error err;
    gpu_use_device(0);
    CHECK_INT(kb_function_load(function, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK_PTR(kb_function_kernel(function, 0), kernel);
    CHECK_INT(kb_function_allow_shared(function, cu, 0, 60000, "op", &err), KB_OK);
    CHECK_PTR(kb_function_ready(function, 0, 60000), kernel);
    CHECK(kb_function_count.functions <= FUNCTIONS);
    kb_function_drop(function);
}

static int slot_one(const kb_call *call)
{
    *(float *)call->outputs[0].data = 1;
    return 0;
}

static int slot_two(const kb_call *call)
{
    *(float *)call->outputs[0].data = 2;
    return 0;
}

static void bind_slot(worker *w)
{
    const kb_slot_target target = {
        .name = "load 'm.f'",
        .n_inputs = 0,
        .n_outputs = 1,
        .step = {.run = draw(w, 2) ? slot_one : slot_two},
    };
    kb_error err;
    CHECK_INT(kb_slot_bind(&slots[draw(w, SLOTS)], sample_target(&target), &err), KB_OK);
}

static void call_slot(worker *w)
{
    kb_slot *slot = &slots[draw(w, SLOTS)];
    float out = 0;
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_ret(&f, KB_DTYPE_F32, &out, 0, NULL);
    CHECK_PTR(slot->handle(slot, &f.frame), NULL);
    CHECK(out == 1 || out == 2);
    fake_frame_free(&f);
}

static void add_up(void *data, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add((atomic_llong *)data, i);
}

static void share_loop(worker *w)
{
    atomic_llong sum = 0;
    int64_t count = 1 + draw(w, 2000);
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    kb_pool_for(&f.frame, count, add_up, &sum);
    fake_frame_free(&f);
    CHECK_INT(atomic_load(&sum), count * (count - 1) / 2);
}

static void *flood(void *data)
{
    static void (*const actions[])(worker *) = {register_kernel, execute,   use_function,
                                                bind_slot,       call_slot, share_loop};
    worker *w = data;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t which = draw(w, sizeof actions / sizeof *actions);
        actions[which](w);
        w->done[which]++;
    }
    return NULL;
}

static void test_all_at_once(uint64_t seed)
{
    worker workers[THREADS] = {{0}};
    size_t functions = kb_function_count.functions;
    for (int i = 0; i < SLOTS; i++) {
        const kb_slot_target target = {.name = "f", .n_outputs = 1, .step = {.run = slot_one}};
        kb_error err;
        CHECK_INT(kb_slot_bind(&slots[i], sample_target(&target), &err), KB_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i].state = seed * 2654435761u + (uint64_t)i + 1;
        CHECK_INT(pthread_create(&workers[i].thread, NULL, flood, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        for (int which = 0; which < 6; which++)
            CHECK(workers[i].done[which] > 0);
    }
    fake_pool_join();
    CHECK_INT(kb_registry_count(&kb_handler_registry).kernels, KERNELS);
    CHECK_INT((long long)kb_function_count.functions, (long long)functions);
    CHECK_INT(fake_errors_alive(), 0);
}

int main(void)
{
    cu = gpu_start();
    for (uint64_t seed = 1; seed <= 2; seed++)
        test_all_at_once(seed);
    return kb_test_end("test_flood");
}
