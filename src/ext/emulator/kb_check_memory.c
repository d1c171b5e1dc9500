/* Owns the beginning of a launch in checked mode: the measures of its arrays and which of them
 * share memory, what describes them, and the cells of launches: one set waits for the next. */
#include "ext/emulator/kb_check.h"

#include "core/kb_arena.h"
#include "ext/emulator/kb_guard.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_CELLS = 1 << 21 }; /* 64 MiB */

static const uint32_t too_late = UINT32_C(1) << 31;

static _Atomic(kb_shadow *) unused;

kb_shadow *kb_shadow_take(size_t n_cells)
{
    kb_shadow *s = atomic_exchange(&unused, NULL);
    if (s && s->n_cells >= n_cells) {
        (void)kb_shadow_renew(s);
        return s;
    }
    free(s);
    s = calloc(1, sizeof *s + n_cells * (sizeof *s->cells + sizeof *s->more));
    if (!s)
        return NULL;
    s->n_cells = n_cells;
    s->cells = (kb_race_cell *)(s + 1);
    s->more = (kb_race_more *)(s->cells + n_cells);
    return s;
}

void kb_shadow_give_back(kb_shadow *s)
{
    free(s && s->n_cells <= KEPT_CELLS ? atomic_exchange(&unused, s) : s);
}

bool kb_shadow_is_late(const kb_shadow *s)
{
    return s->time >= too_late;
}

bool kb_shadow_renew(kb_shadow *s)
{
    if (!kb_shadow_is_late(s))
        return false;
    memset(s->cells, 0, s->n_cells * (sizeof *s->cells + sizeof *s->more));
    s->time = 0;
    return true;
}

static int64_t word_of(void *const *parameters, uint32_t i)
{
    int64_t word;
    memcpy(&word, parameters[i], sizeof word);
    return word;
}

void kb_range_measure(kb_range *r, void *const *parameters)
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

void kb_range_fixed(kb_range *r, uint64_t base, uint64_t size)
{
    r->base = base;
    r->high = (int64_t)size;
    r->extents[0] = (int64_t)(size / r->about->item_size); /* of a dynamic array */
    for (uint32_t d = 0; r->about->shape && d < r->about->n_dims; d++)
        r->extents[d] = r->about->shape[d];
}

static uint64_t end_byte(const kb_range *r)
{
    return r->base + (uint64_t)r->high;
}

/* Gives each range the first one that it is connected with. */
static void find_groups(kb_range ranges[], uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        ranges[i].group = i;
        for (uint32_t j = 0; j < i; j++) {
            const kb_range *a = &ranges[i], *b = &ranges[j];
            uint32_t from = a->group, to = b->group;
            bool overlap = kb_range_first(a, 0) < end_byte(b) && kb_range_first(b, 0) < end_byte(a);
            if (from == to || !overlap)
                continue;
            for (uint32_t k = 0; k <= i; k++)
                if (ranges[k].group == from || ranges[k].group == to)
                    ranges[k].group = from < to ? from : to;
        }
    }
}

/* The largest power of 2 that divides both; 0 if both are 0. */
static uint64_t common_power(uint64_t a, uint64_t b)
{
    return (a | b) & -(a | b);
}

uint64_t kb_range_unit(const kb_range *r, uint64_t unit)
{
    return common_power(unit, r->about->cell);
}

/* Gives the group cells from number `cell` on; returns how many, 0 where none are needed. */
static size_t count_group(kb_range ranges[], uint32_t n, uint32_t group, size_t cell)
{
    const uint64_t begin = kb_range_first(&ranges[group], 0);
    uint64_t first = begin, end = end_byte(&ranges[group]), unit = 0;
    bool needed = false;
    for (uint32_t i = group; i < n; i++) {
        const kb_range *r = &ranges[i];
        if (r->group != group)
            continue;
        first = kb_range_first(r, 0) < first ? kb_range_first(r, 0) : first;
        end = end_byte(r) > end ? end_byte(r) : end;
        needed = needed || r->is_watched || !(r->about->flags & KB_CHECK_CONSTANT);
        unit = common_power(kb_range_unit(r, unit), kb_range_first(r, 0) - begin);
    }
    if (!needed || first == end)
        return 0;
    unit = unit ? unit : 1;
    for (uint32_t i = group; i < n; i++) {
        if (ranges[i].group != group)
            continue;
        ranges[i].cell = cell + (kb_range_first(&ranges[i], 0) - first) / unit;
        ranges[i].unit = unit;
    }
    return (end - first + unit - 1) / unit;
}

