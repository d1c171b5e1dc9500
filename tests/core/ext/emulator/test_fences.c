/* Proves what fences and atomic accesses hand on, from thread to thread and from block to block. */
#include "core/kb_arena.h"
#include "ext/emulator/kb_check.h"
#include "ext/emulator/kb_race.h"
#include "kb_test.h"
#include "torture.h"

enum { THREADS = 4, BLOCKS = 3 };

static kb_fences f;

static void begin(void)
{
    kb_arena_free(f.arena);
    f = (kb_fences){.arena = kb_arena_new(), .n_threads = THREADS, .n_blocks = BLOCKS};
}

/* Whether thread `thread` of `block` has taken over what a thread of `from` wrote at that time. */
static bool takes(uint32_t time, uint32_t writer, uint32_t from, uint32_t thread, uint32_t block,
                  uint32_t begun, uint32_t barrier)
{
    const kb_race_now now = {.block = begun, .barrier = barrier};
    return kb_fences_order(&f, &now, kb_race_party_of(time, writer, KB_ACCESS_WRITE, 1), from,
                           block, thread);
}

static void test_own_fence(void)
{
    begin();
    CHECK(!takes(10, 1, 0, 2, 1, 30, 30));
    kb_fences_atomic(&f, 0, 1, 11); /* before any fence: of no use */
    kb_fences_fence(&f, 0, 1, 12, 5);
    CHECK(!takes(10, 1, 0, 2, 1, 30, 30));
    kb_fences_atomic(&f, 0, 1, 13);
    CHECK(!takes(10, 1, 0, 2, 1, 30, 30));
    kb_fences_enter(&f, 1);
    kb_fences_atomic(&f, 1, 2, 31);
    CHECK(takes(10, 1, 0, 2, 1, 30, 30));
    CHECK(takes(11, 1, 0, 2, 1, 30, 30));
    CHECK(!takes(12, 1, 0, 2, 1, 30, 30)); /* not before the fence */
    CHECK(!takes(10, 3, 0, 2, 1, 30, 30)); /* another thread's */
    CHECK(!takes(10, 1, 0, 3, 1, 30, 30)); /* nor for another one, */
    CHECK(!takes(10, 1, 0, 3, 1, 30, 31));
    CHECK(takes(10, 1, 0, 3, 1, 30, 32)); /* unless it stands behind a barrier */
    CHECK(takes(10, 1, 0, 2, 1, 31, 31));
    kb_fences_enter(&f, 1);
    CHECK(!takes(10, 1, 0, 3, 1, 40, 41));
    kb_fences_atomic(&f, 1, 0, 42);
    kb_fences_atomic(&f, 1, 0, 45);
    CHECK(takes(10, 1, 0, 3, 1, 40, 43)); /* the first of its accesses counts */
    CHECK(!takes(10, 1, 0, 3, 1, 40, 42));
    CHECK(!takes(10, 1, 0, 3, 2, 40, 43));
}

/* What a thread writes behind its last atomic access is not handed on, whatever fence follows. */
static void test_fence_at_the_end(void)
{
    begin();
    kb_fences_fence(&f, 0, 1, 12, 5);
    kb_fences_atomic(&f, 0, 1, 13);
    kb_fences_fence(&f, 0, 1, 14, 5);
    kb_fences_enter(&f, 1);
    kb_fences_atomic(&f, 1, 2, 31);
    CHECK(takes(11, 1, 0, 2, 1, 30, 30));
    CHECK(!takes(13, 1, 0, 2, 1, 30, 30));
}

/* What a barrier stands behind is handed on by any thread of the block. */
static void test_fence_behind_a_barrier(void)
{
    begin();
    kb_fences_fence(&f, 0, 0, 20, 15);
    kb_fences_atomic(&f, 0, 0, 21);
    kb_fences_enter(&f, 2);
    kb_fences_atomic(&f, 2, 3, 51);
    CHECK(takes(14, 2, 0, 3, 2, 50, 50));
    CHECK(!takes(15, 2, 0, 3, 2, 50, 50));
    CHECK(!takes(14, 2, 1, 3, 2, 50, 50));
    kb_fences_fence(&f, 0, 0, 25, 24); /* nobody has taken part since */
    CHECK(!takes(23, 2, 0, 3, 2, 50, 50));
    kb_fences_atomic(&f, 0, 3, 26);
    CHECK(takes(23, 2, 0, 3, 2, 50, 50));
}

/* Within a block, a thread takes part behind the fence of the writer. */
static void test_one_block(void)
{
    begin();
    kb_fences_fence(&f, 1, 0, 20, 5);
    kb_fences_atomic(&f, 1, 0, 21);
    CHECK(!takes(18, 0, 1, 2, 1, 10, 10));
    kb_fences_atomic(&f, 1, 2, 22);
    CHECK(takes(18, 0, 1, 2, 1, 10, 10));
    CHECK(takes(10, 0, 1, 2, 1, 10, 10));
    CHECK(!takes(20, 0, 1, 2, 1, 10, 10));
    CHECK(!takes(18, 3, 1, 2, 1, 10, 10));
    kb_fences_fence(&f, 1, 0, 22, 5);
    CHECK(!takes(18, 0, 1, 2, 1, 10, 10));
}

/* Without memory everything is in order: nothing is reported that is not so. */
static void test_no_memory(void)
{
    for (int n = 1; n <= 3; n++) {
        begin();
        f.n_blocks = 1024; /* each array is a chunk of the arena */
        torture_fail_nth(n);
        kb_fences_fence(&f, 0, 1, 12, 5);
        torture_fail_nth(0);
        CHECK(f.is_blind);
        kb_fences_fence(&f, 0, 1, 13, 5);
        kb_fences_enter(&f, 0);
        kb_fences_atomic(&f, 0, 1, 14);
        CHECK(takes(10, 1, 0, 2, 1, 30, 30));
    }
    begin();
    kb_fences_enter(&f, 0);
    kb_fences_fence(&f, 0, 1, 12, 5);
    CHECK(!f.is_blind && !takes(10, 1, 0, 2, 1, 30, 30));
    kb_arena_free(f.arena);
}

int main(void)
{
    test_own_fence();
    test_fence_at_the_end();
    test_fence_behind_a_barrier();
    test_one_block();
    test_no_memory();
    return kb_test_end("test_fences");
}
