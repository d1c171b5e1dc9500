/* Owns the description of the arrays, blocks and time of a launch in checked mode, the verdict on
 * each access, and what barriers mean for it. */
#include "ext/emulator/kb_check.h"

#include "core/kb_arena.h"
#include "ext/emulator/kb_guard.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of addresses that were made of wrong indices: the last ones. */
enum { WRONG_FIRST = KB_CHECK_TAG_MAX - KB_CHECK_WRONG_MAX + 1, PLACE_MAX = 256 };

/* An address that carries the number of a row, or, with 0, one of memory. */
static void *tagged(uint64_t address, uint64_t row)
{
    uint64_t word = (address & KB_CHECK_ADDRESS) | row << KB_CHECK_TAG_SHIFT;
    return (void *)(uintptr_t)word; // NOLINT(performance-no-int-to-ptr)
}

/* Advances the time, for all. */
static uint32_t tick(kb_checks *c)
{
    c->global.time = c->shared.time = ++c->shadow->time;
    return c->shadow->time;
}

/* Keeps for later launches of the call what the phase has written. */
static void keep_written(const kb_checks *c)
{
    for (uint32_t i = 0; i < c->table->n_arguments; i++) {
        const kb_check_row *row = &c->rows->of[i + 1];
        uint64_t n = row->cells && c->written[i] ? row->size / row->unit : 0;
        for (uint64_t k = 0; k < n; k++)
            if (kb_race_time(row->cells[k].write) >= c->global.phase)
                memset(c->written[i] + k * row->unit, 1, row->unit);
    }
}

void kb_checks_phase(kb_checks *c)
{
    keep_written(c);
    if (kb_shadow_renew(c->shadow))
        memset(c->seen, 0, (size_t)c->n_threads * KB_WARP * sizeof *c->seen);
    c->n_begins = 0;
    c->global.phase = tick(c);
    for (uint32_t i = 0; i < c->table->n_arguments; i++) {
        kb_check_row *row = &c->rows->of[i + 1];
        uint64_t first = kb_range_first(&c->ranges[i], c->slice);
        row->first = first & KB_CHECK_ADDRESS;
        c->written[i] = kb_unwritten_find(first, row->size);
        row->since = c->written[i] ? c->global.phase : 0;
    }
}

void kb_checks_free(kb_checks *c)
{
    if (!c)
        return;
    if (c->shadow)
        keep_written(c);
    kb_shadow_give_back(c->shadow);
    kb_arena_free(c->arena);
    free(c);
}

uint64_t kb_checks_shared(const kb_checks *c, const kb_check_array *about,
                          const unsigned char *memory)
{
    uint64_t of_block = c->begun ? (uint64_t)c->block * KB_CHECK_STRIDE : 0;
    return about->offset + (about->flags & KB_CHECK_SPREAD ? of_block : (uintptr_t)memory);
}

void kb_checks_place(kb_checks *c, uint32_t range, uint64_t first)
{
    size_t cell = c->shared_cell + (c->begun ? c->block * c->shared_cells : 0);
    kb_check_row *row = &c->rows->of[range + 1];
    row->first = first & KB_CHECK_ADDRESS;
    row->cells = c->shadow->cells + cell + c->ranges[range].cell;
    row->since = c->begun ? c->begun[c->block] : c->shared.block;
}

void kb_checks_enter(kb_checks *c, const kb_block *b)
{
    const uint32_t *at = b->threads[0].ctaid;
    bool is_other = c->is_batched && c->slice != at[2];
    if (is_other || (!c->begun && kb_shadow_is_late(c->shadow))) {
        c->slice = at[2];
        kb_checks_phase(c);
    }
    c->block = at[0] + c->sizes[0] * (at[1] + c->sizes[1] * at[2]);
    uint32_t now = tick(c);
    c->global.block = c->global.barrier = now;
    c->shared.phase = c->shared.block = c->shared.barrier = now;
    c->begins[c->n_begins++] = (kb_block_start){now, c->block};
    c->n_polls = 0;
    kb_fences_enter(&c->fences, c->block);
    bool begins = !c->begun || c->begun[c->block] == 0;
    if (begins && c->shared_cells) /* what is read of it too early is the same in each run */
        memset(b->shared, 0, (size_t)b->code->shared + b->threads[0].dynamic_shared);
    if (c->begun && begins)
        c->begun[c->block] = now;
    for (uint32_t i = c->table->n_arguments; i < c->n_ranges; i++) {
        const kb_check_array *a = c->ranges[i].about;
        uint64_t first = kb_checks_shared(c, a, b->shared);
        if (begins && a->size) /* that the code has declared */
            memset(tagged(first, 0), 0, a->size);
        kb_checks_place(c, i, first);
    }
}

