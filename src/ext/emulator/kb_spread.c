/* Owns the places of the arrays of checked CUDA C++, and what is asked about its accesses. */
#include "ext/emulator/kb_spread.h"

#include "core/kb_arena.h"
#include "core/kb_dtype.h"
#include "kernbridge/cuda_host.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

_Static_assert((int)KB_CUDA_READ == (int)KB_ACCESS_READ &&
                   (int)KB_CUDA_WRITE == (int)KB_ACCESS_WRITE &&
                   (int)KB_CUDA_ATOMIC == (int)KB_ACCESS_ATOMIC &&
                   (int)KB_CUDA_ALIGNED == (int)KB_CHECK_KINDS,
               "modules name accesses as we do");

enum {
    N_SHARED = 62,        /* shared arrays of a launch */
    FIXED_MAX = 48 << 10, /* bytes of static ones in a block, which is what ptxas accepts */
    SHARED_UNIT = 4,      /* bytes of dynamic arrays that are remembered together */
    PLACE_BITS = 36,      /* of the room for an array, which lies in its middle: an int */
    PLACE_BITS_MIN = 30,  /* as an index stays in it */
    FIRST_PAGE = 4096,    /* that nothing is in */
    NAME_SIZE = 256,
};

typedef struct moved_array {
    void *before, *now;
    uint64_t size;
    bool is_output;
    char name[NAME_SIZE];
} moved_array;

struct kb_spread {
    kb_arena *arena;
    uint8_t *base;
    uint64_t size;
    uint32_t bits, n_max, n_shared;
    moved_array *arrays;
    kb_check_array *about; /* n_max arrays, then shared ones */
    kb_check_table table;
    kb_unwritten unwritten;
    const void *keys[N_SHARED];
    char names[N_SHARED][NAME_SIZE];
    uint64_t next_cell, fixed;
    const kb_unwritten *unwritten_before;
    kb_spread *outer;
};

const kb_check_table kb_spread_launches = {.kernel = "", .waits = 1};

static _Thread_local kb_spread *current;

/* Addresses alone, which take no memory. */
static bool reserve(kb_spread *p)
{
    for (p->bits = PLACE_BITS; p->bits >= PLACE_BITS_MIN; p->bits--) {
        p->size = ((uint64_t)p->n_max + N_SHARED) << p->bits;
        void *base =
            mmap(NULL, p->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base != MAP_FAILED) {
            p->base = base;
            return true;
        }
    }
    return false;
}

kb_spread *kb_spread_new(uint32_t n)
{
    kb_arena *arena = kb_arena_new();
    kb_spread *p = kb_arena_take(arena, 1, sizeof *p);
    if (p) {
        p->arena = arena;
        p->n_max = n;
        p->arrays = kb_arena_take(arena, n, sizeof *p->arrays);
        p->about = kb_arena_take(arena, (size_t)n + N_SHARED, sizeof *p->about);
        p->unwritten.regions = kb_arena_take(arena, n, sizeof *p->unwritten.regions);
    }
    if (!p || !p->arrays || !p->about || !p->unwritten.regions || !reserve(p)) {
        kb_arena_free(arena);
        return NULL;
    }
    p->outer = current;
    current = p;
    p->unwritten_before = kb_unwritten_exchange(&p->unwritten);
    return p;
}

/* The memory of place `i`. */
static uint8_t *commit(kb_spread *p, uint32_t i, uint64_t size)
{
    uint8_t *at = p->base + ((uint64_t)i << p->bits) + (UINT64_C(1) << (p->bits - 1));
    if (size > UINT64_C(1) << (p->bits - 2))
        return NULL;
    return mprotect(at, size, PROT_READ | PROT_WRITE) == 0 ? at : NULL;
}

/* "f32" for "float32", as all messages have it. */
static void shorten(const char *dtype, char text[], size_t size)
{
    size_t letters = strcspn(dtype, "0123456789_");
    bool is_short = dtype[letters] == '\0' || strchr(dtype, '_');
    size_t shown = is_short ? letters : dtype[0] == 'b' ? 2 : 1; /* of bfloat16 */
    (void)snprintf(text, size, "%.*s%s", (int)shown, dtype, dtype + letters);
}

