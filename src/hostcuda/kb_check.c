/* Owns what a launch in checked mode knows of its arrays, and the verdict on each access. */
#include "hostcuda/kb_check.h"

#include "core/kb_memory.h"
#include "hostcuda/kb_race.h"

#include <stdio.h>
#include <string.h>

enum { TAG_SHIFT = 48, TAG_MAX = 0x7FFF, PLACE_MAX = 256, NAME_MAX = 160 };

static const uint64_t address_mask = (UINT64_C(1) << TAG_SHIFT) - 1;

/* Where an array lies for this launch. `low` and `high` are bytes around `base`. */
typedef struct range {
    const kb_check_array *about;
    uint64_t base;
    int64_t low, high, slice; /* bytes from slice to slice of a batch */
    int64_t extents[KB_CHECK_DIMS];
    kb_race_cell *cells; /* of a slice; NULL where nobody writes */
    size_t n_cells;
} range;

typedef struct thread_record {
    bool index_is_wrong;
    int64_t index, extent;
    uint32_t axis;
    uint32_t fenced, took_part; /* times: of its last fence, of its last atomic access */
} thread_record;

struct kb_checks {
    const kb_check_table *table;
    range *ranges; /* arguments, then shared arrays */
    thread_record *threads;
    void **locals; /* of thread i from i * n_local on */
    kb_race_cell *shared_cells;
    size_t n_shared_cells, shared_size;
    uint32_t epoch, begun, time; /* of barriers; when the block began; of fences and atomics */
    uint32_t warp_epochs[1024 / KB_WARP];
    uint32_t barrier_site;
};

static int64_t word_of(void *const *parameters, uint32_t i)
{
    int64_t word;
    memcpy(&word, parameters[i], sizeof word);
    return word;
}

