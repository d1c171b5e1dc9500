/* Owns what a launch in checked mode knows of its arrays, and the verdict on each access. */
#include "hostcuda/kb_check.h"

#include "core/kb_memory.h"
#include "hostcuda/kb_race.h"
#include "hostcuda/kb_range.h"

#include <stdio.h>
#include <string.h>

enum { TAG_SHIFT = 48, TAG_MAX = 0x7FFF, PLACE_MAX = 256, NAME_MAX = 160, WRONG_MAX = 8 };

/* The numbers of addresses that were made of wrong indices: the last ones. */
enum { WRONG_FIRST = TAG_MAX - WRONG_MAX + 1 };

static const uint64_t address_mask = (UINT64_C(1) << TAG_SHIFT) - 1;

/* An index that lies outside its axis, and the array that it was used on. */
typedef struct wrong_index {
    int64_t index, extent;
    uint32_t axis;
    uint32_t which; /* as addresses have it: 0 for none */
} wrong_index;

typedef struct thread_record {
    bool index_is_wrong; /* `last`, of which no address was made yet */
    uint32_t n_wrong;    /* addresses made of wrong indices */
    wrong_index last, of_addresses[WRONG_MAX];
    uint32_t fenced, took_part; /* times: of its last fence, of its last atomic access */
    uint32_t seen[KB_WARP]; /* barriers of each lane of its warp that lie before, own ones too */
} thread_record;

struct kb_checks {
    const kb_check_table *table;
    kb_range *ranges; /* arguments, then shared arrays */
    thread_record *threads;
    uint32_t n_threads;
    void **locals; /* of thread i from i * n_local on */
    kb_race_cell *shared_cells;
    size_t shared_size;
    uint32_t epoch, begun, time; /* of barriers; when the block began; of fences and atomics */
};

kb_checks *kb_checks_new(const kb_check_table *table, const uint32_t sizes[6],
                         uint32_t dynamic_shared, void *const *parameters)
{
    uint32_t n_threads = sizes[3] * sizes[4] * sizes[5];
    uint32_t n_ranges = table->n_arguments + table->n_shared;
    kb_checks *c = kb_calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->table = table;
    c->n_threads = n_threads;
    c->ranges = kb_calloc((size_t)n_ranges + 1, sizeof *c->ranges);
    c->threads = kb_calloc(n_threads, sizeof *c->threads);
    c->locals = kb_calloc((size_t)n_threads * table->n_local + 1, sizeof *c->locals);
    bool made = c->ranges && c->threads && c->locals;
    for (uint32_t i = 0; made && i < n_ranges; i++) {
        kb_range *r = &c->ranges[i];
        r->about = &table->arrays[i];
        if (i < table->n_arguments) {
            kb_range_measure(r, parameters);
            continue;
        }
        kb_range_fixed(r, 0, r->about->flags & KB_CHECK_DYNAMIC ? dynamic_shared : r->about->size);
        size_t end = r->about->offset + (size_t)r->high;
        c->shared_size = end > c->shared_size ? end : c->shared_size;
    }
    made = made && kb_ranges_watch(c->ranges, table->n_arguments);
    if (made && c->shared_size)
        c->shared_cells = kb_calloc(c->shared_size, sizeof *c->shared_cells);
    if (made && (c->shared_cells || !c->shared_size))
        return c;
    kb_checks_free(c);
    return NULL;
}

void kb_checks_free(kb_checks *c)
{
    if (!c)
        return;
    if (c->ranges)
        kb_ranges_free(c->ranges, c->table->n_arguments);
    kb_free(c->shared_cells);
    kb_free(c->ranges);
    kb_free(c->threads);
    kb_free(c->locals);
    kb_free(c);
}

void kb_checks_begin(kb_checks *c)
{
    c->begun = ++c->epoch;
    for (uint32_t i = 0; i < c->n_threads; i++) {
        c->threads[i].index_is_wrong = false;
        c->threads[i].n_wrong = 0;
    }
}

void kb_checks_barrier(kb_checks *c)
{
    c->epoch++;
}

void kb_checks_warp_barrier(kb_checks *c, uint32_t warp, uint32_t lanes)
{
    thread_record *of_lanes = c->threads + (size_t)warp * KB_WARP;
    uint32_t seen[KB_WARP] = {0};
    for (uint32_t l = 0; l < KB_WARP; l++) {
        if (!(lanes >> l & 1))
            continue;
        of_lanes[l].seen[l]++;
        for (uint32_t k = 0; k < KB_WARP; k++)
            seen[k] = of_lanes[l].seen[k] > seen[k] ? of_lanes[l].seen[k] : seen[k];
    }
    for (uint32_t l = 0; l < KB_WARP; l++)
        if (lanes >> l & 1)
            memcpy(of_lanes[l].seen, seen, sizeof seen);
}

