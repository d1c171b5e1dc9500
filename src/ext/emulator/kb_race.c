/* Owns the rule of conflicts, and what is kept of fences. */
#include "ext/emulator/kb_race.h"

#include "core/kb_arena.h"
#include "ext/emulator/kb_thread.h"

static bool one_warp(kb_race_party a, kb_race_party b)
{
    return kb_race_thread(a) / KB_WARP == kb_race_thread(b) / KB_WARP;
}

/* Whether it is of a block that ran before in this phase. */
static bool is_earlier(const kb_race_now *now, kb_race_party p)
{
    return kb_race_time(p) >= now->phase && kb_race_time(p) < now->block;
}

static bool in_order(const kb_race_now *now, kb_race_party before, kb_race_party who)
{
    uint32_t time = kb_race_time(before);
    if (is_earlier(now, before))
        return false;
    if (time < now->barrier || kb_race_thread(before) == kb_race_thread(who))
        return true;
    return now->seen && one_warp(before, who) && time < now->seen[kb_race_thread(before) % KB_WARP];
}

kb_race_party kb_race_conflict(const kb_race_cell *cell, const kb_race_more *more,
                               const kb_race_now *now, kb_race_party who, bool same)
{
    kb_race_party w = cell->write, r = cell->read;
    bool writes = kb_race_kind(who) != KB_ACCESS_READ;
    bool atomic = kb_race_kind(who) == KB_ACCESS_ATOMIC && kb_race_kind(w) == KB_ACCESS_ATOMIC;
    if (writes && same)
        return 0;
    if (!atomic && !in_order(now, w, who))
        return w;
    if (!writes || kb_race_time(r) < now->phase)
        return 0;
    if (!in_order(now, r, who))
        return r;
    if (r & KB_RACE_SEVERAL && !in_order(now, more->second, who))
        return more->second;
    return r & KB_RACE_EARLIER ? more->earlier : 0; /* which no barrier of a block orders */
}

/* The flags of a read behind the last one of an interval of this block. */
static uint64_t note_other(kb_race_more *more, const kb_race_now *now, kb_race_party last,
                           kb_race_party who)
{
    uint64_t flags = last & (KB_RACE_SEVERAL | KB_RACE_WARPS | KB_RACE_EARLIER);
    if (!in_order(now, last, who)) {
        bool warps = !one_warp(last, who);
        if (!(flags & KB_RACE_WARPS) || warps)
            more->second = last;
        return flags | KB_RACE_SEVERAL | (warps ? KB_RACE_WARPS : 0);
    }
    if (flags & KB_RACE_SEVERAL && !(flags & KB_RACE_WARPS) && in_order(now, more->second, who))
        flags &= ~KB_RACE_SEVERAL;
    return flags;
}

static void note_read(kb_race_cell *cell, kb_race_more *more, const kb_race_now *now,
                      kb_race_party who)
{
    kb_race_party last = cell->read;
    uint64_t flags = 0;
    if (is_earlier(now, last)) {
        more->earlier = last;
        flags = KB_RACE_EARLIER;
    } else if (kb_race_time(last) >= now->barrier) {
        flags = note_other(more, now, last, who);
    } else if (kb_race_time(last) >= now->phase) {
        flags = last & KB_RACE_EARLIER;
    }
    cell->read = who | flags;
}

/* Whether an atomic access follows a write of the same thread, with nothing between: the write has
 * more conflicts. */
static bool is_covered(const kb_race_now *now, kb_race_party w, kb_race_party who)
{
    uint32_t lane = kb_race_thread(who) % KB_WARP;
    return kb_race_kind(who) == KB_ACCESS_ATOMIC && kb_race_kind(w) == KB_ACCESS_WRITE &&
           kb_race_thread(w) == kb_race_thread(who) && kb_race_time(w) >= now->barrier &&
           !(now->seen && kb_race_time(w) < now->seen[lane]);
}

void kb_race_note(kb_race_cell *cell, kb_race_more *more, const kb_race_now *now, kb_race_party who,
                  bool same)
{
    if (kb_race_kind(who) == KB_ACCESS_READ)
        note_read(cell, more, now, who);
    else if (!is_covered(now, cell->write, who) && (!same || in_order(now, cell->write, who)))
        cell->write = who; /* else whose write was the first remains */
}

void kb_fences_enter(kb_fences *f, uint32_t block)
{
    if (f->fenced && !f->is_blind)
        f->blocks[block].took_over = 0;
}

void kb_fences_fence(kb_fences *f, uint32_t block, uint32_t thread, uint32_t time, uint32_t barrier)
{
    if (!f->fenced && !f->is_blind) {
        size_t n = (size_t)f->n_threads * f->n_blocks;
        f->fenced = kb_arena_take(f->arena, n, sizeof *f->fenced);
        f->took_part = kb_arena_take(f->arena, n, sizeof *f->took_part);
        f->blocks = kb_arena_take(f->arena, f->n_blocks, sizeof *f->blocks);
        f->is_blind = !f->fenced || !f->took_part || !f->blocks;
    }
    if (f->is_blind)
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
    if (from == block)
        return fenced > time && took_part > fenced;
    bool handed_on =
        (fenced > time && f->blocks[from].took_part > time) || f->blocks[from].handed_on > time;
    uint32_t first = f->blocks[block].took_over;
    return handed_on && (took_part >= now->block || (first && first < now->barrier));
}
