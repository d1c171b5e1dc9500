/* Kernels of the checked mode for tests: lists of steps, each of which one thread or all threads
 * do, on arrays of every sort. */
#ifndef CHECK_STEPS_H
#define CHECK_STEPS_H

#include "ext/emulator/kb_check.h"
#include "ext/emulator/kb_hostcuda.h"
#include "kb_test.h"

#ifdef KB_FIBRE_ASAN
#include <sanitizer/asan_interface.h>
#endif

enum { N_THREADS = 70, STEPS_MAX = 12, ITEM = 4, N_SITES = STEPS_MAX + 1 };
enum { X, Y, Z, B, ALIAS, PART, CONSTANT, N_ARGUMENTS, S = N_ARGUMENTS, DYNAMIC, N_RANGES };
enum { LOCAL = N_RANGES, RAW, N_ARRAYS };
enum { ALL = -1 };

typedef enum {
    END,
    READ,
    WRITE,
    ATOMIC,
    INDEX,
    FENCE,
    BARRIER,
    LANES,
    VIEW,
    STOP,
    GRID,
} operation;

/* `at` is an element, an index, or lanes; `value` what is written, or an extent. Threads of all
 * blocks along x are counted. */
typedef struct step {
    operation does;
    int thread, array, at, value;
} step;

static const int64_t shape[2] = {2, 3}, local_shape[1] = {5};
static const kb_check_array arrays[] = {
    {"'x' (int32[1d])", ITEM, 1, 0, 0, 0, 0, NULL, ITEM},
    {"'y' (int32[2d])", ITEM, 2, 2, 0, 0, 0, NULL, ITEM},
    {"'z' (int32[2d])", ITEM, 2, 5, KB_CHECK_STRIDED, 0, 0, NULL, ITEM},
    {"'b' (int32[1d])", ITEM, 1, 10, KB_CHECK_BATCHED, 0, 0, NULL, ITEM},
    {"'alias' (int32[1d])", ITEM, 1, 13, 0, 0, 0, NULL, ITEM},
    {"'part' (int32[1d])", ITEM, 1, 15, KB_CHECK_CONSTANT, 0, 0, NULL, ITEM},
    {"'c' (int32[1d])", ITEM, 1, 17, KB_CHECK_CONSTANT, 0, 0, NULL, ITEM},
    {"the shared array", ITEM, 2, 0, 0, 0, 24, shape, ITEM},
    {"the dynamic array", ITEM, 1, 0, KB_CHECK_DYNAMIC, 32, 0, NULL, ITEM},
    {"the local array", ITEM, 1, 0, 0, 0, 20, local_shape, 0},
};
static const char *const sites[N_SITES] = {"",       "k.py:1\tx[i] += 1",
                                           "k.py:2", "k.py:3",
                                           "k.py:4", "k.py:5",
                                           "k.py:6", "k.py:7",
                                           "k.py:8", "k.py:9"};
static const kb_check_table table = {"kernel", arrays, N_ARGUMENTS, 2, 1, 10, sites, 1};

static int32_t x[10], y[12], z[24], b[8], c[2];
static int64_t words[19];
static void *parameters[19];
static const step *script;

static inline void set_up(void)
{
    enum { OF_Z = 13 }; /* the element that comes first; steps of -6 and 2 elements */
    const int64_t all[19] = {(int64_t)(uintptr_t)x,
                             10,
                             (int64_t)(uintptr_t)y,
                             3,
                             4,
                             (int64_t)(uintptr_t)(z + OF_Z),
                             3,
                             2,
                             -6 * ITEM,
                             2 * ITEM,
                             (int64_t)(uintptr_t)b,
                             4 * ITEM,
                             4,
                             (int64_t)(uintptr_t)x,
                             10,
                             (int64_t)(uintptr_t)(x + 4),
                             3,
                             (int64_t)(uintptr_t)c,
                             2};
    memcpy(words, all, sizeof words);
    for (int i = 0; i < 19; i++)
        parameters[i] = &words[i];
}

static inline void *address_of(kb_thread *t, int array, void *local)
{
    if (array == RAW)
        return local;
    if (array == LOCAL)
        return kb_check_local_array(t, local, 0);
    if (array >= S)
        return kb_check_shared_array(t, (uint32_t)array - S);
    int64_t given = words[arrays[array].word];
    if (array == B)
        given += words[arrays[B].word + 1] * t->ctaid[2];
    uint64_t tagged = (uint64_t)given | (uint64_t)(array + 1) << KB_CHECK_TAG_SHIFT;
    return (void *)(uintptr_t)tagged; // NOLINT(performance-no-int-to-ptr)
}

/* As `kb.check.access` of ll/threads.py has it. */
static inline void *memory_of(kb_thread *t, void *at, uint64_t size, uint32_t how, uint64_t value)
{
    const kb_check_rows *rows = kb_check_rows_of(t);
    uint64_t word = (uintptr_t)at, row = word >> KB_CHECK_TAG_SHIFT;
    uint64_t address = word & ((UINT64_C(1) << KB_CHECK_TAG_SHIFT) - 1);
    uint64_t offset = row < rows->n ? address - rows->of[row].first : 0;
    if (row >= rows->n || offset >= rows->of[row].size || size > rows->of[row].size - offset)
        (void)kb_check_ask(t, at, size, how, value);
    else if (rows->of[row].cells)
        kb_check_touch(t, row, offset, size, how, value);
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

static inline void access_memory(kb_thread *t, const step *s, uint32_t site, void *local)
{
    unsigned char *at = address_of(t, s->array, local);
    at += (int64_t)s->at * ITEM;
    const step *index = s; /* what made the address stands before */
    while (index > script && index[-1].does == INDEX && index[-1].thread == s->thread)
        index--;
    for (; index < s; index++)
        if (index->at < 0 || index->at >= index->value)
            at = kb_check_wrong(t, at, index->at, index->value, 1);
    if (s->does == VIEW)
        return;
    uint32_t kind = s->does == READ    ? KB_ACCESS_READ
                    : s->does == WRITE ? KB_ACCESS_WRITE_VALUE
                                       : KB_ACCESS_ATOMIC;
    int32_t value = s->value;
    void *memory = memory_of(t, at, ITEM, KB_CHECK_HOW(kind, site), (uint32_t)value);
    if (s->does != READ)
        memcpy(memory, &value, ITEM);
}

static inline void run_script(void *const *unused, kb_thread *t)
{
    (void)unused;
    int32_t local[5] = {0};
    uint32_t site = 1;
    for (const step *s = script; s->does != END; s++, site++) {
        if (s->thread != ALL && s->thread != (int)(t->ctaid[0] * N_THREADS + t->index))
            continue;
        switch (s->does) {
        case INDEX:
            break; /* see access_memory */
        case FENCE:
            kb_check_fenced(t);
            break;
        case BARRIER:
            kb_barrier(t, site);
            break;
        case LANES:
            if (t->index < KB_WARP && s->at >> t->lane & 1)
                kb_warp_barrier(t, (uint32_t)s->at, site);
            break;
        case STOP:
            return;
        case GRID:
            kb_check_grid(t);
            kb_grid_barrier(t, site);
            break;
        default:
            access_memory(t, s, site, local);
        }
    }
}

/* AddressSanitizer takes what frames of abandoned fibres marked for marks of the next ones. */
static inline void forget_frames(const kb_block *block)
{
#ifdef KB_FIBRE_ASAN
    __asan_unpoison_memory_region(block->stacks, block->stacks_size);
#else
    (void)block;
#endif
}

typedef struct row {
    step steps[STEPS_MAX];
    const char *fault; /* part of it; or NULL */
} row;

#endif