const char *kb_checks_place(const kb_thread *t, uint32_t site, char text[], size_t size)
{
    const kb_check_table *table = t->block->checks ? t->block->checks->table : NULL;
    text[0] = '\0';
    if (table && site < table->n_sites && *table->sites[site])
        (void)snprintf(text, size, " (at %s)", table->sites[site]);
    return text;
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
    char here[PLACE_MAX], there[PLACE_MAX];
    kb_checks_place(t, t->site, here, sizeof here);
    if (b->n_live < b->n_threads)
        kb_block_fail(t,
                      "comes to cuda.syncthreads%s, which %u of the block's %u threads never reach:"
                      " they have ended",
                      here, b->n_threads - b->n_live, b->n_threads);
    const kb_thread *other = b->n_arrived ? waiting_thread(b) : NULL;
    if (other && other->site != t->site)
        kb_block_fail(t,
                      "comes to cuda.syncthreads%s, and thread (%u, %u, %u) to another%s: all "
                      "threads of a block must come to the same",
                      here, other->tid[0], other->tid[1], other->tid[2],
                      kb_checks_place(t, other->site, there, sizeof there));
}

void kb_checks_end(kb_thread *t)
{
    const kb_thread *other = t->block->n_arrived ? waiting_thread(t->block) : NULL;
    char there[PLACE_MAX];
    if (other)
        kb_block_fail(t, "ends without cuda.syncthreads%s, in which thread (%u, %u, %u) waits",
                      kb_checks_place(t, other->site, there, sizeof there), other->tid[0],
                      other->tid[1], other->tid[2]);
}

static uint64_t tagged(uint64_t address, uint32_t which)
{
    return (address & address_mask) | (uint64_t)(which + 1) << TAG_SHIFT;
}

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr): with a tag, or without
}

uint64_t kb_check_argument(kb_thread *t, uint64_t address, uint32_t which)
{
    (void)t;
    return tagged(address, which);
}

void *kb_check_shared(kb_thread *t, uint32_t which)
{
    const kb_check_table *table = t->block->checks->table;
    uint32_t i = table->n_arguments + which;
    return pointer(tagged((uintptr_t)(t->shared + table->arrays[i].offset), i));
}

void *kb_check_local(kb_thread *t, void *memory, uint32_t which)
{
    const kb_checks *c = t->block->checks;
    c->locals[t->index * c->table->n_local + which] = memory;
    return pointer(tagged((uintptr_t)memory, c->table->n_arguments + c->table->n_shared + which));
}

void kb_check_index(kb_thread *t, int64_t index, int64_t extent, uint32_t axis)
{
    thread_record *record = &t->block->checks->threads[t->index];
    if (index >= 0 && index < extent)
        return;
    if (record->index_is_wrong)
        return; /* the first one is told */
    record->index_is_wrong = true;
    record->last = (wrong_index){
        .index = index < 0 ? index - extent : index,
        .extent = extent,
        .axis = axis,
    };
}

/* The place of what `last` says, of its own or of the same before. */
static uint32_t place_of_wrong(thread_record *record, uint32_t which)
{
    wrong_index *last = &record->last;
    last->which = which;
    for (uint32_t i = 0; i < record->n_wrong && i < WRONG_MAX; i++) {
        const wrong_index *w = &record->of_addresses[i];
        if (w->index == last->index && w->extent == last->extent && w->axis == last->axis &&
            w->which == which)
            return i;
    }
    uint32_t i = record->n_wrong++ % WRONG_MAX;
    record->of_addresses[i] = *last;
    return i;
}

void *kb_check_pointer(kb_thread *t, void *made)
{
    thread_record *record = &t->block->checks->threads[t->index];
    uint64_t word = (uintptr_t)made;
    uint32_t which = (uint32_t)(word >> TAG_SHIFT & TAG_MAX);
    if (!record->index_is_wrong)
        return made;
    record->index_is_wrong = false;
    if (which >= WRONG_FIRST)
        return made; /* part of a view that is wrong already */
    return pointer(tagged(word, WRONG_FIRST + place_of_wrong(record, which) - 1));
}

void kb_check_fence(kb_thread *t)
{
    kb_checks *c = t->block->checks;
    c->threads[t->index].fenced = ++c->time;
}

static const char *const verbs[] = {"reads", "writes", "updates"};

static const char *name_of(const kb_checks *c, uint32_t which)
{
    return which ? c->table->arrays[which - 1].name : "a constant array";
}

/* An access by an address that a wrong index made. */
static void fail_index(kb_thread *t, uint32_t which, kb_access kind, uint32_t site)
{
    const kb_checks *c = t->block->checks;
    const wrong_index *w = &c->threads[t->index].of_addresses[which - WRONG_FIRST];
    char place[PLACE_MAX];
    kb_block_fail(t, "%s %s out of bounds: index %lld of axis %u, whose extent is %lld%s",
                  verbs[kind], name_of(c, w->which), (long long)w->index, w->axis,
                  (long long)w->extent, kb_checks_place(t, site, place, sizeof place));
}

static void check_bounds(kb_thread *t, const kb_range *r, int64_t offset, uint64_t size,
                         kb_access kind, uint32_t site)
{
    char place[PLACE_MAX], element[NAME_MAX];
    if (offset >= r->low && offset + (int64_t)size <= r->high)
        return;
    kb_range_element(r, offset, element, sizeof element);
    kb_block_fail(t, "%s %s out of bounds: element %s, and it has %lld%s", verbs[kind],
                  r->about->name, element, (long long)((r->high - r->low) / r->about->item_size),
                  kb_checks_place(t, site, place, sizeof place));
}