/* The block of an access that was made in this phase. */
static uint32_t block_of(const kb_checks *c, uint32_t time)
{
    uint32_t low = 0, high = c->n_begins;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (c->begins[middle].time <= time)
            low = middle;
        else
            high = middle;
    }
    return c->begins[low].block;
}

const kb_check_rows *kb_check_rows_of(kb_thread *t)
{
    return t->block->checks->rows;
}

void *kb_check_shared_array(kb_thread *t, uint32_t which)
{
    const kb_check_table *table = t->block->checks->table;
    uint32_t i = table->n_arguments + which;
    return tagged((uintptr_t)(t->shared + table->arrays[i].offset), i + 1);
}

void *kb_check_local_array(kb_thread *t, void *memory, uint32_t which)
{
    const kb_checks *c = t->block->checks;
    uint32_t i = c->n_ranges + which;
    c->locals[t->index * c->table->n_local + which] = memory;
    if (!c->table->waits) { /* threads run one after the other: it lies there for all */
        kb_check_row *row = &c->rows->of[i + 1];
        row->first = (uintptr_t)memory & KB_CHECK_ADDRESS;
        row->size = c->table->arrays[i].size;
    }
    return tagged((uintptr_t)memory, i + 1);
}

/* The place of an index that was wrong before in the same way, or a new one. */
static uint32_t place_of_wrong(kb_checks *c, const kb_wrong_index *new)
{
    enum { LOOK_BACK = 8 };
    for (uint32_t i = 1; i <= LOOK_BACK && i <= c->n_wrong; i++) {
        uint32_t place = (c->n_wrong - i) % KB_CHECK_WRONG_MAX;
        if (memcmp(&c->wrong[place], new, sizeof *new) == 0)
            return place;
    }
    uint32_t place = c->n_wrong++ % KB_CHECK_WRONG_MAX;
    c->wrong[place] = *new;
    return place;
}

void *kb_check_wrong(kb_thread *t, void *made, int64_t index, int64_t extent, uint32_t axis)
{
    uint64_t word = (uintptr_t)made;
    uint32_t which = (uint32_t)(word >> KB_CHECK_TAG_SHIFT & KB_CHECK_TAG_MAX);
    if (which >= WRONG_FIRST)
        return made; /* part of a view that is wrong already; the first one is reported */
    const kb_wrong_index wrong = {index < 0 ? index - extent : index, extent, axis, which};
    return tagged(word, WRONG_FIRST + place_of_wrong(t->block->checks, &wrong));
}

/* A place in the source: where its text begins, if it has one. */
static const char *site_of(const kb_checks *c, uint32_t site, char room[KB_SITE_TEXT],
                           const char **text)
{
    const char *place = c->spread                  ? kb_site_text(site, room)
                        : site < c->table->n_sites ? c->table->sites[site]
                                                   : "";
    *text = strchr(place, KB_CHECK_TEXT);
    return place;
}

/* Room for a text, in the block of code where it is said. */
#define ROOM(size) ((char[size]){""})

/* " (at file:line)", or "". */
#define PLACE_TEXT(t, site) place_text(t, site, ROOM(PLACE_MAX))
static const char *place_text(const kb_thread *t, uint32_t site, char text[PLACE_MAX])
{
    char room[KB_SITE_TEXT];
    const char *end, *place = site_of(t->block->checks, site, room, &end);
    if (*place)
        (void)snprintf(text, PLACE_MAX, " (at %.*s)",
                       (int)(end ? end - place : (ptrdiff_t)strlen(place)), place);
    return text;
}

static void append_line(const kb_checks *c, uint32_t site, char lines[], size_t size)
{
    char room[KB_SITE_TEXT];
    const char *text, *place = site_of(c, site, room, &text);
    size_t there = strlen(lines);
    if (text)
        (void)snprintf(lines + there, size - there, "\n    %.*s: %s", (int)(text - place), place,
                       text + 1);
}

