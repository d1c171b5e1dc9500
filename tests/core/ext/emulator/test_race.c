/* Proves which two accesses of an element conflict, for each pair of kinds, with each thing that
 * may lie between; and whom the conflict names among several readers. */
#include "ext/emulator/kb_race.h"

#include "ext/emulator/kb_check.h"
#include "kb_test.h"

enum { N_THREADS = 96, R = KB_ACCESS_READ, W = KB_ACCESS_WRITE, A = KB_ACCESS_ATOMIC };

static uint32_t seen[N_THREADS][KB_WARP];
static bool has_seen; /* there was a barrier of a warp */
static kb_race_now now = {.time = 1, .phase = 1, .block = 1, .barrier = 1};

typedef struct element {
    kb_race_cell last;
    kb_race_more more;
} element;

static void barrier(void)
{
    now.barrier = ++now.time;
}

static void next_block(void)
{
    now.block = now.barrier = ++now.time;
}

/* Of a launch, and of a block. */
static void begin(void)
{
    memset(seen, 0, sizeof seen);
    has_seen = false;
    now.phase = ++now.time;
    next_block();
}

static void warp_barrier(uint32_t a, uint32_t b)
{
    uint32_t joint[KB_WARP];
    now.time++;
    has_seen = true;
    for (int i = 0; i < KB_WARP; i++)
        joint[i] = seen[a][i] > seen[b][i] ? seen[a][i] : seen[b][i];
    joint[a % KB_WARP] = joint[b % KB_WARP] = now.time;
    memcpy(seen[a], joint, sizeof joint);
    memcpy(seen[b], joint, sizeof joint);
}

/* The thread that the access conflicts with; -1 for none, and then it is remembered. What passes
 * as a usual case has to be none by the rule, and has to be remembered as well. */
static int touch(element *c, uint32_t thread, uint32_t kind, bool same)
{
    kb_race_party who = kb_race_party_of(now.time, thread, kind, thread + 7);
    element quick = *c;
    now.seen = has_seen ? seen[thread] : NULL;
    kb_race_party other = kb_race_conflict(&c->last, &c->more, &now, who, same);
    bool passes = kind != A && !same && kb_race_passes(&quick.last, &now, who, kind == W);
    if (other) {
        CHECK(!passes);
        CHECK_INT(kb_race_site(other), kb_race_thread(other) + 7);
        return (int)kb_race_thread(other);
    }
    kb_race_note(&c->last, &c->more, &now, who, same);
    CHECK(!passes || quick.last.write == c->last.write);
    CHECK(!passes || quick.last.read == c->last.read ||
          quick.last.read & (KB_RACE_WARPS | KB_RACE_SEVERAL));
    if (passes)
        *c = quick;
    return -1;
}

static void test_pairs(void)
{
    static const uint32_t kinds[3] = {R, W, A};
    for (int i = 0; i < 9; i++) {
        uint32_t first = kinds[i / 3], second = kinds[i % 3];
        bool conflict = (first != R || second != R) && (first != A || second != A);
        for (uint32_t thread = 0; thread < N_THREADS; thread += 31) {
            element cell = {0};
            begin();
            CHECK_INT(touch(&cell, 0, first, false), -1);
            CHECK_INT(touch(&cell, thread, second, false), thread && conflict ? 0 : -1);
            element apart = {0}; /* a barrier of the block lies between */
            CHECK_INT(touch(&apart, 0, first, false), -1);
            barrier();
            CHECK_INT(touch(&apart, thread, second, false), -1);
        }
    }
}

static void test_warp_barriers(void)
{
    for (uint32_t first = R; first <= A; first++) {
        for (uint32_t second = R; second <= A; second++) {
            element cell = {0}, before = {0}, others = {0};
            bool conflict = (first != R || second != R) && (first != A || second != A);
            begin();
            CHECK_INT(touch(&cell, 3, first, false), -1);
            warp_barrier(3, 5);
            CHECK_INT(touch(&cell, 5, second, false), -1);
            begin();
            warp_barrier(3, 5); /* which helps nothing that comes later */
            CHECK_INT(touch(&before, 3, first, false), -1);
            CHECK_INT(touch(&before, 5, second, false), conflict ? 3 : -1);
            begin();
            CHECK_INT(touch(&others, 3, first, false), -1);
            warp_barrier(4, 5); /* in which thread 3 is not */
            CHECK_INT(touch(&others, 5, second, false), conflict ? 3 : -1);
        }
    }
    element chain = {0};
    begin();
    CHECK_INT(touch(&chain, 1, W, false), -1);
    warp_barrier(1, 2);
    warp_barrier(2, 3);
    CHECK_INT(touch(&chain, 3, W, false), -1);
    CHECK_INT(touch(&chain, 35, R, false), 3); /* of another warp */
}