/* Fences: the other thread made one after its access, and this one took part in an atomic access
 * after that, as where a lock or a flag is handed on. */
static bool has_synchronized(const kb_thread *now, const kb_race_party *before)
{
    const thread_record *threads = now->block->checks->threads;
    const thread_record *other = &threads[before->thread];
    return other->fenced > before->time && threads[now->index].took_part > other->fenced;
}

static void check_races(kb_thread *t, const kb_range *r, kb_race_cell *cell, int64_t offset,
                        kb_access kind, uint32_t site, bool same)
{
    kb_checks *c = t->block->checks;
    const thread_record *record = &c->threads[t->index];
    char place[PLACE_MAX], there[PLACE_MAX], element[NAME_MAX];
    kb_race_event event = {
        .who = {record->seen[t->lane], c->time, site, (uint16_t)t->index, (uint8_t)kind},
        .epoch = c->epoch,
        .same = same,
        .seen = record->seen,
    };
    const kb_race_party *other = kb_race_conflict(cell, &event);
    if (!other || has_synchronized(t, other)) {
        kb_race_note(cell, &event);
        return;
    }
    const kb_thread *before = &t->block->threads[other->thread];
    kb_range_element(r, offset, element, sizeof element);
    kb_block_fail(t,
                  "a data race: it %s element %s of %s%s, which thread (%u, %u, %u) %s%s, with no "
                  "barrier between",
                  verbs[kind], element, r->about->name,
                  kb_checks_place(t, site, place, sizeof place), before->tid[0], before->tid[1],
                  before->tid[2], verbs[other->kind],
                  kb_checks_place(t, other->site, there, sizeof there));
}

static void check_written(kb_thread *t, const kb_range *r, const kb_race_cell *cell, int64_t offset,
                          kb_access kind, uint32_t site)
{
    char place[PLACE_MAX], element[NAME_MAX];
    if (kind == KB_ACCESS_WRITE || kb_race_was_written(cell, t->block->checks->begun))
        return;
    kb_range_element(r, offset, element, sizeof element);
    kb_block_fail(t, "%s element %s of %s, which no thread of the block has written%s", verbs[kind],
                  element, r->about->name, kb_checks_place(t, site, place, sizeof place));
}

/* A thread's own array: where it lies, and its bounds. */
static void *access_local(kb_thread *t, uint32_t which, uint64_t address, uint64_t size,
                          kb_access kind, uint32_t site)
{
    const kb_checks *c = t->block->checks;
    const kb_check_table *table = c->table;
    kb_range r = {.about = &table->arrays[table->n_arguments + table->n_shared + which]};
    kb_range_fixed(&r, (uintptr_t)c->locals[t->index * table->n_local + which], r.about->size);
    check_bounds(t, &r, (int64_t)(address - r.base), size, kind, site);
    return pointer(address);
}

void *kb_check_access(kb_thread *t, const void *given, uint64_t size, uint32_t how, uint32_t site,
                      const void *value)
{
    kb_checks *c = t->block->checks;
    kb_access kind = (kb_access)how;
    uint64_t word = (uintptr_t)given, address = word & address_mask;
    uint32_t which = (uint32_t)(word >> TAG_SHIFT & TAG_MAX);
    uint32_t n_ranges = c->table->n_arguments + c->table->n_shared;
    char place[PLACE_MAX];
    if (which == 0)
        return pointer(word);
    if (which >= WRONG_FIRST)
        fail_index(t, which, kind, site);
    if (which-- > n_ranges + c->table->n_local)
        kb_block_fail(t, "%s at an address that belongs to no array%s", verbs[kind],
                      kb_checks_place(t, site, place, sizeof place));
    if (which >= n_ranges)
        return access_local(t, which - n_ranges, address, size, kind, site);
    const kb_range *r = &c->ranges[which];
    bool is_shared = which >= c->table->n_arguments;
    uint64_t base = is_shared ? (uintptr_t)(t->shared + r->about->offset)
                              : r->base + (uint64_t)(r->slice * t->ctaid[2]);
    int64_t offset = (int64_t)(address - (base & address_mask));
    check_bounds(t, r, offset, size, kind, site);
    bool same = value && memcmp(pointer(address), value, size) == 0;
    if (kind == KB_ACCESS_ATOMIC)
        c->threads[t->index].took_part = ++c->time;
    uint64_t step = is_shared ? 1 : r->unit;
    for (uint64_t i = 0; i < size && step; i += step) {
        kb_race_cell *cell = is_shared ? &c->shared_cells[r->about->offset + (uint64_t)offset + i]
                                       : &r->cells[(uint64_t)(offset - r->low + (int64_t)i) / step];
        if (is_shared)
            check_written(t, r, cell, offset, kind, site);
        check_races(t, r, cell, offset, kind, site, same);
    }
    return pointer(address);
}
