/* Proves that user code on a CPU sees subnormal numbers on whichever thread it runs, and that the
 * thread is given back as it was, after failures as well. */
#include "core/kb_float_mode.h"
#include "core/kb_handler.h"
#include "core/kb_pool.h"
#include "kb_test.h"
#include "module/kb_slot.h"
#include "sample.h"

#include <float.h>
#include <pthread.h>
#include <sched.h>

static bool flushes(void)
{
    volatile float smallest = FLT_MIN, half = 0.5f;
    return smallest * half == 0;
}

static atomic_long n_seen, n_flushed;
static int status; /* that user code returns */

static void look(void)
{
    atomic_fetch_add(&n_seen, 1);
    atomic_fetch_add(&n_flushed, flushes());
}

static int32_t look_entry(void **result, void **exception, void *const *inputs,
                          void *const *outputs)
{
    (void)result, (void)exception, (void)inputs, (void)outputs;
    look();
    return status;
}

static int look_function(const kb_call *call)
{
    (void)call;
    look();
    return status;
}

static void check_seen(long n)
{
    CHECK_INT(atomic_exchange(&n_seen, 0), n);
    CHECK_INT(atomic_exchange(&n_flushed, 0), 0);
}

static void use_mode(uint64_t mode)
{
    kb_float_mode_write(mode);
    CHECK_INT(flushes(), (mode & KB_FLOAT_FLUSHES) != 0);
}

static void check_call(kb_xla_error *error, uint64_t mode, long n)
{
    bool failed = error != NULL;
    CHECK_INT(kb_float_mode_read() & KB_FLOAT_FLUSHES, (long long)(mode & KB_FLOAT_FLUSHES));
    CHECK_INT(failed, status != 0);
    fake_error_destroy(error);
    check_seen(n);
}

static void test_handler(uint64_t mode)
{
    const int64_t dims[] = {3}, masks[] = {1};
    float x[3] = {0}, y[3];
    sample s;
    fake_frame f;
    kb_error err;
    bool inserted;
    sample_init(&s, 1, look_entry);
    sample_input(&s, KB_DTYPE_F32, 0, "x");
    sample_output(&s, KB_DTYPE_F32, 0, "y");
    CHECK_INT(kb_registry_add(&kb_handler_registry, &s.kernel, &inserted, &err), KB_OK);
    for (int batch = 0; batch < 2; batch++) {
        fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
        fake_arg(&f, KB_DTYPE_F32, x, batch, dims);
        fake_ret(&f, KB_DTYPE_F32, y, batch, dims);
        sample_attrs(&f, &s.kernel);
        if (batch)
            (void)sample_call(&f, &s.kernel, 1, masks);
        use_mode(mode);
        check_call(kb_handler_host_execute(&f.frame), mode, batch && status == 0 ? 3 : 1);
        fake_frame_free(&f);
    }
}

static void test_target(uint64_t mode)
{
    const kb_slot_target target = {.name = "m.f", .step = {.run = look_function}};
    static kb_slot slot;
    kb_error err;
    fake_frame f;
    CHECK_INT(kb_slot_bind(&slot, sample_target(&target), &err), KB_OK);
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    use_mode(mode);
    check_call(slot.handle(&slot, &f.frame), mode, 1);
    fake_frame_free(&f);
}

static pthread_t caller;

/* The caller's own parts wait until another thread has come. */
static void look_part(void *data, int64_t begin, int64_t end)
{
    (void)data, (void)begin, (void)end;
    if (!pthread_equal(pthread_self(), caller))
        look();
    while (!atomic_load(&n_seen))
        sched_yield();
}

/* Threads begin in the mode of the one that makes them. */
static void test_pool(uint64_t mode)
{
    fake_frame f;
    caller = pthread_self();
    fake_pool_set(4, false);
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    use_mode(mode);
    kb_pool_for(&f.frame, 64, look_part, NULL);
    fake_pool_join();
    CHECK(atomic_exchange(&n_seen, 0) > 0);
    CHECK_INT(atomic_exchange(&n_flushed, 0), 0);
    fake_frame_free(&f);
}

/* A pool whose thread is this one. */
static kb_xla_error *run_now(kb_xla_schedule *args)
{
    uint64_t before = kb_float_mode_read();
    args->task(args->data);
    CHECK_INT(kb_float_mode_read() & KB_FLOAT_FLUSHES, (long long)(before & KB_FLOAT_FLUSHES));
    return NULL;
}

static void look_parts(void *data, int64_t begin, int64_t end)
{
    (void)data, (void)begin, (void)end;
    look();
}

static void test_thread_of_the_pool(uint64_t mode)
{
    fake_frame f;
    kb_xla_api api = *fake_api(3);
    api.thread_pool_schedule = run_now;
    fake_pool_set(2, false);
    fake_frame_init(&f, &api, KB_XLA_STAGE_EXECUTE);
    use_mode(mode);
    kb_pool_for(&f.frame, 8, look_parts, NULL);
    check_seen(8);
    fake_frame_free(&f);
}

static void run(uint64_t mode, int code)
{
    status = code;
    test_handler(mode);
    test_target(mode);
    if (code == 0) {
        test_pool(mode);
        test_thread_of_the_pool(mode);
    }
}

int main(void)
{
    if (!KB_FLOAT_FLUSHES)
        return KB_TEST_SKIP;
    uint64_t exact = kb_float_mode_read() & ~(uint64_t)KB_FLOAT_FLUSHES;
    kb_float_mode_write(exact | KB_FLOAT_FLUSHES);
    uint64_t flushing = kb_float_mode_read(); /* what the processor has of it */
    for (int code = 0; code < 2; code++) {
        run(exact, code);
        run(flushing, code);
    }
    kb_float_mode_write(exact);
    return kb_test_end("test_float_mode");
}
