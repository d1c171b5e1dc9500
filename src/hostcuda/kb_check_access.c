/* Owns the verdict on each access. */
#include "core/kb_error.h"
#include "hostcuda/kb_check.h"
#include "hostcuda/kb_checks.h"

#include <stdio.h>
#include <string.h>

/* Of a shape or an element: each of the 32 numbers has ", " or a bracket before it, and they have
 * 51 digits at most, since their product has 19 or fewer. */
enum { NAME_MAX = 160, MANY_UNWRITTEN = 4096 /* reads; a thread may wait for a change */ };

typedef struct access {
    uint64_t row, offset, size;
    uint32_t kind, site; /* a kb_access */
    bool same;           /* it writes what is there */
} access;

static const char *const verbs[] = {"reads", "writes", "updates", "writes"};

static void *memory_at(uint64_t word)
{
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that had a tag
    return (void *)(uintptr_t)(word & kb_check_address_mask);
}

static bool is_shared(const kb_checks *c, uint64_t row)
{
    return row > c->table->n_arguments;
}

/* "(4, 3)", or "". */
static const char *shape_of(const kb_checks *c, uint32_t which, char text[NAME_MAX])
{
    if (which == 0 || which > c->n_ranges)
        return "";
    kb_range_shape(&c->ranges[which - 1], text, NAME_MAX);
    return text;
}

/* An access by an address that a wrong index made. */
static _Noreturn void fail_index(kb_thread *t, uint32_t tag, const access *a)
{
    const kb_checks *c = t->block->checks;
    const kb_wrong_index *w = &c->wrong[tag - KB_CHECK_WRONG_FIRST];
    char place[KB_PLACE_MAX], room[NAME_MAX];
    const char *shape = shape_of(c, w->which, room);
    kb_checks_fail(t, a->site, a->site,
                   "%s %s out of bounds: index %lld of axis %u, whose extent is %lld%s%s%s%s",
                   verbs[a->kind],
                   w->which ? c->table->arrays[w->which - 1].name : "a constant array",
                   (long long)w->index, w->axis, (long long)w->extent, *shape ? " (of shape " : "",
                   shape, *shape ? ")" : "", kb_checks_place(t, a->site, place));
}

static void check_bounds(kb_thread *t, const kb_range *r, int64_t offset, const access *a)
{
    char place[KB_PLACE_MAX], element[NAME_MAX];
    if (offset >= r->low && offset + (int64_t)a->size <= r->high)
        return;
    kb_range_element(r, offset, element, sizeof element);
    kb_checks_fail(t, a->site, a->site, "%s %s out of bounds: element %s, and it has %lld%s",
                   verbs[a->kind], r->about->name, element,
                   (long long)((r->high - r->low) / r->about->item_size),
                   kb_checks_place(t, a->site, place));
}

static _Noreturn void fail_race(kb_thread *t, const access *a, kb_race_party other, uint32_t block)
{
    const kb_checks *c = t->block->checks;
    const kb_range *r = &c->ranges[a->row - 1];
    char place[KB_PLACE_MAX], there[KB_PLACE_MAX], element[NAME_MAX], of_block[NAME_MAX] = "";
    const uint32_t *tid = t->block->threads[kb_race_thread(other)].tid, *grid = c->sizes;
    bool between = block != c->block;
    t->block->checks->unwritten.thread = NULL; /* what is read too early is often such a race */
    if (between)
        (void)snprintf(of_block, sizeof of_block, " of block (%u, %u, %u)", block % grid[0],
                       block / grid[0] % grid[1], block / grid[0] / grid[1]);
    kb_range_element(r, (int64_t)a->offset + r->low, element, sizeof element);
    kb_checks_fail(t, a->site, kb_race_site(other),
                   "a data race%s: it %s element %s of %s%s, which thread (%u, %u, %u)%s %s%s, "
                   "with no %s between",
                   between ? " between blocks" : "", verbs[a->kind], element, r->about->name,
                   kb_checks_place(t, a->site, place), tid[0], tid[1], tid[2], of_block,
                   verbs[kb_race_kind(other)], kb_checks_place(t, kb_race_site(other), there),
                   between ? "barrier of the grid" : "barrier");
}

static void check_races(kb_thread *t, const access *a, uint64_t i)
{
    kb_checks *c = t->block->checks;
    kb_race_now now = is_shared(c, a->row) ? c->shared : c->global;
    kb_race_cell *cell = &c->rows->of[a->row].cells[i];
    kb_race_more *more = &c->shadow->more[cell - c->shadow->cells];
    kb_race_party who = kb_race_party_of(now.time, t->index, a->kind, a->site);
    now.seen = c->seen ? c->seen + (size_t)t->index * KB_WARP : NULL;
    /* An unwritten element has no value. */
    bool same = a->same && kb_race_time(cell->write) >= c->rows->of[a->row].since;
    kb_race_party other = kb_race_conflict(cell, more, &now, who, same);
    if (other) {
        uint32_t time = kb_race_time(other);
        uint32_t block = time < now.block ? kb_checks_block_of(c, time) : c->block;
        if (!kb_fences_order(&c->fences, &now, other, block, c->block, t->index))
            fail_race(t, a, other, block);
    }
    kb_race_note(cell, more, &now, who, same);
}

