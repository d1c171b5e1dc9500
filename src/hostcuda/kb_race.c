/* Owns the rule of conflicts. */
#include "hostcuda/kb_race.h"

#include "hostcuda/kb_check.h"

static bool one_warp(uint32_t a, uint32_t b)
{
    return a / KB_WARP == b / KB_WARP;
}

/* Whether a barrier of the warp lies between. */
static bool in_order(const kb_race_side *before, const kb_race_event *now)
{
    return !before->warps && one_warp(before->thread, now->thread) &&
           before->warp_epoch < now->warp_epoch;
}

uint32_t kb_race_conflict(const kb_race_cell *cell, const kb_race_event *now)
{
    const kb_race_side *w = &cell->write, *r = &cell->read;
    bool atomic = now->kind == KB_ACCESS_ATOMIC, writes = now->kind != KB_ACCESS_READ;
    if (w->epoch == now->epoch && w->thread != now->thread && !(w->atomic && atomic) &&
        !(writes && now->same) && !in_order(w, now))
        return KB_RACE_WRITE;
    bool others = r->many || r->thread != now->thread;
    if (writes && !now->same && r->epoch == now->epoch && others && !in_order(r, now))
        return KB_RACE_READ;
    return KB_RACE_NONE;
}

void kb_race_note(kb_race_cell *cell, const kb_race_event *now)
{
    bool reads = now->kind == KB_ACCESS_READ;
    kb_race_side *side = reads ? &cell->read : &cell->write;
    if (!reads && now->same && side->epoch == now->epoch)
        return; /* whose write was the first remains */
    bool joins = reads && side->epoch == now->epoch && !in_order(side, now);
    kb_race_side noted = {
        .epoch = now->epoch,
        .warp_epoch = now->warp_epoch,
        .time = now->time,
        .site = now->site,
        .thread = now->thread,
        .atomic = now->kind == KB_ACCESS_ATOMIC,
    };
    if (joins) {
        noted.warps = side->warps || !one_warp(side->thread, now->thread);
        noted.many = side->many || side->thread != now->thread;
    }
    *side = noted;
}
