/* Proves that every index of a loop is done once and that no loop is left behind, in whatever order
 * loops, sizes of the pool, held tasks, refused tasks and nested loops follow each other. */
#include "fuzz.h"

#include "core/kb_pool.h"
#include "fake_xla.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_MAX = 400 };

const char fuzz_name[] = "fuzz_pool";

static struct {
    long loops, nested;
} counts;

typedef struct loop {
    const kb_xla_frame *xla;
    int64_t inner;
    atomic_uchar seen[COUNT_MAX];
    atomic_long n_inner;
} loop;

static void add(void *data, int64_t begin, int64_t end)
{
    atomic_fetch_add((atomic_long *)data, (long)(end - begin));
}

static void look(void *data, int64_t begin, int64_t end)
{
    loop *l = data;
    require(0 <= begin && begin < end && end <= COUNT_MAX, "a part");
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&l->seen[i], 1);
    if (l->inner > 0)
        kb_pool_for(l->xla, l->inner, add, &l->n_inner);
}

static void run(const kb_xla_frame *xla, reader *r)
{
    loop *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    uint8_t how = byte(r) % 8;
    int64_t count = ((int64_t)byte(r) << 8 | byte(r)) % (COUNT_MAX + 1) - 1;
    l->xla = xla;
    l->inner = how == 0 ? byte(r) % 20 : 0;
    if (how < 3) {
        kb_pool_for(xla, count, look, l);
    } else {
        const kb_pool_loop of = {look, l, count, byte(r) % 16 + 1, byte(r) % 12 + 1};
        kb_pool_run(xla, &of);
    }
    for (int64_t i = 0; i < COUNT_MAX; i++)
        require(atomic_load(&l->seen[i]) == (i < count), "an index was not done once");
    require(l->inner == 0 || atomic_load(&l->n_inner) % l->inner == 0, "an inner loop");
    counts.nested += l->inner > 0;
    counts.loops++;
    free(l); /* a task that begins late must not come here */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reader r = {data, data + size};
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (int n = byte(&r) % 4 + 1; n > 0; n--) {
        fake_pool_set(byte(&r) % 5, byte(&r) % 8 == 0);
        bool hold = byte(&r) % 4 == 0;
        if (hold)
            fake_pool_hold(true);
        run(&f.frame, &r);
        if (hold)
            fake_pool_hold(false);
        if (byte(&r) % 2)
            fake_pool_join();
    }
    fake_pool_join();
    fake_pool_set(0, false);
    require(fake_errors_alive() == 0, "an error was left");
    fake_frame_free(&f);
    return 0;
}

bool fuzz_tell(uint64_t n)
{
    printf("fuzz_pool: %llu inputs: %ld loops, %ld of them with loops inside\n",
           (unsigned long long)n, counts.loops, counts.nested);
    return counts.loops && counts.nested;
}
