/* Proves which two accesses of an element conflict, for each pair of kinds, with each thing that
 * may lie between; and whom the conflict names among several readers. */
#include "hostcuda/kb_race.h"

#include "hostcuda/kb_check.h"
#include "kb_test.h"

enum { N_THREADS = 96, R = KB_ACCESS_READ, W = KB_ACCESS_WRITE, A = KB_ACCESS_ATOMIC };

static uint32_t seen[N_THREADS][KB_WARP], epoch;

static void begin(void)
{
    memset(seen, 0, sizeof seen);
    epoch++;
}

static void warp_barrier(uint32_t a, uint32_t b)
{
    uint32_t joint[KB_WARP];
    seen[a][a % KB_WARP]++;
    seen[b][b % KB_WARP]++;
    for (int i = 0; i < KB_WARP; i++)
        joint[i] = seen[a][i] > seen[b][i] ? seen[a][i] : seen[b][i];
    memcpy(seen[a], joint, sizeof joint);
    memcpy(seen[b], joint, sizeof joint);
}

/* The thread that the access conflicts with; -1 for none, and then it is remembered. */
static int touch(kb_race_cell *cell, uint32_t thread, int kind, bool same)
{
    kb_race_event event = {
        .who = {seen[thread][thread % KB_WARP], 0, thread + 7, (uint16_t)thread, (uint8_t)kind},
        .epoch = epoch,
        .same = same,
        .seen = seen[thread],
    };
    const kb_race_party *other = kb_race_conflict(cell, &event);
    if (!other) {
        kb_race_note(cell, &event);
        return -1;
    }
    CHECK_INT(other->site, other->thread + 7);
    return other->thread;
}

static void test_pairs(void)
{
    static const int kinds[3] = {R, W, A};
    for (int i = 0; i < 9; i++) {
        int first = kinds[i / 3], second = kinds[i % 3];
        bool conflict = (first != R || second != R) && (first != A || second != A);
        for (uint32_t thread = 0; thread < N_THREADS; thread += 31) {
            kb_race_cell cell = {0};
            begin();
            CHECK_INT(touch(&cell, 0, first, false), -1);
            CHECK_INT(touch(&cell, thread, second, false), thread && conflict ? 0 : -1);
            kb_race_cell apart = {0}; /* a barrier of the block lies between */
            CHECK_INT(touch(&apart, 0, first, false), -1);
            epoch++;
            CHECK_INT(touch(&apart, thread, second, false), -1);
        }
    }
}

static void test_warp_barriers(void)
{
    for (int first = R; first <= A; first++) {
        for (int second = R; second <= A; second++) {
            kb_race_cell cell = {0}, before = {0}, others = {0};
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
    kb_race_cell chain = {0};
    begin();
    CHECK_INT(touch(&chain, 1, W, false), -1);
    warp_barrier(1, 2);
    warp_barrier(2, 3);
    CHECK_INT(touch(&chain, 3, W, false), -1);
    CHECK_INT(touch(&chain, 35, R, false), 3); /* of another warp */
}

static void test_same_values(void)
{
    kb_race_cell cell = {0};
    begin();
    CHECK_INT(touch(&cell, 0, W, false), -1);
    CHECK_INT(touch(&cell, 1, W, true), -1);
    CHECK_INT(touch(&cell, 40, W, true), -1);
    CHECK_INT(touch(&cell, 2, R, false), 0); /* whose write was the first */
    CHECK_INT(touch(&cell, 2, W, false), 0);
    kb_race_cell read = {0};
    CHECK_INT(touch(&read, 0, R, false), -1);
    CHECK_INT(touch(&read, 1, W, true), -1);
    CHECK_INT(touch(&read, 1, W, false), 0);
    CHECK_INT(touch(&read, 9, R, false), 1); /* what was written there first stays a write */
}

static void test_readers(void)
{
    kb_race_cell one = {0}, two = {0}, own = {0}, across = {0}, ordered = {0};
    begin();
    CHECK_INT(touch(&one, 0, R, false), -1);
    CHECK_INT(touch(&one, 1, R, false), -1);
    CHECK_INT(touch(&one, 2, R, false), -1);
    CHECK_INT(touch(&one, 3, W, false), 2);
    CHECK_INT(touch(&one, 2, W, false), 1); /* never itself */
    CHECK_INT(touch(&two, 0, R, false), -1);
    CHECK_INT(touch(&two, 64, R, false), -1);
    CHECK_INT(touch(&two, 0, R, false), -1);
    CHECK_INT(touch(&two, 0, A, false), 64);
    CHECK_INT(touch(&two, 65, W, false), 0);
    CHECK_INT(touch(&own, 5, R, false), -1);
    CHECK_INT(touch(&own, 5, R, false), -1);
    CHECK_INT(touch(&own, 5, W, false), -1);
    CHECK_INT(touch(&own, 5, A, false), -1);

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
}

static void test_written(void)
{
    kb_race_cell cell = {0};
    begin();
    uint32_t begun = epoch;
    CHECK(!kb_race_was_written(&cell, begun));
    CHECK_INT(touch(&cell, 0, R, false), -1);
    CHECK(!kb_race_was_written(&cell, begun));
    CHECK_INT(touch(&cell, 0, A, false), -1);
    epoch++;
    CHECK(kb_race_was_written(&cell, begun));
    CHECK(!kb_race_was_written(&cell, epoch)); /* by the next block */
}

int main(void)
{
    test_pairs();
    test_warp_barriers();
    test_same_values();
    test_readers();
    test_written();
    return kb_test_end("test_race");
}
