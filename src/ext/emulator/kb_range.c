/* Owns the measures of arrays, and which arguments share memory. */
#include "ext/emulator/kb_range.h"

#include <stdio.h>
#include <string.h>

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

static bool overlap(const kb_range *a, const kb_range *b)
{
    return kb_range_first(a, 0) < end_byte(b) && kb_range_first(b, 0) < end_byte(a);
}

/* Gives each range the first one that it is connected with. */
static void find_groups(kb_range ranges[], uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        ranges[i].group = i;
        for (uint32_t j = 0; j < i; j++) {
            uint32_t from = ranges[i].group, to = ranges[j].group;
            if (from == to || !overlap(&ranges[i], &ranges[j]))
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
    uint64_t first = kb_range_first(&ranges[group], 0), end = end_byte(&ranges[group]), unit = 0;
    bool needed = false;
    for (uint32_t i = group; i < n; i++) {
        const kb_range *r = &ranges[i];
        if (r->group != group)
            continue;
        first = kb_range_first(r, 0) < first ? kb_range_first(r, 0) : first;
        end = end_byte(r) > end ? end_byte(r) : end;
        needed = needed || r->is_watched || !(r->about->flags & KB_CHECK_CONSTANT);
        unit = kb_range_unit(r, unit);
    }
    if (!needed || first == end)
        return 0;
    for (uint32_t i = group; i < n; i++)
        if (ranges[i].group == group)
            unit = common_power(unit, kb_range_first(&ranges[i], 0) - first);
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
    text[0] = '\0';
    for (uint32_t d = 0; d < n && (size_t)written < size; d++)
        written += snprintf(text + written, size - (size_t)written, "%s%lld%s", d ? ", " : "(",
                            (long long)r->extents[d],
                            d + 1 < n ? ""
                            : n == 1  ? ",)"
                                      : ")");
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
