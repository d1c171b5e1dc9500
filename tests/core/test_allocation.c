/* Proves that every allocation of the core may fail: an error comes back, nothing leaks (which
 * AddressSanitizer's leak checker watches), and the same thing done again succeeds. */
#include "allocation.h"
#include "core/kb_batch.h"
#include "core/kb_handler.h"
#include "sample.h"
#include "torture.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Far enough that there are three tables. A refused kernel must be possible to add again. */
static bool add_many(void)
{
    enum { N = 100 };
    kb_registry own = {.lock = PTHREAD_MUTEX_INITIALIZER}, *registry = &own;
    bool ok = true;
    for (uint64_t id = 0; id < N; id++) {
        sample s;
        kb_error err;
        bool inserted = false;
        sample_init(&s, id, sample_record);
        sample_input(&s, KB_DTYPE_F32, 1, "x");
        size_t before = kb_registry_count(registry).kernels;
        if (had_memory(kb_registry_add(registry, &s.kernel, &inserted, &err), &err)) {
            CHECK(inserted);
            continue;
        }
        ok = false;
        CHECK(!inserted);
        CHECK_INT(kb_registry_count(registry).kernels, (long long)before);
        CHECK_PTR(kb_registry_find(registry, s.kernel.key), NULL);
        CHECK_INT(kb_registry_add(registry, &s.kernel, &inserted, &err), KB_OK);
        CHECK(inserted);
    }
    for (uint64_t id = 0; id < N; id++) {
        uint8_t digest[KB_DIGEST_SIZE];
        sample_digest(digest, id);
        CHECK(kb_registry_find(registry, kb_digest_key(digest)) != NULL);
    }
    sample_free_registry(registry);
    return ok;
}

static bool call(uint32_t n_buffers, int n_levels)
{
    static char memory[1 << 10];
    sample s;
    fake_frame f;
    kb_error err;
    int64_t dims[KB_BATCH_LEVELS_MAX + 1], all = (1 << n_levels) - 1;
    for (int d = 0; d <= n_levels; d++)
        dims[d] = d < 2 ? 2 : 1;
    sample_init(&s, 1, sample_record);
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    sample_input(&s, KB_DTYPE_U8, 1, "x");
    fake_arg(&f, KB_DTYPE_U8, memory, n_levels + 1, dims);
    for (uint32_t i = 1; i < n_buffers; i++) {
        sample_output(&s, KB_DTYPE_U8, 1, "out");
        fake_ret(&f, KB_DTYPE_U8, memory, n_levels + 1, dims);
    }
    sample_recorder_reset(&s.kernel);

    kb_frame frame;
    bool ok = had_memory(kb_frame_read(&frame, &s.kernel, &f.frame,
                                       sample_call(&f, &s.kernel, n_levels, &all), &err),
                         &err);
    if (ok)
        ok = had_memory(kb_batch_run(&frame, &err), &err);
    CHECK_INT(recorder.n_calls, !ok ? 0 : n_levels > 1 ? 4 : 1);
    fake_frame_free(&f);
    return ok;
}

static bool call_few_buffers(void)
{
    return call(16, 0);
}

static bool call_many_buffers(void)
{
    return call(40, 0);
}

static bool call_many_levels(void)
{
    return call(5, KB_BATCH_LEVELS_MAX);
}

static bool call_many_of_both(void)
{
    return call(40, KB_BATCH_LEVELS_MAX);
}

/* A batch takes no memory for up to 64 strides. */
static void test_few_strides(void)
{
    torture_fail_nth(1);
    CHECK(call(16, 4));
    torture_fail_nth(1);
    CHECK(!call(13, 5));
    torture_fail_nth(0);
    CHECK(call(13, 5));
}

static sample offered;

static kb_status resolve(const uint8_t digest[KB_DIGEST_SIZE], kb_xla_bytes origin, kb_error *err)
{
    (void)digest, (void)origin;
    bool inserted;
    return kb_registry_add(&kb_handler_registry, &offered.kernel, &inserted, err);
}

static bool instantiate(void)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_INSTANTIATE);
    sample_attrs(&f, &offered.kernel);
    kb_xla_error *error = kb_handler_host_instantiate(&f.frame);
    bool ok = !error;
    if (error) {
        CHECK_INT(error->code, KB_RESOURCE_EXHAUSTED);
        CHECK_HAS(error->message, "no memory");
    }
    fake_error_destroy(error);
    fake_frame_free(&f);
    return ok;
}

/* The first table of the handlers' registry is made once a process, so each failure has a process
 * of its own. */
static void test_instantiate(void)
{
    enum { INJECTED = 40, NOT_INJECTED = 41 };
    sample_init(&offered, 1, sample_record);
    kb_handler_resolve = resolve;
    long injected = 0;
    for (long n = 1; n < 100; n++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            torture_fail_nth(n);
            bool ok = instantiate();
            bool armed = still_armed(n);
            CHECK(ok == armed);
            CHECK(instantiate()); /* exit runs the leak checker, which changes the status */
            exit(atomic_load(&kb_test_failures) ? KB_TEST_FAIL : armed ? NOT_INJECTED : INJECTED);
        }
        if (!CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)))
            return;
        if (WEXITSTATUS(status) == NOT_INJECTED)
            break;
        CHECK_INT(WEXITSTATUS(status), INJECTED);
        injected++;
    }
    CHECK_INT(injected, 2); /* the first table, the kernel */
}

int main(void)
{
    test_instantiate(); /* first: this process must not have a table yet */
    each_allocation("add", add_many, 100 + 3);
    each_allocation("few buffers", call_few_buffers, 0);
    each_allocation("many buffers", call_many_buffers, 0);
    each_allocation("many levels", call_many_levels, 1);
    each_allocation("many buffers and levels", call_many_of_both, 1);
    test_few_strides();
    return kb_test_end("test_allocation");
}
