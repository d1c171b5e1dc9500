/* Proves what a host kernel is called with, how its status becomes an error, and that the thread
 * pool's lock and thread count are held around parallel kernels and given back. */
#include "core/kb_host.h"
#include "kb_test.h"
#include "sample.h"

#include <pthread.h>
#include <time.h>

static kb_status run(sample *s, fake_frame *f, kb_error *err)
{
    kb_frame frame;
    kb_status status =
        kb_frame_read(&frame, &s->kernel, &f->frame, sample_call(f, &s->kernel, 0, NULL), err);
    return status == KB_OK ? kb_host_run(&s->step.host, &frame, err) : status;
}

/* A call of a kernel without parameters. */
static kb_status run_bare(sample *s, kb_error *err)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    kb_status status = run(s, &f, err);
    fake_frame_free(&f);
    return status;
}

static void test_no_decoder(void)
{
    const int32_t statuses[] = {1, 2, -1, -2, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        sample s;
        kb_error err;
        char text[32];
        sample_init(&s, 1, sample_record);
        sample_recorder_reset(&s.kernel);
        recorder.fail_at = 0;
        recorder.status = statuses[i];
        CHECK_INT(run_bare(&s, &err), KB_INTERNAL);
        CHECK_INT(err.status, KB_INTERNAL);
        CHECK_HAS(err.message, "op1: the kernel failed with status ");
        snprintf(text, sizeof text, "status %d", (int)statuses[i]);
        CHECK_HAS(err.message, text);
    }
}

static struct {
    int calls;
    int32_t status;
    void *exception;
    const char *source;
    size_t capacity;
} decoded;

static void decode(int32_t status, void *exception, const char *source, char *text, size_t capacity)
{
    decoded.calls++;
    decoded.status = status;
    decoded.exception = exception;
    decoded.source = source;
    decoded.capacity = capacity;
    memset(text, 'd', capacity - 1); /* all that it may write: AddressSanitizer watches */
    text[capacity - 1] = '\0';
}

static void test_decoder(void)
{
    int record = 0;
    const struct {
        int32_t status;
        void *exception;
    } cases[] = {{KB_NUMBA_USER_EXCEPTION, &record}, {KB_NUMBA_PYTHON_EXCEPTION, NULL}, {-2, NULL}};
    kb_host_decode = decode;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample s;
        kb_error err;
        sample_init(&s, 1, sample_record);
        sample_recorder_reset(&s.kernel);
        decoded.calls = 0;
        CHECK_INT(run_bare(&s, &err), KB_OK); /* nothing failed, nothing to decode */
        CHECK_INT(decoded.calls, 0);
        recorder.fail_at = 1;
        recorder.status = cases[i].status;
        recorder.exception = cases[i].exception;
        CHECK_INT(run_bare(&s, &err), KB_INTERNAL);
        CHECK_INT(decoded.calls, 1);
        CHECK_INT(decoded.status, cases[i].status);
        CHECK_PTR(decoded.exception, cases[i].exception);
        CHECK_TEXT(decoded.source, "op.py:7");
        CHECK_INT(decoded.capacity, KB_ERROR_CAPACITY - (long long)strlen("op1: "));
        CHECK_INT(strncmp(err.message, "op1: ddd", 8), 0);
        CHECK_INT(strlen(err.message), KB_ERROR_CAPACITY - 1);
    }
    kb_host_decode = NULL;
}

static void test_long_name(void)
{
    static char name[2 * KB_ERROR_CAPACITY];
    sample s;
    kb_error err;
    memset(name, 'n', sizeof name - 1);
    sample_init(&s, 1, sample_record);
    s.kernel.name = name;
    sample_recorder_reset(&s.kernel);
    recorder.fail_at = 0;
    recorder.status = 3;
    kb_host_decode = decode;
    CHECK_INT(run_bare(&s, &err), KB_INTERNAL);
    CHECK_INT(strlen(err.message), KB_ERROR_CAPACITY - 1);
    CHECK_INT(decoded.capacity, 1);
    kb_host_decode = NULL;
}