static void test_same_values(void)
{
    element cell = {0};
    begin();
    CHECK_INT(touch(&cell, 0, W, false), -1);
    CHECK_INT(touch(&cell, 1, W, true), -1);
    CHECK_INT(touch(&cell, 40, W, true), -1);
    CHECK_INT(touch(&cell, 2, R, false), 0); /* whose write was the first */
    CHECK_INT(touch(&cell, 2, W, false), 0);
    element read = {0};
    CHECK_INT(touch(&read, 0, R, false), -1);
    CHECK_INT(touch(&read, 1, W, true), -1);
    CHECK_INT(touch(&read, 1, W, false), 0);
    CHECK_INT(touch(&read, 9, R, false), 1); /* what was written there first stays a write */
}

/* An atomic access behind a write of its thread hides it from no other, unless a barrier is
 * between.
 */
static void test_atomic_behind_a_write(void)
{
    element plain = {0}, other = {0}, apart = {0}, warps = {0}, later = {0}, read = {0};
    begin();
    CHECK_INT(touch(&plain, 37, W, false), -1);
    CHECK_INT(touch(&plain, 37, A, false), -1);
    CHECK_INT(touch(&plain, 37, A, false), -1);
    CHECK_INT(touch(&plain, 38, A, false), 37);
    CHECK_INT(touch(&plain, 37, A, false), -1);
    CHECK_INT(touch(&read, 37, A, false), -1); /* nothing is hidden */
    CHECK_INT(touch(&read, 37, A, false), -1);
    CHECK_INT(touch(&read, 38, A, false), -1);
    CHECK_INT(touch(&read, 39, W, false), 38);
    CHECK_INT(touch(&apart, 37, W, false), -1);
    barrier();
    CHECK_INT(touch(&apart, 37, A, false), -1);
    CHECK_INT(touch(&apart, 38, A, false), -1);
    CHECK_INT(touch(&apart, 39, W, false), 38);
    CHECK_INT(touch(&other, 37, W, false), -1);
    warp_barrier(37, 38);
    CHECK_INT(touch(&other, 38, A, false), -1); /* of another thread, which has seen the write */
    CHECK_INT(touch(&other, 39, A, false), -1);
    CHECK_INT(touch(&other, 39, R, false), -1);
    CHECK_INT(touch(&warps, 37, W, false), -1);
    warp_barrier(37, 40);
    CHECK_INT(touch(&warps, 37, A, false), -1);
    CHECK_INT(touch(&warps, 38, A, false), -1);
    CHECK_INT(touch(&later, 37, W, false), -1); /* behind that barrier */
    CHECK_INT(touch(&later, 37, A, false), -1);
    CHECK_INT(touch(&later, 38, A, false), 37);
}

static void test_readers(void)
{
    element one = {0}, two = {0}, own = {0}, across = {0}, ordered = {0};
    begin();
    CHECK_INT(touch(&one, 0, R, false), -1);
    CHECK_INT(touch(&one, 1, R, false), -1);
    CHECK_INT(touch(&one, 2, R, false), -1);
    CHECK_INT(touch(&one, 3, W, false), 1);
    CHECK_INT(touch(&one, 1, W, false), 0); /* never itself */
    CHECK_INT(touch(&one, 0, W, false), 1);
    CHECK_INT(touch(&two, 0, R, false), -1);
    CHECK_INT(touch(&two, 64, R, false), -1);
    CHECK_INT(touch(&two, 0, R, false), -1);
    CHECK_INT(touch(&two, 0, A, false), 64);
    CHECK_INT(touch(&two, 65, W, false), 64);
    CHECK_INT(touch(&own, 5, R, false), -1);
    CHECK_INT(touch(&own, 5, R, false), -1);
    CHECK_INT(touch(&own, 5, W, false), -1);
    CHECK_INT(touch(&own, 5, A, false), -1);
    CHECK_INT(touch(&own, 6, A, false), 5); /* whose write is not forgotten */
    warp_barrier(5, 6);
    CHECK_INT(touch(&own, 6, A, false), -1);

    element again = {0}; /* the first reader is not forgotten as the second one reads again */
    begin();
    warp_barrier(20, 21);
    CHECK_INT(touch(&again, 0, R, false), -1);
    CHECK_INT(touch(&again, 1, R, false), -1);
    CHECK_INT(touch(&again, 1, R, false), -1);
    CHECK_INT(touch(&again, 1, W, false), 0);

    CHECK_INT(touch(&across, 32, R, false), -1);
    for (uint32_t t = 0; t < 4; t++)
        CHECK_INT(touch(&across, t, R, false), -1);
    for (uint32_t t = 0; t < 3; t++)
        warp_barrier(t, 3);
    CHECK_INT(touch(&across, 3, W, false), 32); /* the other warp's read is not forgotten */

    CHECK_INT(touch(&ordered, 10, R, false), -1);
    CHECK_INT(touch(&ordered, 11, R, false), -1);
    warp_barrier(11, 12);
    CHECK_INT(touch(&ordered, 12, W, false), 10);
    warp_barrier(10, 12);
    CHECK_INT(touch(&ordered, 12, R, false), -1);
    CHECK_INT(touch(&ordered, 12, W, false), -1);

    element both = {0}; /* of which the writer has seen each, one after the other */
    CHECK_INT(touch(&both, 13, R, false), -1);
    CHECK_INT(touch(&both, 14, R, false), -1);
    warp_barrier(13, 15);
    warp_barrier(14, 15);
    CHECK_INT(touch(&both, 15, W, false), -1);
}