void kb_check_fail(kb_thread *t, uint32_t site, uint32_t other, const char *format, ...)
{
    char message[KB_FAULT_SIZE], lines[2 * PLACE_MAX] = "";
    const kb_checks *c = t->block->checks;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    kb_checks_settle(t->block->checks); /* which came before */
    append_line(c, site, lines, sizeof lines);
    if (other != site)
        append_line(c, other, lines, sizeof lines);
    kb_block_fail(t, "%s%s", message, lines);
}

void kb_checks_settle(kb_checks *c)
{
    kb_checks_settle_race(c);
    kb_thread *t = c->unwritten.thread;
    c->unwritten.thread = NULL;
    if (t)
        kb_check_fail(t, c->unwritten.site, c->unwritten.site, "%s", c->unwritten.text);
}

/* Of a shape or an element: each of the 32 numbers has ", " or a bracket before it, and they have
 * 51 digits at most, since their product has 19 or fewer. */
enum { NAME_MAX = 160, MANY_UNWRITTEN = 4096 /* reads; a thread may wait for a change */ };

typedef struct access {
    uint64_t row, offset, size;
    uint32_t kind, site; /* a kb_access */
    bool same;           /* it writes what is there */
} access;

static const char *const verbs[] = {"reads", "writes", "updates", "writes"};

static bool is_shared(const kb_checks *c, uint64_t row)
{
    return row > c->table->n_arguments;
}

/* What an access does to which element, without a place. */
#define DEED(c, a) deed(c, a, ROOM(KB_FAULT_SIZE))
static const char *deed(const kb_checks *c, const access *a, char text[KB_FAULT_SIZE])
{
    const kb_range *r = &c->ranges[a->row - 1];
    char element[NAME_MAX];
    kb_range_element(r, (int64_t)a->offset + r->low, element, sizeof element);
    (void)snprintf(text, KB_FAULT_SIZE, "%s element %s of %s", verbs[a->kind], element,
                   r->about->name);
    return text;
}

/* An access by an address that a wrong index made. */
static _Noreturn void fail_index(kb_thread *t, uint32_t tag, const access *a)
{
    const kb_checks *c = t->block->checks;
    const kb_wrong_index *w = &c->wrong[tag - WRONG_FIRST];
    char shape[NAME_MAX] = ""; /* "(4, 3)", or "" */
    if (w->which != 0 && w->which <= c->n_ranges)
        kb_range_shape(&c->ranges[w->which - 1], shape, sizeof shape);
    kb_check_fail(t, a->site, a->site,
                  "%s %s out of bounds: index %lld of axis %u, whose extent is %lld%s%s%s%s",
                  verbs[a->kind],
                  w->which ? c->table->arrays[w->which - 1].name : "a constant array",
                  (long long)w->index, w->axis, (long long)w->extent, *shape ? " (of shape " : "",
                  shape, *shape ? ")" : "", PLACE_TEXT(t, a->site));
}

void kb_check_fail_at(kb_thread *t, uint64_t row, uint64_t offset, uint32_t how, const char *what)
{
    const access a = {row, offset, 0, how % KB_CHECK_KINDS, how / KB_CHECK_KINDS, false};
    kb_check_fail(t, a.site, a.site, "%s%s, %s", DEED(t->block->checks, &a), PLACE_TEXT(t, a.site),
                  what);
}

static void check_bounds(kb_thread *t, const kb_range *r, int64_t offset, const access *a)
{
    char element[NAME_MAX];
    if (offset >= r->low && offset + (int64_t)a->size <= r->high)
        return;
    kb_range_element(r, offset, element, sizeof element);
    kb_check_fail(t, a->site, a->site, "%s %s out of bounds: element %s, and it has %lld%s",
                  verbs[a->kind], r->about->name, element,
                  (long long)((r->high - r->low) / r->about->item_size), PLACE_TEXT(t, a->site));
}