static void describe(kb_spread *p, uint32_t i, const kb_xla_buffer *like, const char *name)
{
    moved_array *m = &p->arrays[i];
    char dtype[NAME_SIZE / 4];
    shorten(kb_dtype_name(like->dtype), dtype, sizeof dtype);
    int n = snprintf(m->name, sizeof m->name, "'%s' (%s[", name, dtype);
    for (int64_t d = 0; d < like->rank && n < NAME_SIZE; d++)
        n += snprintf(m->name + n, sizeof m->name - (size_t)n, "%s%lld", d ? ", " : "",
                      (long long)like->dims[d]);
    if (n < NAME_SIZE)
        (void)snprintf(m->name + n, sizeof m->name - (size_t)n, "])");
    uint32_t item = kb_dtype_size(like->dtype) ? kb_dtype_size(like->dtype) : 1;
    bool is_complex = like->dtype == KB_DTYPE_C64 || like->dtype == KB_DTYPE_C128;
    p->about[i] = (kb_check_array){
        .name = m->name,
        .item_size = item,
        .n_dims = (uint32_t)like->rank,
        .flags = KB_CHECK_SPREAD | (m->is_output ? 0 : KB_CHECK_CONSTANT),
        .offset = (uintptr_t)m->now,
        .size = m->size,
        .shape = like->dims,
        .cell = is_complex ? item / 2 : item,
    };
}

bool kb_spread_add(kb_spread *p, void **data, const kb_xla_buffer *like, const char *name,
                   bool is_output)
{
    uint32_t i = p->table.n_arguments, first = 0;
    if (i == p->n_max || like->rank > KB_CHECK_DIMS)
        return false;
    enum { BYTE = 8 };
    int64_t count = kb_buffer_count(like);
    uint64_t bits = count > 0 ? (uint64_t)count * kb_dtype_bits(like->dtype) : 0;
    uint64_t size = (bits + BYTE - 1) / BYTE; /* elements of less than a byte are packed */
    while (first < i && !(size && p->arrays[first].before == *data))
        first++;
    moved_array *m = &p->arrays[i];
    *m = (moved_array){.before = *data, .size = size, .is_output = is_output};
    m->now = first < i ? p->arrays[first].now : commit(p, i, size);
    if (!m->now)
        return false;
    for (uint32_t k = 0; k < i; k++) /* an input that is also an output may be written to */
        if (is_output && p->arrays[k].now == m->now)
            p->about[k].flags &= ~(uint32_t)KB_CHECK_CONSTANT;
    describe(p, i, like, name);
    p->table.n_arguments++;
    *data = m->now;
    if (size && !is_output)
        memcpy(m->now, m->before, size);
    if (!size || !is_output || first < i)
        return true;
    kb_unwritten_region *r = &p->unwritten.regions[p->unwritten.n_regions++];
    *r = (kb_unwritten_region){(uintptr_t)m->now, size, kb_arena_take(p->arena, size, 1)};
    return r->written != NULL;
}

void kb_spread_leave(kb_spread *spread)
{
    current = spread->outer;
    (void)kb_unwritten_exchange(spread->unwritten_before);
    for (uint32_t i = 0; i < spread->table.n_arguments; i++)
        if (spread->arrays[i].is_output && spread->arrays[i].size)
            memcpy(spread->arrays[i].before, spread->arrays[i].now, spread->arrays[i].size);
    (void)munmap(spread->base, spread->size);
    kb_arena_free(spread->arena);
}

kb_status kb_spread_run(const kb_frame *frame, kb_run *run, kb_error *err)
{
    const kb_kernel *kernel = frame->kernel;
    uint32_t n = kb_kernel_n_buffers(kernel);
    kb_spread *p = kb_spread_new(n);
    kb_frame moved;
    kb_xla_frame xla;
    kb_xla_buffer *buffers = p ? kb_guard_copy(frame, p->arena, &moved, &xla) : NULL;
    bool well = buffers != NULL;
    for (uint32_t i = 0; well && i < n; i++)
        well = kb_spread_add(p, &buffers[i].data, &buffers[i], kernel->buffers[i].name,
                             i >= kernel->n_inputs);
    kb_status s = well ? run(&moved, err)
                       : kb_error_set(err, KB_RESOURCE_EXHAUSTED, "%s: no memory to check accesses",
                                      kernel->name);
    if (p)
        kb_spread_leave(p);
    return s;
}

kb_checks *kb_spread_checks(const uint32_t sizes[6], uint32_t dynamic_shared, bool is_cooperative)
{
    kb_spread *p = current;
    if (!p)
        return NULL;
    kb_check_array *shared = p->about + p->table.n_arguments;
    for (uint32_t i = 0; i < N_SHARED; i++)
        shared[i] = (kb_check_array){.item_size = 1, .flags = KB_CHECK_SPREAD};
    p->n_shared = 0;
    p->next_cell = p->fixed = 0;
    p->table.arrays = p->about;
    p->table.n_shared = N_SHARED;
    kb_checks *c = kb_checks_new(&p->table, sizes, dynamic_shared, NULL, is_cooperative);
    if (c)
        c->spread = p;
    return c;
}