static void test_blocks(void)
{
    static const uint32_t kinds[3] = {R, W, A};
    for (int i = 0; i < 9; i++) {
        uint32_t first = kinds[i / 3], second = kinds[i % 3];
        bool conflict = (first != R || second != R) && (first != A || second != A);
        element c = {0}, phase = {0}, later = {0}, own = {0};
        begin();
        CHECK_INT(touch(&c, 4, first, false), -1);
        next_block();
        CHECK_INT(touch(&c, 4, second, false), conflict ? 4 : -1); /* of the same number */
        begin();
        CHECK_INT(touch(&phase, 4, first, false), -1);
        begin(); /* a barrier of the grid, or another launch */
        CHECK_INT(touch(&phase, 5, second, false), -1);
        CHECK_INT(touch(&later, 4, first, false), -1);
        next_block();
        barrier(); /* of the other block helps nothing */
        CHECK_INT(touch(&later, 5, second, false), conflict ? 4 : -1);
        begin();
        next_block();
        CHECK_INT(touch(&own, 4, first, false), -1);
        barrier();
        CHECK_INT(touch(&own, 5, second, false), -1);
    }
    element read = {0};
    begin();
    CHECK_INT(touch(&read, 9, R, false), -1);
    next_block();
    CHECK_INT(touch(&read, 4, R, false), -1);
    CHECK_INT(touch(&read, 5, R, false), -1);
    barrier();
    CHECK_INT(touch(&read, 40, R, false), -1);
    CHECK_INT(touch(&read, 40, W, false), 9); /* the other block's read is not forgotten */
    begin();
    CHECK_INT(touch(&read, 40, W, false), -1); /* but in the next launch */
    element left = {0}; /* whose reads of an earlier block are no longer told apart from nothing */
    begin();
    CHECK_INT(touch(&left, 9, R, false), -1);
    next_block();
    CHECK_INT(touch(&left, 4, R, false), -1);
    kb_race_more more = left.more;
    element later = {0};
    CHECK(kb_race_time(more.earlier) > 0);
    later.more = more;
    CHECK_INT(touch(&later, 4, R, false), -1);
    CHECK_INT(touch(&later, 4, W, false), -1);
    element several = {0}; /* nor those of several threads */
    begin();
    CHECK_INT(touch(&several, 0, R, false), -1);
    CHECK_INT(touch(&several, 1, R, false), -1);
    element anew = {.more = several.more};
    CHECK(kb_race_time(anew.more.second) > 0);
    CHECK_INT(touch(&anew, 4, R, false), -1);
    CHECK_INT(touch(&anew, 4, W, false), -1);
}

/* What was made at the very time at which the phase begins is of the phase, and what was made at
 * the time of the block, of the block. */
static void test_ends_of_times(void)
{
    element phase = {0}, before = {0}, block = {0};
    begin();
    CHECK_INT(touch(&before, 4, W, false), -1);
    now.phase = now.block = now.barrier = ++now.time;
    CHECK_INT(touch(&phase, 4, W, false), -1);
    CHECK_INT(touch(&before, 5, W, false), -1);
    next_block();
    CHECK_INT(touch(&phase, 4, R, false), 4);
    CHECK_INT(touch(&block, 4, W, false), -1);
    CHECK_INT(touch(&block, 4, R, false), -1);
    CHECK_INT(touch(&block, 5, R, false), 4);
}

int main(void)
{
    test_pairs();
    test_warp_barriers();
    test_same_values();
    test_atomic_behind_a_write();
    test_readers();
    test_blocks();
    test_ends_of_times();
    return kb_test_end("test_race");
}