/* An access that reads has to find something in it that was written. */
static void check_written(kb_thread *t, const access *a, uint64_t begin, uint64_t end)
{
    kb_checks *c = t->block->checks;
    const kb_check_row *row = &c->rows->of[a->row];
    char place[KB_PLACE_MAX], element[NAME_MAX];
    if (a->kind == KB_ACCESS_WRITE || row->since == 0)
        return;
    for (uint64_t i = begin; i <= end; i++)
        if (kb_race_time(row->cells[i].write) >= row->since)
            return;
    bool shared = is_shared(c, a->row);
    if (!shared && memchr(c->written[a->row - 1] + a->offset, 1, a->size))
        return;
    const kb_range *r = &c->ranges[a->row - 1];
    kb_range_element(r, (int64_t)a->offset + r->low, element, sizeof element);
    if (!shared)
        kb_checks_fail(t, a->site, a->site, "%s element %s of %s, which nothing has written%s",
                       verbs[a->kind], element, r->about->name, kb_checks_place(t, a->site, place));
    struct kb_unwritten *u = &c->unwritten;
    if (u->thread && ++u->n == MANY_UNWRITTEN)
        kb_checks_settle(c);
    if (u->thread)
        return;
    u->thread = t;
    u->site = a->site;
    u->n = 0;
    (void)snprintf(u->text, sizeof u->text,
                   "%s element %s of %s, which no thread of the block has written%s",
                   verbs[a->kind], element, r->about->name, kb_checks_place(t, a->site, place));
}

/* All that a read may find, and what follows from an access. */
static void touch(kb_thread *t, access *a)
{
    kb_checks *c = t->block->checks;
    uint64_t unit = c->rows->of[a->row].unit;
    uint64_t begin = a->offset / unit, end = (a->offset + a->size - 1) / unit;
    if (a->kind == KB_ACCESS_ATOMIC && c->fences.fenced)
        kb_fences_atomic(&c->fences, c->block, t->index, kb_checks_tick(c));
    check_written(t, a, begin, end);
    for (uint64_t i = begin; i <= end; i++)
        check_races(t, a, i);
}

static KB_COLD void touch_slowly(kb_thread *t, uint64_t row, uint64_t offset, uint64_t size,
                                 uint32_t how, uint64_t value)
{
    const kb_check_row *at = &t->block->checks->rows->of[row];
    access a = {row, offset, size, how % KB_CHECK_KINDS, how / KB_CHECK_KINDS, false};
    if (a.kind == KB_ACCESS_WRITE_VALUE) {
        a.kind = KB_ACCESS_WRITE;
        a.same = memcmp(memory_at(at->first + offset), &value, size) == 0;
    }
    if (size)
        touch(t, &a);
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
    kb_range_fixed(&r, (uintptr_t)memory & kb_check_address_mask, r.about->size);
    check_bounds(t, &r, (int64_t)(address - r.base), a);
}

void *kb_check_ask(kb_thread *t, const void *given, uint64_t size, uint32_t how, uint64_t value)
{
    kb_checks *c = t->block->checks;
    uint64_t word = (uintptr_t)given, address = word & kb_check_address_mask;
    uint32_t tag = (uint32_t)(word >> KB_CHECK_TAG_SHIFT & KB_CHECK_TAG_MAX);
    access a = {.size = size, .kind = how % KB_CHECK_KINDS, .site = how / KB_CHECK_KINDS};
    char place[KB_PLACE_MAX];
    if (tag >= KB_CHECK_WRONG_FIRST)
        fail_index(t, tag, &a);
    if (tag >= c->rows->n)
        kb_checks_fail(t, a.site, a.site, "%s at an address that belongs to no array%s",
                       verbs[a.kind], kb_checks_place(t, a.site, place));
    if (tag == 0)
        return memory_at(word);
    if (tag > c->n_ranges) {
        check_local(t, tag - c->n_ranges - 1, address, &a);
        return memory_at(word);
    }
    const kb_check_row *row = &c->rows->of[tag];
    const kb_range *r = &c->ranges[tag - 1];
    uint64_t offset = address - row->first;
    check_bounds(t, r, (int64_t)offset + r->low, &a);
    if (row->cells)
        kb_check_touch(t, tag, offset, size, how, value);
    return memory_at(word);
}

void kb_check_fenced(kb_thread *t)
{
    kb_checks *c = t->block->checks;
    kb_fences_fence(&c->fences, c->block, t->index, kb_checks_tick(c), c->global.barrier);
}
