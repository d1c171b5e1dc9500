/* Proves that a thread that waits for a loop is passed one, that it returns without one after a
 * moment, and that nothing which was passed is lost or comes twice. */
#include "core/kb_linger.h"
#include "core/kb_ticks.h"
#include "kb_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 3, PASSED = 1000, SEATS = 64 };

/* As a thread that its owner has called a while ago, and that waits once. */
static void *wait_since(uint64_t entered)
{
    kb_linger thread = {.entered = entered};
    void *data = kb_linger_wait(&thread);
    kb_linger_leave(&thread);
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
    CHECK_INT(kb_linger_hand(&data, SEATS), 0);
    CHECK(wait_now() == NULL);
    CHECK_INT(kb_linger_hand(&data, SEATS), 0); /* it has left */
}

static atomic_int got;
static atomic_bool over, may_wait;

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
    while (kb_linger_hand(&data, 1) == 0)
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

    kb_linger thread = {0};
    for (int i = 0; i < 1000 && !thread.seat; i++) { /* a millisecond is not long */
        thread.entered = kb_ticks() - (uint64_t)1000 * KB_TICKS_PER_US;
        CHECK(kb_linger_wait(&thread) == NULL);
    }
    CHECK(thread.seat != 0);
    kb_linger_leave(&thread);
    thread.entered -= (uint64_t)1000000 * KB_TICKS_PER_US;
    CHECK(kb_linger_wait(&thread) == NULL);
    CHECK_INT(thread.seat, 0);
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
        if (kb_linger_hand(next, 1) == 1)
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
    kb_linger thread = {0};
    while (!atomic_load(&over)) {
        thread.entered = kb_ticks();
        void *passed = kb_linger_wait(&thread);
        CHECK(!passed || passed == data);
        atomic_fetch_add(&received, passed != NULL);
    }
    kb_linger_leave(&thread);
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
        int64_t n = kb_linger_hand(&data, MOST);
        CHECK(n >= 0 && n <= MOST);
        handed += n;
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(atomic_load(&received), handed);
    CHECK_INT(kb_linger_hand(&data, MOST), 0);
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

/* Two threads that do the same at the same time, so far as that can be. */
static struct {
    atomic_int arrived;
    kb_linger thread;
    _Atomic(uint64_t) begun;
    bool passed;
} pair;

static void meet(int meeting)
{
    atomic_fetch_add(&pair.arrived, 1);
    while (atomic_load(&pair.arrived) < 2 * meeting)
        sched_yield();
}

enum { ROUNDS = 150 };

static void *sit_with_another(void *data)
{
    (void)data;
    for (int i = 0; i < ROUNDS; i++) {
        meet(3 * i + 1);
        pair.thread.entered = kb_ticks();
        CHECK(kb_linger_wait(&pair.thread) == NULL);
        meet(3 * i + 2);
        meet(3 * i + 3); /* the seats have been compared */
        kb_linger_leave(&pair.thread);
    }
    return NULL;
}

/* Threads that come at once have a seat each. */
static void test_two_come_at_once(void)
{
    pthread_t thread;
    kb_linger mine = {0};
    atomic_store(&pair.arrived, 0);
    CHECK_INT(pthread_create(&thread, NULL, sit_with_another, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        meet(3 * i + 1);
        mine.entered = kb_ticks();
        CHECK(kb_linger_wait(&mine) == NULL);
        meet(3 * i + 2);
        CHECK((mine.seat & pair.thread.seat) == 0);
        meet(3 * i + 3);
        kb_linger_leave(&mine);
    }
    pthread_join(thread, NULL);
}

static void *wait_until_late(void *data)
{
    for (int i = 0; i < ROUNDS; i++) {
        meet(2 * i + 1);
        pair.thread.entered = kb_ticks();
        atomic_store(&pair.begun, pair.thread.entered);
        void *passed = kb_linger_wait(&pair.thread);
        CHECK(!passed || passed == data);
        pair.passed = passed != NULL;
        meet(2 * i + 2);
    }
    kb_linger_leave(&pair.thread);
    return NULL;
}

/* What is passed to a thread that is about to leave is either received or handed to nobody. */
static void test_handed_late(void)
{
    enum { MOMENT_US = 50, STEPS = 100 };
    pthread_t thread;
    int data = 0;
    atomic_store(&pair.arrived, 0);
    atomic_store(&pair.begun, 0);
    pair.thread = (kb_linger){0};
    CHECK_INT(pthread_create(&thread, NULL, wait_until_late, &data), 0);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t late = (uint64_t)(i % STEPS) * KB_TICKS_PER_US / STEPS;
        meet(2 * i + 1);
        while (atomic_load(&pair.begun) == 0)
            kb_ticks_pause();
        uint64_t until = atomic_exchange(&pair.begun, 0) + MOMENT_US * KB_TICKS_PER_US + late;
        while (kb_ticks() < until)
            continue;
        int64_t handed = kb_linger_hand(&data, 1);
        meet(2 * i + 2);
        CHECK_INT(pair.passed, handed);
    }
    pthread_join(thread, NULL);
}