static _Noreturn void fail_race(kb_thread *t, const access *a, kb_race_party other, uint32_t block)
{
    kb_checks *c = t->block->checks;
    char of_block[NAME_MAX] = "";
    const uint32_t *tid = t->block->threads[kb_race_thread(other)].tid, *grid = c->sizes;
    bool between = block != c->block;
    c->unwritten.thread = NULL; /* what is read too early is often such a race */
    if (between)
        (void)snprintf(of_block, sizeof of_block, " of block (%u, %u, %u)", block % grid[0],
                       block / grid[0] % grid[1], block / grid[0] / grid[1]);
    kb_check_fail(t, a->site, kb_race_site(other),
                  "a data race%s: it %s%s, which thread (%u, %u, %u)%s %s%s, with no %s between",
                  between ? " between blocks" : "", DEED(c, a), PLACE_TEXT(t, a->site), tid[0],
                  tid[1], tid[2], of_block, verbs[kb_race_kind(other)],
                  PLACE_TEXT(t, kb_race_site(other)), between ? "barrier of the grid" : "barrier");
}

void kb_checks_settle_race(kb_checks *c)
{
    struct kb_late_race *l = &c->late;
    kb_thread *t = l->thread;
    const access a = {l->row, l->offset, l->size, KB_ACCESS_WRITE, l->site, false};
    l->thread = NULL;
    if (t && memcmp(tagged(c->rows->of[l->row].first + l->offset, 0), l->before, l->size) != 0)
        fail_race(t, &a, l->other, l->block);
}

static void check_races(kb_thread *t, const access *a, uint64_t i)
{
    kb_checks *c = t->block->checks;
    kb_race_now now = is_shared(c, a->row) ? c->shared : c->global;
    kb_race_cell *cell = &c->rows->of[a->row].cells[i];
    kb_race_more *more = &c->shadow->more[cell - c->shadow->cells];
    kb_race_party who = kb_race_party_of(now.time, t->index, a->kind, a->site);
    now.seen = now.seen ? now.seen + (size_t)t->index * KB_WARP : NULL;
    /* An unwritten element has no value. */
    bool same = a->same && kb_race_time(cell->write) >= c->rows->of[a->row].since;
    kb_race_party other = kb_race_conflict(cell, more, &now, who, same);
    if (other) {
        uint32_t time = kb_race_time(other);
        uint32_t block = time < now.block ? block_of(c, time) : c->block;
        bool in_order = kb_fences_order(&c->fences, &now, other, block, c->block, t->index);
        if (!in_order && c->may_be_same && a->kind == KB_ACCESS_WRITE &&
            a->size <= sizeof c->late.before) {
            /* Whether it is a race is known when the thread has written. */
            c->late =
                (struct kb_late_race){t, a->row, a->offset, a->size, a->site, block, other, {0}};
            memcpy(c->late.before, tagged(c->rows->of[a->row].first + a->offset, 0), a->size);
            same = true;
        } else if (!in_order) {
            fail_race(t, a, other, block);
        }
    }
    kb_race_note(cell, more, &now, who, same);
}

/* An access that reads has to find something in it that was written. */
static void check_written(kb_thread *t, const access *a, uint64_t begin, uint64_t end)
{
    kb_checks *c = t->block->checks;
    const kb_check_row *row = &c->rows->of[a->row];
    if (a->kind == KB_ACCESS_WRITE || row->since == 0)
        return;
    for (uint64_t i = begin; i <= end; i++)
        if (kb_race_time(row->cells[i].write) >= row->since)
            return;
    bool shared = is_shared(c, a->row);
    if (!shared && memchr(c->written[a->row - 1] + a->offset, 1, a->size))
        return;
    if (!shared)
        kb_check_fail(t, a->site, a->site, "%s, which nothing has written%s", DEED(c, a),
                      PLACE_TEXT(t, a->site));
    struct kb_early_read *u = &c->unwritten;
    if (u->thread && ++u->n == MANY_UNWRITTEN)
        kb_checks_settle(c);
    if (u->thread)
        return;
    u->thread = t;
    u->site = a->site;
    u->n = 0;
    (void)snprintf(u->text, sizeof u->text, "%s, which no thread of the block has written%s",
                   DEED(c, a), PLACE_TEXT(t, a->site));
}

void kb_check_atomic(kb_thread *t)
{
    kb_checks *c = t->block->checks;
    if (c->fences.fenced)
        kb_fences_atomic(&c->fences, c->block, t->index, tick(c));
}

