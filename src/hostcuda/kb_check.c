/* Owns the description of the arrays, blocks and time of a launch in checked mode. */
#include "hostcuda/kb_check.h"

#include "core/kb_memory.h"
#include "hostcuda/kb_checks.h"
#include "hostcuda/kb_fresh.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint32_t kb_checks_tick(kb_checks *c)
{
    c->global.time = c->shared.time = ++c->shadow->time;
    return c->shadow->time;
}

/* Where an argument lies for the present slice of a batch. */
static uint64_t first_of(const kb_checks *c, const kb_range *r)
{
    return r->base + (uint64_t)r->low + (uint64_t)(r->slice * c->slice);
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

static void begin_phase(kb_checks *c)
{
    if (kb_shadow_renew(c->shadow) && c->seen)
        memset(c->seen, 0, (size_t)c->n_threads * KB_WARP * sizeof *c->seen);
    c->n_begins = 0;
    c->global.phase = kb_checks_tick(c);
    for (uint32_t i = 0; i < c->table->n_arguments; i++) {
        const kb_range *r = &c->ranges[i];
        kb_check_row *row = &c->rows->of[i + 1];
        uint64_t first = first_of(c, r);
        row->first = first & kb_check_address_mask;
        c->written[i] = kb_fresh_find(first, row->size);
        row->since = c->written[i] ? c->global.phase : 0;
    }
}

void kb_checks_phase(kb_checks *c)
{
    keep_written(c);
    begin_phase(c);
}

/* Measures arguments and shared arrays. */
static void measure(kb_checks *c, uint32_t dynamic_shared, void *const *parameters)
{
    for (uint32_t i = 0; i < c->n_ranges; i++) {
        kb_range *r = &c->ranges[i];
        r->about = &c->table->arrays[i];
        if (i >= c->table->n_arguments) {
            bool is_dynamic = r->about->flags & KB_CHECK_DYNAMIC;
            kb_range_fixed(r, 0, is_dynamic ? dynamic_shared : r->about->size);
            continue;
        }
        kb_range_measure(r, parameters);
        uint64_t size = (uint64_t)(r->high - r->low);
        r->is_watched = kb_fresh_find(first_of(c, r), size) != NULL;
        c->is_batched = c->is_batched || r->slice;
    }
}

/* Cells for shared memory. All dynamic arrays are the same memory. */
static void count_shared(kb_checks *c)
{
    uint64_t of_dynamic = 0, size_of_dynamic = 0;
    for (uint32_t i = c->table->n_arguments; i < c->n_ranges; i++)
        if (c->ranges[i].about->flags & KB_CHECK_DYNAMIC) {
            of_dynamic = kb_range_unit(&c->ranges[i], of_dynamic);
            size_of_dynamic = (uint64_t)c->ranges[i].high;
        }
    if (of_dynamic)
        c->shared_cells = (size_of_dynamic + of_dynamic - 1) / of_dynamic;
    for (uint32_t i = c->table->n_arguments; i < c->n_ranges; i++) {
        kb_range *r = &c->ranges[i];
        r->unit = of_dynamic;
        if (r->about->flags & KB_CHECK_DYNAMIC)
            continue;
        r->unit = kb_range_unit(r, 0);
        r->cell = c->shared_cells;
        c->shared_cells += ((uint64_t)r->high + r->unit - 1) / r->unit;
    }
}

static bool make_room(kb_checks *c)
{
    const kb_check_table *t = c->table;
    size_t n_rows = (size_t)c->n_ranges + t->n_local + 1;
    c->ranges = kb_calloc(c->n_ranges, sizeof *c->ranges);
    c->rows = kb_calloc(1, sizeof *c->rows + n_rows * sizeof *c->rows->of);
    c->written = (uint8_t **)kb_calloc(t->n_arguments, sizeof *c->written);
    c->locals = (void **)kb_calloc((size_t)c->n_threads * t->n_local, sizeof *c->locals);
    c->begins = kb_calloc(c->n_blocks, sizeof *c->begins);
    c->seen_room = kb_calloc(((size_t)c->n_threads + KB_WARP) * KB_WARP, sizeof *c->seen_room);
    if (c->is_cooperative)
        c->begun = kb_calloc(c->n_blocks, sizeof *c->begun);
    if (!c->ranges || !c->rows || !c->written || !c->locals || !c->begins || !c->seen_room ||
        (c->is_cooperative && !c->begun))
        return false;
    c->rows->n = n_rows;
    c->rows->of[0].size = kb_check_address_mask;
    return true;
}

static bool take_cells(kb_checks *c)
{
    size_t n = kb_ranges_count(c->ranges, c->table->n_arguments);
    count_shared(c);
    c->shared_cell = n;
    c->shadow = kb_shadow_take(n + c->shared_cells * (c->is_cooperative ? c->n_blocks : 1));
    if (!c->shadow)
        return false;
    for (uint32_t i = 0; i < c->n_ranges; i++) {
        const kb_range *r = &c->ranges[i];
        kb_check_row *row = &c->rows->of[i + 1];
        row->size = (uint64_t)(r->high - r->low);
        row->unit = (uint32_t)r->unit;
        if (r->unit && i < c->table->n_arguments)
            row->cells = c->shadow->cells + r->cell;
    }
    return true;
}

kb_checks *kb_checks_new(const kb_check_table *table, const uint32_t sizes[6],
                         uint32_t dynamic_shared, void *const *parameters, bool is_cooperative)
{
    kb_checks *c = kb_calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->table = table;
    memcpy(c->sizes, sizes, sizeof c->sizes);
    c->n_blocks = sizes[0] * sizes[1] * sizes[2];
    c->n_threads = sizes[3] * sizes[4] * sizes[5];
    c->n_ranges = table->n_arguments + table->n_shared;
    c->is_cooperative = is_cooperative;
    c->fences.n_threads = c->n_threads;
    c->fences.n_blocks = c->n_blocks;
    bool made = make_room(c);
    if (made)
        measure(c, dynamic_shared, parameters);
    if (made && take_cells(c)) {
        begin_phase(c);
        return c;
    }
    kb_checks_free(c);
    return NULL;
}

void kb_checks_free(kb_checks *c)
{
    if (!c)
        return;
    if (c->shadow)
        keep_written(c);
    kb_shadow_give_back(c->shadow);
    kb_fences_end(&c->fences);
    kb_free(c->ranges);
    kb_free(c->rows);
    kb_free((void *)c->written);
    kb_free((void *)c->locals);
    kb_free(c->begins);
    kb_free(c->begun);
    kb_free(c->seen_room);
    kb_free(c);
}

void kb_checks_enter(kb_checks *c, const kb_block *b)
{
    const uint32_t *at = b->threads[0].ctaid;
    bool is_other = c->is_batched && c->slice != at[2];
    if (is_other || (!c->is_cooperative && kb_shadow_is_late(c->shadow))) {
        keep_written(c);
        c->slice = at[2];
        begin_phase(c);
    }
    c->block = at[0] + c->sizes[0] * (at[1] + c->sizes[1] * at[2]);
    uint32_t now = kb_checks_tick(c);
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
    size_t cell = c->shared_cell + (c->begun ? c->block * c->shared_cells : 0);
    for (uint32_t i = c->table->n_arguments; i < c->n_ranges; i++) {
        kb_check_row *row = &c->rows->of[i + 1];
        uint64_t first = (uintptr_t)b->shared + c->ranges[i].about->offset;
        row->first = first & kb_check_address_mask;
        row->cells = c->shadow->cells + cell + c->ranges[i].cell;
        row->since = c->begun ? c->begun[c->block] : now;
    }
}

uint32_t kb_checks_block_of(const kb_checks *c, uint32_t time)
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

static uint64_t tagged(uint64_t address, uint64_t row)
{
    return (address & kb_check_address_mask) | row << KB_CHECK_TAG_SHIFT;
}

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr): with a tag, or without
}