size_t kb_ranges_count(kb_range ranges[], uint32_t n)
{
    size_t count = 0;
    find_groups(ranges, n);
    for (uint32_t i = 0; i < n; i++)
        if (ranges[i].group == i)
            count += count_group(ranges, n, i, count);
    return count;
}

void kb_range_shape(const kb_range *r, char text[], size_t size)
{
    int written = 0;
    uint32_t n = r->about->n_dims;
    const char *end = n == 1 ? ",)" : ")";
    text[0] = '\0';
    for (uint32_t d = 0; d < n && (size_t)written < size; d++)
        written += snprintf(text + written, size - (size_t)written, "%s%lld%s", d ? ", " : "(",
                            (long long)r->extents[d], d + 1 < n ? "" : end);
}

void kb_range_element(const kb_range *r, int64_t offset, char text[], size_t size)
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

/* Measures arguments and shared arrays. */
static void measure(kb_checks *c, uint32_t dynamic_shared, void *const *parameters)
{
    for (uint32_t i = 0; i < c->n_ranges; i++) {
        kb_range *r = &c->ranges[i];
        const kb_check_array *a = &c->table->arrays[i];
        r->about = a;
        if (i < c->table->n_arguments && !(a->flags & KB_CHECK_SPREAD))
            kb_range_measure(r, parameters);
        else
            kb_range_fixed(r, a->offset, a->flags & KB_CHECK_DYNAMIC ? dynamic_shared : a->size);
        uint64_t size = (uint64_t)(r->high - r->low);
        r->is_watched = kb_unwritten_find(kb_range_first(r, c->slice), size) != NULL;
        c->is_batched = c->is_batched || r->slice;
    }
}

/* Cells for shared memory. All dynamic arrays are the same memory. */
static void count_shared(kb_checks *c)
{
    uint64_t of_dynamic = 0, size_of_dynamic = 0;
    for (uint32_t i = c->table->n_arguments; i < c->n_ranges; i++)
        if (c->ranges[i].about->flags & KB_CHECK_SPREAD) {
            c->shared_cells = KB_SHARED_CELLS / (c->begun ? c->n_blocks : 1);
            return;
        } else if (c->ranges[i].about->flags & KB_CHECK_DYNAMIC) {
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

static bool make_room(kb_checks *c, bool is_cooperative)
{
    const kb_check_table *t = c->table;
    size_t n_rows = (size_t)c->n_ranges + t->n_local + 1;
    kb_arena *arena = c->arena;
    c->ranges = kb_arena_take(arena, c->n_ranges, sizeof *c->ranges);
    c->rows = kb_arena_take(arena, 1, sizeof *c->rows + n_rows * sizeof *c->rows->of);
    c->written = (uint8_t **)kb_arena_take(arena, t->n_arguments, sizeof *c->written);
    c->locals = (void **)kb_arena_take(arena, (size_t)c->n_threads * t->n_local, sizeof *c->locals);
    c->begins = kb_arena_take(arena, c->n_blocks, sizeof *c->begins);
    c->seen = kb_arena_take(arena, ((size_t)c->n_threads + KB_WARP) * KB_WARP, sizeof *c->seen);
    c->begun = is_cooperative ? kb_arena_take(arena, c->n_blocks, sizeof *c->begun) : NULL;
    if (!c->ranges || !c->rows || !c->written || !c->locals || !c->begins || !c->seen ||
        (is_cooperative && !c->begun))
        return false;
    c->rows->n = n_rows;
    c->rows->of[0].size = KB_CHECK_ADDRESS;
    return true;
}

static bool take_cells(kb_checks *c, uint32_t dynamic_shared, void *const *parameters)
{
    measure(c, dynamic_shared, parameters);
    size_t n = kb_ranges_count(c->ranges, c->table->n_arguments);
    count_shared(c);
    c->shared_cell = n;
    c->shadow = kb_shadow_take(n + c->shared_cells * (c->begun ? c->n_blocks : 1));
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
    kb_checks *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->table = table;
    memcpy(c->sizes, sizes, sizeof c->sizes);
    c->n_blocks = sizes[0] * sizes[1] * sizes[2];
    c->n_threads = sizes[3] * sizes[4] * sizes[5];
    c->n_ranges = table->n_arguments + table->n_shared;
    c->arena = kb_arena_new();
    c->fences = (kb_fences){.arena = c->arena, .n_threads = c->n_threads, .n_blocks = c->n_blocks};
    if (make_room(c, is_cooperative) && take_cells(c, dynamic_shared, parameters)) {
        kb_checks_phase(c);
        return c;
    }
    kb_checks_free(c);
    return NULL;
}