/* All that a read may find, and what follows from an access. */
static KB_COLD void touch_slowly(kb_thread *t, uint64_t row, uint64_t offset, uint64_t size,
                                 uint32_t how, uint64_t value)
{
    const kb_checks *c = t->block->checks;
    const kb_check_row *at = &c->rows->of[row];
    uint64_t begin = offset / at->unit, end = (offset + size - 1) / at->unit;
    access a = {row, offset, size, how % KB_CHECK_KINDS, how / KB_CHECK_KINDS, false};
    if (size == 0)
        return;
    if (a.kind == KB_ACCESS_WRITE_VALUE) {
        a.kind = KB_ACCESS_WRITE;
        a.same = memcmp(tagged(at->first + offset, 0), &value, size) == 0;
    }
    if (a.kind == KB_ACCESS_ATOMIC)
        kb_check_atomic(t);
    check_written(t, &a, begin, end);
    if (c->spread && size < at->unit) /* another part may be another thread's */
        return;
    for (uint64_t i = begin; i <= end; i++)
        check_races(t, &a, i);
}

void kb_check_touch(kb_thread *t, uint64_t row, uint64_t offset, uint64_t size, uint32_t how,
                    uint64_t value)
{
    kb_checks *c = t->block->checks;
    const kb_check_row *at = &c->rows->of[row];
    const kb_race_now *now = is_shared(c, row) ? &c->shared : &c->global;
    uint32_t kind = how % KB_CHECK_KINDS, site = how / KB_CHECK_KINDS, unit = at->unit;
    kb_race_cell *cell = &at->cells[offset >> __builtin_ctz(unit)];
    bool reads = kind == KB_ACCESS_READ;
    if (!reads && kind != KB_ACCESS_ATOMIC)
        c->n_polls = 0;
    if (size == unit && !(offset & (unit - 1)) && kind != KB_ACCESS_ATOMIC &&
        (!reads || kb_race_time(cell->write) >= at->since) &&
        kb_race_passes(
            cell, now,
            kb_race_party_of(now->time, t->index, reads ? KB_ACCESS_READ : KB_ACCESS_WRITE, site),
            !reads))
        return;
    touch_slowly(t, row, offset, size, how, value);
}

/* A thread's own array: where it lies, and its bounds. */
static void check_local(kb_thread *t, uint32_t which, uint64_t address, const access *a)
{
    const kb_checks *c = t->block->checks;
    const kb_check_table *table = c->table;
    kb_range r = {.about = &table->arrays[c->n_ranges + which]};
    void *memory = c->locals[t->index * table->n_local + which];
    kb_range_fixed(&r, (uintptr_t)memory & KB_CHECK_ADDRESS, r.about->size);
    check_bounds(t, &r, (int64_t)(address - r.base), a);
}

void *kb_check_ask(kb_thread *t, const void *given, uint64_t size, uint32_t how, uint64_t value)
{
    kb_checks *c = t->block->checks;
    uint64_t word = (uintptr_t)given, address = word & KB_CHECK_ADDRESS;
    uint32_t tag = (uint32_t)(word >> KB_CHECK_TAG_SHIFT & KB_CHECK_TAG_MAX);
    access a = {.size = size, .kind = how % KB_CHECK_KINDS, .site = how / KB_CHECK_KINDS};
    if (tag >= WRONG_FIRST)
        fail_index(t, tag, &a);
    if (tag >= c->rows->n)
        kb_check_fail(t, a.site, a.site, "%s at an address that belongs to no array%s",
                      verbs[a.kind], PLACE_TEXT(t, a.site));
    if (tag > c->n_ranges)
        check_local(t, tag - c->n_ranges - 1, address, &a);
    if (tag == 0 || tag > c->n_ranges)
        return tagged(word, 0);
    const kb_check_row *row = &c->rows->of[tag];
    const kb_range *r = &c->ranges[tag - 1];
    uint64_t offset = address - row->first;
    check_bounds(t, r, (int64_t)offset + r->low, &a);
    if (row->cells)
        kb_check_touch(t, tag, offset, size, how, value);
    return tagged(word, 0);
}

