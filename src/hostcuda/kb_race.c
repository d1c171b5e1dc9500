/* Owns the rule of conflicts. */
#include "hostcuda/kb_race.h"

#include "hostcuda/kb_check.h"

static bool one_warp(uint32_t a, uint32_t b)
{
    return a / KB_WARP == b / KB_WARP;
}

/* Whether it is the same thread, or a barrier of the warp lies between. */
static bool in_order(const kb_race_party *before, const kb_race_event *now)
{
    if (before->thread == now->who.thread)
        return true;
    return one_warp(before->thread, now->who.thread) &&
           before->barriers < now->seen[before->thread % KB_WARP];
}

const kb_race_party *kb_race_conflict(const kb_race_cell *cell, const kb_race_event *now)
{
    const kb_race_party *w = &cell->write, *r = cell->reads;
    bool atomic = now->who.kind == KB_ACCESS_ATOMIC && w->kind == KB_ACCESS_ATOMIC;
    bool writes = now->who.kind != KB_ACCESS_READ;
    if (writes && now->same)
        return NULL;
    if (cell->write_epoch == now->epoch && !atomic && !in_order(w, now))
        return w;
    if (!writes || cell->read_epoch != now->epoch)
        return NULL;
    if (!in_order(&r[0], now))
        return &r[0];
    if (cell->several && !in_order(&r[1], now))
        return &r[1];
    return NULL;
}

static void note_read(kb_race_cell *cell, const kb_race_event *now)
{
    kb_race_party *r = cell->reads;
    if (cell->read_epoch != now->epoch) {
        cell->several = cell->warps = false;
    } else if (!in_order(&r[0], now)) {
        if (!cell->warps || !one_warp(r[0].thread, now->who.thread))
            r[1] = r[0];
        cell->several = true;
        cell->warps = cell->warps || !one_warp(r[0].thread, now->who.thread);
    } else if (cell->several && !cell->warps) {
        cell->several = !in_order(&r[1], now);
    }
    r[0] = now->who;
    cell->read_epoch = now->epoch;
}

void kb_race_note(kb_race_cell *cell, const kb_race_event *now)
{
    if (now->who.kind == KB_ACCESS_READ) {
        note_read(cell, now);
        return;
    }
    if (now->same && cell->write_epoch == now->epoch)
        return; /* whose write was the first remains */
    cell->write = now->who;
    cell->write_epoch = now->epoch;
}