void kb_spread_access(kb_thread *t, const void *at, uint64_t size, uint32_t how, const void *code)
{
    kb_checks *c = t->block->checks;
    const kb_spread *p = c->spread;
    kb_checks_settle_race(c);
    uint64_t address = (uintptr_t)at, from = address - (uintptr_t)p->base;
    uint32_t kind = how % KB_CHECK_KINDS;
    if (from >= p->size && address >= FIRST_PAGE) {
        if (kind == KB_ACCESS_ATOMIC) /* of a lock among the variables */
            kb_check_atomic(t);
        return;
    }
    uint32_t site = kb_site_of_code(code);
    uint64_t place = from >> p->bits, n = (uint64_t)p->table.n_arguments + p->n_shared;
    uint64_t row = place < n ? place + 1 : c->rows->n; /* or one of no array */
    c->may_be_same = how & KB_CUDA_ALIGNED; /* of a copy of a structure, the write is asked first */
    // NOLINTNEXTLINE(performance-no-int-to-ptr): with a tag
    const void *tagged = (const void *)(uintptr_t)(address | row << KB_CHECK_TAG_SHIFT);
    (void)kb_check_ask(t, tagged, size, KB_CHECK_HOW(kind, site), 0);
    const kb_range *r = &c->ranges[row - 1];
    uint64_t offset = address - c->rows->of[row].first;
    const char *wrong = NULL;
    if (how & KB_CUDA_ALIGNED && address % size)
        wrong = "at an address that is no multiple of the size of the access, which a GPU refuses";
    else if (kind != KB_ACCESS_READ && r->about->flags & KB_CHECK_CONSTANT)
        wrong = "which is an input: JAX's arrays do not change";
    if (wrong)
        kb_check_fail_at(t, row, offset, KB_CHECK_HOW(kind, site), wrong);
}

void kb_spread_wrong_index(kb_thread *t, uint64_t index, const char *type, uint32_t site)
{
    char room[KB_SITE_TEXT];
    const char *place = kb_site_text(site, room);
    kb_check_fail(t, site, site,
                  "the index %lld is out of bounds for an array of type %s (at %.*s)",
                  (long long)index, type, (int)strcspn(place, "\t"), place);
}

static void declare(kb_thread *t, uint32_t i, const char *name, uint64_t size, uint32_t item,
                    const int64_t *shape)
{
    kb_checks *c = t->block->checks;
    kb_spread *p = c->spread;
    uint32_t n = p->table.n_arguments + i;
    bool is_dynamic = size == 0;
    p->fixed += size;
    if (p->fixed > FIXED_MAX)
        kb_block_fail(t, "the static shared arrays up to '%s' take %llu bytes, CUDA allows %d",
                      name, (unsigned long long)p->fixed, FIXED_MAX);
    size = is_dynamic ? t->dynamic_shared : size;
    uint64_t room = c->begun ? (uint64_t)c->n_blocks * KB_CHECK_STRIDE : size;
    const uint8_t *at = i < N_SHARED ? commit(p, n, room) : NULL;
    uint32_t unit = is_dynamic ? SHARED_UNIT : item & -item;
    uint64_t cells = (size + unit - 1) / unit;
    if (!at || p->next_cell + cells > c->shared_cells)
        kb_block_fail(t, "no memory to check the accesses to the shared array '%s'", name);
    (void)snprintf(p->names[i], NAME_SIZE, "the %sshared array '%s'", is_dynamic ? "dynamic " : "",
                   name);
    p->about[n] = (kb_check_array){.name = p->names[i],
                                   .item_size = item,
                                   .n_dims = shape ? (uint32_t)shape[0] : 1,
                                   .shape = shape ? shape + 1 : NULL,
                                   .flags = KB_CHECK_SPREAD,
                                   .offset = (uintptr_t)at,
                                   .size = size,
                                   .cell = unit};
    c->ranges[n].cell = p->next_cell;
    p->next_cell += cells;
    p->n_shared++;
    kb_range_fixed(&c->ranges[n], 0, size);
    c->rows->of[n + 1].unit = unit;
    kb_checks_place(c, n, kb_checks_shared(c, &p->about[n], NULL));
}

void *kb_spread_shared(kb_thread *t, const void *key, const char *name, uint64_t size,
                       uint32_t item, const int64_t *shape)
{
    kb_checks *c = t->block->checks;
    kb_spread *p = c->spread;
    uint32_t i = 0;
    while (i < p->n_shared && p->keys[i] != key)
        i++;
    if (i == p->n_shared) {
        declare(t, i, name, key ? size : 0, item, shape);
        p->keys[i] = key;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): kept as a number
    return (void *)(uintptr_t)kb_checks_shared(c, &p->about[p->table.n_arguments + i], NULL);
}