void kb_check_fenced(kb_thread *t)
{
    kb_checks *c = t->block->checks;
    if (c)
        kb_fences_fence(&c->fences, c->block, t->index, tick(c), c->global.barrier);
}

void kb_checks_barrier(kb_checks *c)
{
    kb_checks_settle(c);
    c->n_polls = 0;
    c->global.barrier = c->shared.barrier = tick(c);
}

void kb_checks_warp_barrier(kb_checks *c, uint32_t warp, uint32_t lanes)
{
    c->n_polls = 0;
    c->global.seen = c->shared.seen = c->seen; /* somebody's: there are barriers */
    uint32_t *of_lanes = c->seen + (size_t)warp * KB_WARP * KB_WARP, now = tick(c);
    uint32_t seen[KB_WARP] = {0};
    for (uint32_t l = 0; l < KB_WARP; l++) {
        const uint32_t *of_lane = of_lanes + (size_t)l * KB_WARP;
        if (!(lanes >> l & 1))
            continue;
        for (uint32_t k = 0; k < KB_WARP; k++)
            seen[k] = of_lane[k] > seen[k] ? of_lane[k] : seen[k];
        seen[l] = now; /* which is later than all others */
    }
    for (uint32_t l = 0; l < KB_WARP; l++)
        if (lanes >> l & 1)
            memcpy(of_lanes + (size_t)l * KB_WARP, seen, sizeof seen);
}

void kb_checks_poll(kb_thread *t, uint32_t again)
{
    enum { POLLS_MAX = 1 << 22 };
    kb_checks *c = t->block->checks;
    c->n_polls = again ? c->n_polls + 1 : 0;
    if (c->n_polls > POLLS_MAX)
        kb_check_fail(t, t->site, t->site,
                      "waits%s for a change of memory that cannot come: the other threads of the "
                      "block wait, too, or have ended, and blocks run one after the other here",
                      PLACE_TEXT(t, t->site));
}

void kb_checks_shuffle(kb_thread *t, uint32_t from)
{
    uint32_t index = t->index - t->lane + from;
    const char *why = !(t->call.mask >> from & 1)    ? "is not in its mask"
                      : index >= t->block->n_threads ? "is beyond the threads of the block"
                                                     : "has ended";
    kb_check_fail(t, t->site, t->site,
                  "reads lane %u in a warp shuffle with the mask 0x%08x%s, and this lane %s: the "
                  "value is undefined on a GPU",
                  from, t->call.mask, PLACE_TEXT(t, t->site), why);
}

void kb_check_grid(kb_thread *t)
{
    if (t->block->n_at_grid + 1 == t->block->n_live)
        kb_checks_settle(t->block->checks);
}

/* The first thread that waits in the barrier of the block; NULL if none has come to it. */
static const kb_thread *waiting_thread(const kb_block *b)
{
    const kb_thread *t = b->n_arrived ? b->threads : NULL;
    while (t && (t->state != KB_THREAD_AT_BARRIER || t->generation != b->generation))
        t++;
    return t;
}

void kb_checks_arrive(kb_thread *t)
{
    kb_block *b = t->block;
    if (b->n_live < b->n_threads)
        kb_check_fail(
            t, t->site, t->site,
            "comes to %s%s, which %u of the block's %u threads never reach: they have ended",
            kb_block_barrier_name(b), PLACE_TEXT(t, t->site), b->n_threads - b->n_live,
            b->n_threads);
    const kb_thread *other = waiting_thread(b);
    if (other && other->site != t->site)
        kb_check_fail(
            t, t->site, other->site,
            "comes to %s%s, and thread (%u, %u, %u) to another%s: all threads of a block must "
            "come to the same",
            kb_block_barrier_name(b), PLACE_TEXT(t, t->site), other->tid[0], other->tid[1],
            other->tid[2], PLACE_TEXT(t, other->site));
}

void kb_checks_end(kb_thread *t)
{
    t->block->checks->n_polls = 0;
    const kb_thread *other = waiting_thread(t->block);
    if (other)
        kb_check_fail(t, other->site, other->site,
                      "ends without %s%s, in which thread (%u, %u, %u) waits",
                      kb_block_barrier_name(t->block), PLACE_TEXT(t, other->site), other->tid[0],
                      other->tid[1], other->tid[2]);
    kb_check_grid(t);
}