void *kb_check_shared_array(kb_thread *t, uint32_t which)
{
    const kb_check_table *table = t->block->checks->table;
    uint32_t i = table->n_arguments + which;
    return pointer(tagged((uintptr_t)(t->shared + table->arrays[i].offset), i + 1));
}

void *kb_check_local_array(kb_thread *t, void *memory, uint32_t which)
{
    const kb_checks *c = t->block->checks;
    uint32_t i = c->n_ranges + which;
    c->locals[t->index * c->table->n_local + which] = memory;
    if (!c->table->waits) { /* threads run one after the other: it lies there for all */
        kb_check_row *row = &c->rows->of[i + 1];
        row->first = (uintptr_t)memory & kb_check_address_mask;
        row->size = c->table->arrays[i].size;
    }
    return pointer(tagged((uintptr_t)memory, i + 1));
}

/* The place of an index that was wrong before in the same way, or a new one. */
static uint32_t place_of_wrong(kb_checks *c, const kb_wrong_index *new)
{
    enum { LOOK_BACK = 8 };
    for (uint32_t i = 1; i <= LOOK_BACK && i <= c->n_wrong; i++) {
        uint32_t place = (c->n_wrong - i) % KB_CHECK_WRONG_MAX;
        const kb_wrong_index *w = &c->wrong[place];
        if (w->index == new->index && w->extent == new->extent && w->axis == new->axis &&
            w->which == new->which)
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
    if (which >= KB_CHECK_WRONG_FIRST)
        return made; /* part of a view that is wrong already; the first one is reported */
    const kb_wrong_index wrong = {
        .index = index < 0 ? index - extent : index,
        .extent = extent,
        .axis = axis,
        .which = which,
    };
    uint32_t place = place_of_wrong(t->block->checks, &wrong);
    return pointer(tagged(word, KB_CHECK_WRONG_FIRST + place));
}

/* A place in the source: where its text begins, if it has one. */
static const char *site_of(const kb_checks *c, uint32_t site, const char **text)
{
    const char *place = c && site < c->table->n_sites ? c->table->sites[site] : "";
    *text = strchr(place, KB_CHECK_TEXT);
    return place;
}

const char *kb_checks_place(const kb_thread *t, uint32_t site, char text[KB_PLACE_MAX])
{
    const char *end, *place = site_of(t->block->checks, site, &end);
    text[0] = '\0';
    if (*place)
        (void)snprintf(text, KB_PLACE_MAX, " (at %.*s)",
                       (int)(end ? end - place : (ptrdiff_t)strlen(place)), place);
    return text;
}

static void append_line(const kb_checks *c, uint32_t site, char lines[], size_t size)
{
    const char *text, *place = site_of(c, site, &text);
    size_t there = strlen(lines);
    if (text)
        (void)snprintf(lines + there, size - there, "\n    %.*s: %s", (int)(text - place), place,
                       text + 1);
}

void kb_checks_fail(kb_thread *t, uint32_t site, uint32_t other, const char *format, ...)
{
    char message[KB_FAULT_SIZE], lines[2 * KB_PLACE_MAX] = "";
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
    kb_thread *t = c->unwritten.thread;
    c->unwritten.thread = NULL;
    if (t)
        kb_checks_fail(t, c->unwritten.site, c->unwritten.site, "%s", c->unwritten.text);
}
