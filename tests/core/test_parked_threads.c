/* Proves that a thread that waits for a loop is passed one, that it returns without one after a
 * moment, and that nothing which was passed is lost or comes twice. */
#include "core/kb_parked_threads.h"
#include "core/kb_ticks.h"
#include "kb_test.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 3, PASSED = 1000, SEATS = 64 };

/* As a thread that its owner has called a while ago, and that waits once. */
static void *wait_since(uint64_t entered)
{
    kb_parked_thread thread = {.entered = entered};
    void *data = kb_parked_wait(&thread);
    kb_parked_leave(&thread);
    CHECK_INT(thread.seat, 0);
    return data;
}

static void *wait_now(void)
{
    return wait_since(kb_ticks());
}

static void test_nobody_waits(void)
{
    int data = 0;
    CHECK_INT(kb_parked_hand(&data, SEATS), 0);
    CHECK(wait_now() == NULL);
    CHECK_INT(kb_parked_hand(&data, SEATS), 0); /* it has left */
}

static atomic_int got;
static atomic_bool over;

static void *wait_once(void *data)
{
    void *passed = NULL;
    while (!passed && !atomic_load(&over))
        passed = wait_now();
    atomic_fetch_add(&got, passed == data);
    return NULL;
}

static void test_a_waiting_thread_is_passed_data(void)
{
    pthread_t thread;
    int data = 0;
    atomic_store(&over, false);
    atomic_store(&got, 0);
    CHECK_INT(pthread_create(&thread, NULL, wait_once, &data), 0);
    while (kb_parked_hand(&data, 1) == 0)
        kb_ticks_pause();
    pthread_join(thread, NULL);
    CHECK_INT(atomic_load(&got), 1);
}

static void pause_us(uint64_t us)
{
    for (uint64_t begun = kb_ticks(); kb_ticks() - begun < us * KB_TICKS_PER_US;)
        kb_ticks_pause();
}

/* A thread that has been away from its owner for long does not wait. Others may stop this process
 * meanwhile, so one quick return of many is enough. */
static void test_returns_to_its_owner(void)
{
    bool at_once = false;
    for (int i = 0; i < 1000 && !at_once; i++) {
        uint64_t begun = kb_ticks();
        CHECK(wait_since(begun - (uint64_t)1000000 * KB_TICKS_PER_US) == NULL);
        at_once = kb_ticks() - begun < 10 * KB_TICKS_PER_US;
    }
    CHECK(at_once);
    uint64_t begun = kb_ticks();
    CHECK(wait_since(begun) == NULL);
    CHECK(kb_ticks() - begun > 10 * KB_TICKS_PER_US);
}

static atomic_int times[PASSED];

static void *wait_often(void *data)
{
    (void)data;
    while (!atomic_load(&over)) {
        atomic_int *passed = wait_now();
        if (passed)
            atomic_fetch_add(passed, 1);
    }
    return NULL;
}

static void *pass_some(void *data)
{
    for (atomic_int *next = data, *end = next + PASSED / 2; next < end;)
        if (kb_parked_hand(next, 1) == 1)
            next++;
        else
            kb_ticks_pause();
    return NULL;
}

static void test_each_comes_once(void)
{
    pthread_t threads[THREADS], passing[2];
    atomic_store(&over, false);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, wait_often, NULL), 0);
    for (int i = 0; i < 2; i++)
        CHECK_INT(pthread_create(&passing[i], NULL, pass_some, &times[i * (PASSED / 2)]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(passing[i], NULL);
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < PASSED; i++)
        if (atomic_load(&times[i]) != 1)
            CHECK_INT(atomic_load(&times[i]), 1);
}

static atomic_int received;

/* Waits again and again on one seat. */
static void *wait_on_a_seat(void *data)
{
    kb_parked_thread thread = {0};
    while (!atomic_load(&over)) {
        thread.entered = kb_ticks();
        void *passed = kb_parked_wait(&thread);
        CHECK(!passed || passed == data);
        atomic_fetch_add(&received, passed != NULL);
    }
    kb_parked_leave(&thread);
    return NULL;
}

static void test_several_are_called_at_once(void)
{
    enum { MOST = 2, ALL = 10 * PASSED };
    pthread_t threads[THREADS];
    int data = 0;
    atomic_store(&over, false);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, wait_on_a_seat, &data), 0);
    int64_t handed = 0;
    while (handed < ALL) {
        int64_t n = kb_parked_hand(&data, MOST);
        CHECK(n >= 0 && n <= MOST);
        handed += n;
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(atomic_load(&received), handed);
    CHECK_INT(kb_parked_hand(&data, MOST), 0);
}

static void *wait_a_moment(void *data)
{
    (void)data;
    CHECK(wait_now() == NULL);
    return NULL;
}

/* More threads than seats: the others return at once, and all seats are free again afterwards. */
static void test_more_threads_than_seats(void)
{
    pthread_t threads[SEATS + 8];
    for (int i = 0; i < SEATS + 8; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, wait_a_moment, NULL), 0);
    for (int i = 0; i < SEATS + 8; i++)
        pthread_join(threads[i], NULL);
    test_a_waiting_thread_is_passed_data();
}

/* Loops that follow each other closely keep their threads; the first one does not, nor does one
 * that comes late. */
static void test_when_threads_wait(void)
{
    CHECK(!kb_parked_begin());
    bool kept = false;
    for (int i = 0; i < 1000 && !kept; i++) { /* a pause of this process may come between */
        kb_parked_end();
        kept = kb_parked_begin();
    }
    CHECK(kept);
    kb_parked_end();
    pause_us(1000);
    CHECK(!kb_parked_begin());
}

/* After a wait in which no loop began, some loops let their threads go. */
static void test_a_wait_in_vain(void)
{
    CHECK(wait_now() == NULL);
    int refused = 0;
    bool kept = false;
    while (!kept && refused < 1000) {
        kb_parked_end();
        kept = kb_parked_begin();
        refused += !kept;
    }
    CHECK(kept);
    CHECK(refused >= 16);
}

int main(void)
{
    test_nobody_waits();
    test_a_waiting_thread_is_passed_data();
    test_returns_to_its_owner();
    test_each_comes_once();
    test_several_are_called_at_once();
    test_more_threads_than_seats();
    for (int i = 0; i < 1000 && !kb_parked_begin(); i++) /* what the waits above left behind */
        kb_parked_end();
    pause_us(1000);
    test_when_threads_wait();
    test_a_wait_in_vain();
    return kb_test_end("test_parked_threads");
}