/* 40 arrays of rank 4, and a scalar. */
static void test_arguments(void)
{
    enum { ARRAYS = 40 };
    static char memory[ARRAYS];
    sample s;
    fake_frame f;
    kb_error err;
    sample_init(&s, 1, sample_record);
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (int i = 0; i < ARRAYS; i++) {
        const int64_t dims[] = {i, 2, i + 3, 1};
        sample_input(&s, KB_DTYPE_U8, 4, "x");
        fake_arg(&f, KB_DTYPE_U8, &memory[i], 4, dims);
    }
    sample_output(&s, KB_DTYPE_U8, 0, "out");
    fake_ret(&f, KB_DTYPE_U8, memory, 0, NULL);
    sample_recorder_reset(&s.kernel);
    CHECK_INT(run(&s, &f, &err), KB_OK);
    CHECK_INT(recorder.n_words, ARRAYS * 5 + 1);
    const int64_t *word = recorder.words;
    for (int i = 0; i < ARRAYS; i++, word += 5) {
        CHECK_PTR((void *)(intptr_t)word[0], &memory[i]);
        CHECK_INT(word[1], i);
        CHECK_INT(word[2], 2);
        CHECK_INT(word[3], i + 3);
        CHECK_INT(word[4], 1);
    }
    CHECK_PTR((void *)(intptr_t)*word, memory);
    fake_frame_free(&f);
}

/* Numba's pool: a number of threads for each thread, which the kernel must find set. */
static _Thread_local int pool_threads = 11;
static _Thread_local int seen_threads;
static atomic_int inside, most_inside, entries, refusals;

static int get_threads(void)
{
    return pool_threads;
}

static void set_threads(int n)
{
    pool_threads = n;
}

static int32_t parallel_entry(void **result, void **exception, void *const *inputs,
                              void *const *outputs)
{
    (void)result, (void)exception, (void)inputs, (void)outputs;
    int now = atomic_fetch_add(&inside, 1) + 1, most = atomic_load(&most_inside);
    while (now > most && !atomic_compare_exchange_weak(&most_inside, &most, now))
        ;
    seen_threads = pool_threads;
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    atomic_fetch_sub(&inside, 1);
    bool fails = atomic_fetch_add(&entries, 1) % 3 == 2; /* a failure gives back as well */
    atomic_fetch_add(&refusals, fails);
    return fails;
}

static void call_parallel(bool parallel, int kernels_own)
{
    sample s;
    kb_error err;
    sample_init(&s, 1, parallel_entry);
    s.step.host.parallel = parallel;
    s.step.host.num_threads = kernels_own;
    if (run_bare(&s, &err) != KB_OK)
        atomic_fetch_sub(&refusals, 1); /* each is told */
    CHECK_INT(pool_threads, 11);
}

static void test_thread_counts(void)
{
    call_parallel(true, 4); /* nothing set up yet: as it is */
    CHECK_INT(seen_threads, 11);
    kb_host_set_threading(get_threads, NULL, false); /* a pool that takes no number */
    call_parallel(true, 4);
    CHECK_INT(seen_threads, 11);
    kb_host_set_threading(get_threads, set_threads, true);
    call_parallel(true, 0);
    CHECK_INT(seen_threads, 11);
    for (int i = 0; i < 3; i++) {
        call_parallel(true, 4);
        CHECK_INT(seen_threads, 4);
    }
    call_parallel(false, 4);
    CHECK_INT(seen_threads, 11);
    CHECK_INT(kb_host_num_threads, 0);
    kb_host_num_threads = 1;
    call_parallel(true, 4);
    CHECK_INT(seen_threads, 1);
    kb_host_num_threads = 2;
    CHECK_INT(kb_host_num_threads, 2);
    call_parallel(true, 4);
    CHECK_INT(seen_threads, 2);
    call_parallel(true, 0);
    CHECK_INT(seen_threads, 2);
    call_parallel(false, 0);
    CHECK_INT(seen_threads, 11);
    kb_host_num_threads = 0;
    call_parallel(true, 4);
    CHECK_INT(seen_threads, 4);
}

static void *caller(void *argument)
{
    for (int i = 0; i < 20; i++)
        call_parallel(*(bool *)argument, 3);
    return NULL;
}

static int most_at_once(bool parallel, bool exclusive)
{
    enum { CALLERS = 4 };
    pthread_t threads[CALLERS];
    kb_host_set_threading(get_threads, set_threads, exclusive);
    atomic_store(&most_inside, 0);
    for (int i = 0; i < CALLERS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, caller, &parallel), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    return atomic_load(&most_inside);
}

static void test_exclusive(void)
{
    CHECK_INT(most_at_once(true, true), 1);
    CHECK(most_at_once(true, false) > 1); /* the test would see an overlap */
    CHECK(most_at_once(false, true) > 1); /* other kernels do not wait */
    CHECK_INT(atomic_load(&refusals), 0);
}

int main(void)
{
    test_no_decoder();
    test_decoder();
    test_long_name();
    test_arguments();
    test_thread_counts();
    test_exclusive();
    return kb_test_end("test_host");
}
