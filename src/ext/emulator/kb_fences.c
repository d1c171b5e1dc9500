/* Owns what is kept of fences. */
#include "ext/emulator/kb_fences.h"

#include "core/kb_arena.h"

static bool begin(kb_fences *f)
{
    if (f->fenced || f->is_blind)
        return !f->is_blind;
    size_t n = (size_t)f->n_threads * f->n_blocks;
    f->fenced = kb_arena_take(f->arena, n, sizeof *f->fenced);
    f->took_part = kb_arena_take(f->arena, n, sizeof *f->took_part);
    f->blocks = kb_arena_take(f->arena, f->n_blocks, sizeof *f->blocks);
    f->is_blind = !f->fenced || !f->took_part || !f->blocks;
    return !f->is_blind;
}

void kb_fences_enter(kb_fences *f, uint32_t block)
{
    if (f->fenced && !f->is_blind)
        f->blocks[block].took_over = 0;
}

void kb_fences_fence(kb_fences *f, uint32_t block, uint32_t thread, uint32_t time, uint32_t barrier)
{
    if (!begin(f))
        return;
    f->fenced[(size_t)block * f->n_threads + thread] = time;
    f->blocks[block].before_fence = barrier;
}

void kb_fences_atomic(kb_fences *f, uint32_t block, uint32_t thread, uint32_t time)
{
    if (!f->fenced || f->is_blind)
        return; /* nothing has been handed on */
    struct kb_block_fences *b = &f->blocks[block];
    f->took_part[(size_t)block * f->n_threads + thread] = time;
    b->took_part = time;
    b->handed_on = b->before_fence;
    b->took_over = b->took_over ? b->took_over : time;
}

bool kb_fences_order(const kb_fences *f, const kb_race_now *now, kb_race_party before,
                     uint32_t from, uint32_t block, uint32_t thread)
{
    if (!f->fenced || f->is_blind)
        return f->is_blind;
    uint32_t time = kb_race_time(before);
    uint32_t fenced = f->fenced[(size_t)from * f->n_threads + kb_race_thread(before)];
    uint32_t took_part = f->took_part[(size_t)block * f->n_threads + thread];
    if (from == block && time >= now->block)
        return fenced > time && took_part > fenced;
    bool handed_on =
        (fenced > time && f->blocks[from].took_part > time) || f->blocks[from].handed_on > time;
    uint32_t first = f->blocks[block].took_over;
    return handed_on && (took_part >= now->block || (first && first < now->barrier));
}
