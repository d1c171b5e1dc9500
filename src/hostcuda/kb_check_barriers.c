/* Owns what barriers mean for the checked mode, and the verdict on who comes to them. */
#include "hostcuda/kb_check.h"
#include "hostcuda/kb_checks.h"

#include <string.h>

void kb_checks_barrier(kb_checks *c)
{
    kb_checks_settle(c);
    c->n_polls = 0;
    c->global.barrier = c->shared.barrier = kb_checks_tick(c);
}

void kb_checks_warp_barrier(kb_checks *c, uint32_t warp, uint32_t lanes)
{
    c->n_polls = 0;
    c->global.seen = c->shared.seen = c->seen = c->seen_room; /* somebody's: there are barriers */
    uint32_t *of_lanes = c->seen + (size_t)warp * KB_WARP * KB_WARP, now = kb_checks_tick(c);
    uint32_t seen[KB_WARP] = {0};
    for (uint32_t l = 0; l < KB_WARP; l++) {
        const uint32_t *of_lane = of_lanes + (size_t)l * KB_WARP;
        if (!(lanes >> l & 1))
            continue;
        for (uint32_t k = 0; k < KB_WARP; k++)
            seen[k] = of_lane[k] > seen[k] ? of_lane[k] : seen[k];
    }
    for (uint32_t l = 0; l < KB_WARP; l++)
        if (lanes >> l & 1)
            seen[l] = now;
    for (uint32_t l = 0; l < KB_WARP; l++)
        if (lanes >> l & 1)
            memcpy(of_lanes + (size_t)l * KB_WARP, seen, sizeof seen);
}

void kb_checks_poll(kb_thread *t, uint32_t again)
{
    enum { POLLS_MAX = 1 << 22 };
    kb_checks *c = t->block->checks;
    char place[KB_PLACE_MAX];
    c->n_polls = again ? c->n_polls + 1 : 0;
    if (c->n_polls > POLLS_MAX)
        kb_checks_fail(t, t->site, t->site,
                       "waits%s for a change of memory that cannot come: the other threads of the "
                       "block wait, too, or have ended, and blocks run one after the other here",
                       kb_checks_place(t, t->site, place));
}

void kb_checks_shuffle(kb_thread *t, uint32_t from)
{
    char place[KB_PLACE_MAX];
    uint32_t index = t->index - t->lane + from;
    const char *why = !(t->call.mask >> from & 1)    ? "is not in its mask"
                      : index >= t->block->n_threads ? "is beyond the threads of the block"
                                                     : "has ended";
    kb_checks_fail(t, t->site, t->site,
                   "reads lane %u in a warp shuffle with the mask 0x%08x%s, and this lane %s: the "
                   "value is undefined on a GPU",
                   from, t->call.mask, kb_checks_place(t, t->site, place), why);
}

void kb_check_grid(kb_thread *t)
{
    if (t->block->n_at_grid + 1 == t->block->n_live)
        kb_checks_settle(t->block->checks);
}

static const kb_thread *waiting_thread(const kb_block *b)
{
    for (uint32_t i = 0; i < b->n_threads; i++)
        if (b->threads[i].state == KB_THREAD_AT_BARRIER &&
            b->threads[i].generation == b->generation)
            return &b->threads[i];
    return NULL;
}

void kb_checks_arrive(kb_thread *t)
{
    kb_block *b = t->block;
    char here[KB_PLACE_MAX], there[KB_PLACE_MAX];
    if (b->n_live < b->n_threads)
        kb_checks_fail(t, t->site, t->site,
                       "comes to cuda.syncthreads%s, which %u of the block's %u threads never "
                       "reach: they have ended",
                       kb_checks_place(t, t->site, here), b->n_threads - b->n_live, b->n_threads);
    const kb_thread *other = b->n_arrived ? waiting_thread(b) : NULL;
    if (other && other->site != t->site)
        kb_checks_fail(t, t->site, other->site,
                       "comes to cuda.syncthreads%s, and thread (%u, %u, %u) to another%s: all "
                       "threads of a block must come to the same",
                       kb_checks_place(t, t->site, here), other->tid[0], other->tid[1],
                       other->tid[2], kb_checks_place(t, other->site, there));
}

void kb_checks_end(kb_thread *t)
{
    t->block->checks->n_polls = 0;
    const kb_thread *other = t->block->n_arrived ? waiting_thread(t->block) : NULL;
    char there[KB_PLACE_MAX];
    if (other)
        kb_checks_fail(t, other->site, other->site,
                       "ends without cuda.syncthreads%s, in which thread (%u, %u, %u) waits",
                       kb_checks_place(t, other->site, there), other->tid[0], other->tid[1],
                       other->tid[2]);
    if (t->block->n_live == t->block->n_at_grid + 1)
        kb_checks_settle(t->block->checks);
}