/* Bytes of an argument, from its words. */
static void measure(range *r, void *const *parameters)
{
    const kb_check_array *a = r->about;
    uint32_t word = a->word + 1;
    r->slice = a->flags & KB_CHECK_BATCHED ? word_of(parameters, word++) : 0;
    r->base = (uint64_t)word_of(parameters, a->word);
    int64_t count = 1, low = 0, high = 0;
    for (uint32_t d = 0; d < a->n_dims; d++) {
        r->extents[d] = word_of(parameters, word + d);
        count *= r->extents[d];
        if (!(a->flags & KB_CHECK_STRIDED))
            continue;
        int64_t reach = word_of(parameters, word + a->n_dims + d) * (r->extents[d] - 1);
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    r->low = count ? low : 0;
    r->high = !count ? 0 : a->flags & KB_CHECK_STRIDED ? high + a->item_size : count * a->item_size;
}

/* Races are looked for in bytes / item_size cells of each argument that somebody writes. Arguments
 * at one address, which are aliases, have the same. */
static bool watch(kb_checks *c, range *r, const uint32_t sizes[6])
{
    if (r->about->flags & KB_CHECK_CONSTANT || r->high == r->low)
        return true;
    for (range *other = c->ranges; other < r; other++) {
        if (other->base != r->base || other->about->item_size != r->about->item_size)
            continue;
        r->cells = other->cells;
        r->n_cells = other->n_cells;
    }
    if (r->cells)
        return true;
    (void)sizes;
    r->n_cells = (size_t)(r->high - r->low) / r->about->item_size + 1;
    r->cells = kb_calloc(r->n_cells, sizeof *r->cells);
    return r->cells != NULL;
}

kb_checks *kb_checks_new(const kb_check_table *table, const uint32_t sizes[6],
                         uint32_t dynamic_shared, void *const *parameters)
{
    uint32_t n_threads = sizes[3] * sizes[4] * sizes[5];
    uint32_t n_ranges = table->n_arguments + table->n_shared;
    kb_checks *c = kb_calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->table = table;
    c->ranges = kb_calloc((size_t)n_ranges + 1, sizeof *c->ranges);
    c->threads = kb_calloc(n_threads, sizeof *c->threads);
    c->locals = kb_calloc((size_t)n_threads * table->n_local + 1, sizeof *c->locals);
    bool made = c->ranges && c->threads && c->locals;
    for (uint32_t i = 0; made && i < n_ranges; i++) {
        range *r = &c->ranges[i];
        r->about = &table->arrays[i];
        if (i < table->n_arguments) {
            measure(r, parameters);
            made = watch(c, r, sizes);
            continue;
        }
        r->high = (int64_t)(r->about->flags & KB_CHECK_DYNAMIC ? dynamic_shared : r->about->size);
        size_t end = r->about->offset + (size_t)r->high;
        c->shared_size = end > c->shared_size ? end : c->shared_size;
    }
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
    for (uint32_t i = 0; c->ranges && i < c->table->n_arguments; i++) {
        bool first = true;
        for (uint32_t j = 0; j < i; j++)
            first = first && c->ranges[j].cells != c->ranges[i].cells;
        if (first)
            kb_free(c->ranges[i].cells);
    }
    kb_free(c->shared_cells);
    kb_free(c->ranges);
    kb_free(c->threads);
    kb_free(c->locals);
    kb_free(c);
}

void kb_checks_begin(kb_checks *c)
{
    c->begun = ++c->epoch;
}

void kb_checks_barrier(kb_checks *c)
{
    c->epoch++;
}

void kb_checks_warp_barrier(kb_checks *c, uint32_t warp)
{
    c->warp_epochs[warp]++;
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
        kb_block_fail(
            t,
            "comes to cuda.syncthreads%s, which %u threads of the block never reach: they "
            "have ended",
            here, b->n_threads - b->n_live);
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
    *record = (thread_record){
        true, index < 0 ? index - extent : index, extent, axis, record->fenced, record->took_part};
}

void kb_check_fence(kb_thread *t)
{
    kb_checks *c = t->block->checks;
    c->threads[t->index].fenced = ++c->time;
}

static const char *const verbs[] = {"reads", "writes", "updates"};

/* Text of the element that lies `offset` bytes from the beginning. */
static void name_element(const range *r, int64_t offset, char text[], size_t size)
{
    int64_t item = r->about->item_size, n = offset / item - (offset % item < 0);
    int written = 0;
    if (r->about->n_dims < 2 || r->about->flags & KB_CHECK_STRIDED) {
        (void)snprintf(text, size, "[%lld]", (long long)n);
        return;
    }
    for (uint32_t d = 0; d < r->about->n_dims && (size_t)written < size; d++) {
        int64_t rest = 1;
        for (uint32_t e = d + 1; e < r->about->n_dims; e++)
            rest *= r->extents[e];
        int64_t i = rest ? n / rest - (n % rest < 0) : n;
        n -= i * rest;
        written += snprintf(text + written, size - (size_t)written, "%s%lld%s", d ? ", " : "[",
                            (long long)i, d + 1 == r->about->n_dims ? "]" : "");
    }
}

static void check_bounds(kb_thread *t, const range *r, int64_t offset, uint64_t size,
                         kb_access kind, uint32_t site)
{
    thread_record *record = &t->block->checks->threads[t->index];
    char place[PLACE_MAX], element[NAME_MAX];
    if (record->index_is_wrong)
        kb_block_fail(t, "%s %s out of bounds: index %lld of axis %u, whose extent is %lld%s",
                      verbs[kind], r->about->name, (long long)record->index, record->axis,
                      (long long)record->extent, kb_checks_place(t, site, place, sizeof place));
    if (offset >= r->low && offset + (int64_t)size <= r->high)
        return;
    name_element(r, offset, element, sizeof element);
    kb_block_fail(t, "%s %s out of bounds: element %s, and it has %lld%s", verbs[kind],
                  r->about->name, element, (long long)((r->high - r->low) / r->about->item_size),
                  kb_checks_place(t, site, place, sizeof place));
}

static bool has_synchronized(const kb_checks *c, const kb_thread *now, uint32_t before,
                             uint32_t time)
{
    const thread_record *other = &c->threads[before];
    return other->fenced > time && c->threads[now->index].took_part > other->fenced;
}

static void check_races(kb_thread *t, const range *r, kb_race_cell *cell, int64_t offset,
                        kb_access kind, uint32_t site, bool same)
{
    kb_checks *c = t->block->checks;
    char place[PLACE_MAX], there[PLACE_MAX], element[NAME_MAX];
    kb_race_event event = {
        .epoch = c->epoch,
        .begun = c->begun,
        .warp_epoch = c->warp_epochs[t->index / KB_WARP],
        .time = c->time,
        .site = site,
        .thread = (uint16_t)t->index,
        .kind = (uint8_t)kind,
        .same = same,
    };
    uint32_t other = kb_race_conflict(cell, &event);
    bool orders = other != KB_RACE_NONE &&
                  has_synchronized(c, t, kb_race_thread(cell, other), kb_race_time(cell, other));
    if (other == KB_RACE_NONE || orders) {
        kb_race_note(cell, &event);
        return;
    }
    const kb_thread *before = &t->block->threads[kb_race_thread(cell, other)];
    kb_access earlier = other == KB_RACE_READ            ? KB_ACCESS_READ
                        : kb_race_wrote_atomically(cell) ? KB_ACCESS_ATOMIC
                                                         : KB_ACCESS_WRITE;
    name_element(r, offset, element, sizeof element);
    kb_block_fail(t,
                  "a data race: it %s element %s of %s%s, which thread (%u, %u, %u) %s%s, with no "
                  "barrier between",
                  verbs[kind], element, r->about->name,
                  kb_checks_place(t, site, place, sizeof place), before->tid[0], before->tid[1],
                  before->tid[2], verbs[earlier],
                  kb_checks_place(t, kb_race_site(cell, other), there, sizeof there));
}

static void check_written(kb_thread *t, const range *r, const kb_race_cell *cell, int64_t offset,
                          kb_access kind, uint32_t site)
{
    char place[PLACE_MAX], element[NAME_MAX];
    if (kind == KB_ACCESS_WRITE || kb_race_was_written(cell, t->block->checks->begun))
        return;
    name_element(r, offset, element, sizeof element);
    kb_block_fail(t, "%s element %s of %s, which no thread of the block has written%s", verbs[kind],
                  element, r->about->name, kb_checks_place(t, site, place, sizeof place));
}

/* A thread's own array: where it lies, and its bounds. */
static void *access_local(kb_thread *t, uint32_t which, uint64_t address, uint64_t size,
                          kb_access kind, uint32_t site)
{
    const kb_checks *c = t->block->checks;
    const kb_check_table *table = c->table;
    range r = {.about = &table->arrays[table->n_arguments + table->n_shared + which]};
    r.high = (int64_t)r.about->size;
    r.base = (uintptr_t)c->locals[t->index * table->n_local + which];
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
    if (which-- > n_ranges + c->table->n_local)
        kb_block_fail(t, "%s at an address that belongs to no array%s", verbs[kind],
                      kb_checks_place(t, site, place, sizeof place));
    if (which >= n_ranges)
        return access_local(t, which - n_ranges, address, size, kind, site);
    const range *r = &c->ranges[which];
    bool is_shared = which >= c->table->n_arguments;
    uint64_t base = is_shared ? (uintptr_t)(t->shared + r->about->offset)
                              : r->base + (uint64_t)(r->slice * t->ctaid[2]);
    int64_t offset = (int64_t)(address - (base & address_mask));
    check_bounds(t, r, offset, size, kind, site);
    bool same = value && memcmp(pointer(address), value, size) == 0;
    if (kind == KB_ACCESS_ATOMIC)
        c->threads[t->index].took_part = ++c->time;
    uint64_t step = is_shared ? 1 : r->about->item_size;
    for (uint64_t i = 0; i < size; i += step) {
        kb_race_cell *cell = is_shared  ? &c->shared_cells[r->about->offset + (uint64_t)offset + i]
                             : r->cells ? &r->cells[(uint64_t)(offset - r->low + (int64_t)i) / step]
                                        : NULL;
        if (!cell)
            break;
        if (is_shared)
            check_written(t, r, cell, offset, kind, site);
        check_races(t, r, cell, offset, kind, site, same);
    }
    return pointer(address);
}
