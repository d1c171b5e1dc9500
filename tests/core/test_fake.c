/* Proves that the fake XLA behaves as the tests assume: errors are counted copies, attributes are
 * sorted, tasks run on other threads, or are refused. */
#include "kb_test.h"
#include "sample.h"

#include <pthread.h>

static void test_errors(void)
{
    char text[] = "a message";
    kb_xla_error_create args = {
        .struct_size = KB_XLA_SIZE(kb_xla_error_create, code), .message = text, .code = 5};
    kb_xla_error *error = fake_api(3)->error_create(&args);
    memset(text, '?', sizeof text - 1);
    CHECK_TEXT(error->message, "a message");
    CHECK_INT(error->code, 5);
    CHECK_INT(fake_errors_alive(), 1);
    kb_xla_error_destroy gone = {.struct_size = KB_XLA_SIZE(kb_xla_error_destroy, error),
                                 .error = error};
    fake_api(3)->error_destroy(&gone);
    CHECK_INT(fake_errors_alive(), 0);
}

static void test_sorted(void)
{
    fake_frame f;
    fake_frame_init(&f, NULL, KB_XLA_STAGE_EXECUTE);
    const char *const names[] = {"m", "z", "a", "mm", "", "b"};
    for (int i = 0; i < 6; i++)
        fake_attr_string(&f, names[i], names[i], strlen(names[i]));
    const char *const sorted[] = {"", "a", "b", "m", "mm", "z"};
    for (int i = 0; i < 6; i++) {
        const kb_xla_bytes *name = f.frame.attrs.names[i];
        const kb_xla_bytes *value = f.frame.attrs.values[i];
        CHECK_INT(name->size, (long long)strlen(sorted[i]));
        CHECK_INT(memcmp(name->data, sorted[i], name->size), 0);
        CHECK_INT(memcmp(value->data, sorted[i], value->size), 0);
    }
    fake_attr_remove(&f, "m");
    CHECK_INT(f.frame.attrs.size, 5);
    CHECK_INT(f.frame.attrs.names[3]->size, 2);
    fake_frame_free(&f);
}

static atomic_int tasks_run;
static atomic_int tasks_here;
static pthread_t home;

static void count(void *data)
{
    atomic_fetch_add(&tasks_run, *(int *)data);
    atomic_fetch_add(&tasks_here, pthread_equal(pthread_self(), home) != 0);
}

static void test_pool(void)
{
    int one = 1;
    int64_t threads = 0;
    home = pthread_self();
    kb_xla_schedule args = {
        .struct_size = KB_XLA_SIZE(kb_xla_schedule, data), .task = count, .data = &one};
    kb_xla_num_threads ask = {.struct_size = KB_XLA_SIZE(kb_xla_num_threads, num_threads),
                              .num_threads = &threads};
    fake_pool_set(3, false);
    for (int i = 0; i < 20; i++)
        CHECK_PTR(fake_api(3)->thread_pool_schedule(&args), NULL);
    fake_pool_join();
    CHECK_INT(atomic_load(&tasks_run), 20);
    CHECK_INT(atomic_load(&tasks_here), 0);
    CHECK_PTR(fake_api(3)->thread_pool_num_threads(&ask), NULL);
    CHECK_INT(threads, 3);

    fake_pool_set(3, true);
    kb_xla_error *error = fake_api(3)->thread_pool_schedule(&args);
    CHECK(error != NULL);
    fake_error_destroy(error);
    fake_pool_join();
    CHECK_INT(atomic_load(&tasks_run), 20);
    CHECK_INT(fake_errors_alive(), 0);
}

int main(void)
{
    test_errors();
    test_sorted();
    test_pool();
    return kb_test_end("test_fake");
}