/* Each seat has a bit, which its thread keeps until it leaves; one more finds none. */
static void test_seats(void)
{
    kb_linger threads[SEATS], another = {.entered = kb_ticks()};
    for (int round = 0; round < 2; round++) {
        uint64_t taken = 0;
        for (int i = 0; i < SEATS; i++) {
            threads[i] = (kb_linger){.entered = kb_ticks()};
            CHECK(kb_linger_wait(&threads[i]) == NULL);
            CHECK_INT(__builtin_popcountll(threads[i].seat), 1);
            CHECK((taken & threads[i].seat) == 0);
            taken |= threads[i].seat;
        }
        CHECK(taken == UINT64_MAX);
        another.entered = kb_ticks();
        CHECK(kb_linger_wait(&another) == NULL);
        CHECK_INT(another.seat, 0);
        kb_linger_leave(&another); /* which frees none */
        CHECK(kb_linger_wait(&another) == NULL);
        CHECK_INT(another.seat, 0);
        uint64_t last = threads[SEATS / 2].seat;
        kb_linger_leave(&threads[SEATS / 2]);
        another.entered = kb_ticks();
        CHECK(kb_linger_wait(&another) == NULL);
        CHECK(another.seat == last);
        kb_linger_leave(&another);
        for (int i = 0; i < SEATS; i++)
            kb_linger_leave(&threads[i]);
        CHECK_INT(kb_linger_hand(&taken, SEATS), 0);
    }
}

/* Loops that follow each other closely keep their threads; the first one does not, nor does one
 * that comes late. */
static void test_when_threads_wait(void)
{
    CHECK(!kb_linger_begin());
    bool kept = false;
    for (int i = 0; i < 1000 && !kept; i++) { /* a pause of this process may come between */
        kb_linger_end();
        kept = kb_linger_begin();
    }
    CHECK(kept);
    kb_linger_end();
    pause_us(1000);
    CHECK(!kb_linger_begin());
}

/* Loops that let their threads go, until one keeps them. */
static int refused_before_kept(void)
{
    int refused = 0;
    for (bool kept = false; !kept && refused < 1000; refused += !kept) {
        kb_linger_end();
        kept = kb_linger_begin();
    }
    CHECK(refused < 1000);
    return refused;
}

/* After a wait in which no loop began, sixteen loops let their threads go, and each that this
 * process was stopped in. */
static void test_a_wait_in_vain(void)
{
    int refused = 0;
    for (int i = 0; i < 1000 && refused != 16; i++) {
        CHECK(wait_now() == NULL);
        refused = refused_before_kept();
        CHECK(refused >= 16);
    }
    CHECK_INT(refused, 16);
}

static void *wait_in_turn(void *data)
{
    while (!atomic_load(&over)) {
        while (!atomic_load(&may_wait) && !atomic_load(&over))
            kb_ticks_pause();
        void *passed = wait_now();
        CHECK(!passed || passed == data);
        atomic_store(&may_wait, false);
    }
    return NULL;
}

/* A wait in which a loop began was not in vain, nor was one that ended with a loop, even if none
 * began meanwhile: all threads wait for the next one. Others may stop this process, so one wait of
 * many is enough. */
static void wait_well(bool begins, bool hands)
{
    pthread_t thread;
    int data = 0;
    bool kept = false;
    atomic_store(&over, false);
    atomic_store(&may_wait, false);
    CHECK_INT(pthread_create(&thread, NULL, wait_in_turn, &data), 0);
    for (int i = 0; i < 10000 && !kept; i++) {
        (void)refused_before_kept();
        int64_t handed = 0;
        int loops = 0;
        atomic_store(&may_wait, true);
        while (atomic_load(&may_wait)) {
            if (begins && loops++ == i % 500)
                (void)kb_linger_begin();
            if (hands && !handed)
                handed = kb_linger_hand(&data, 1);
        }
        kept = (!hands || handed == 1) && refused_before_kept() == 0;
    }
    CHECK(kept);
    atomic_store(&over, true);
    pthread_join(thread, NULL);
}

int main(void)
{
    test_nobody_waits();
    test_a_waiting_thread_is_passed_data();
    test_returns_to_its_owner();
    test_each_comes_once();
    test_several_are_called_at_once();
    test_more_threads_than_seats();
    test_seats();
    test_two_come_at_once();
    test_handed_late();
    for (int i = 0; i < 1000 && !kb_linger_begin(); i++) /* what the waits above left behind */
        kb_linger_end();
    pause_us(1000);
    test_when_threads_wait();
    test_a_wait_in_vain();
    wait_well(true, false);
    wait_well(false, true);
    return kb_test_end("test_linger");
}
