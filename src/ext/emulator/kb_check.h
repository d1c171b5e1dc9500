/* The checked mode of kernels on the CPU. Their code asks about every access and every index; what
 * is wrong ends the block with a fault that names array, index and place in the source.
 *
 * An address that a kernel gets carries the number of its array in bits 48 to 62, through all
 * arithmetic on it, and is turned into one of memory at the access alone. So an access is measured
 * by the array that it was meant for, whatever lies beside it. */
#ifndef KB_CHECK_H
#define KB_CHECK_H

#include "ext/emulator/kb_block.h"
#include "ext/emulator/kb_race.h"

#define KB_CHECK_ADDRESS ((UINT64_C(1) << KB_CHECK_TAG_SHIFT) - 1)
enum { KB_CHECK_TAG_SHIFT = 48, KB_CHECK_TAG_MAX = 0x7FFF, KB_CHECK_WRONG_MAX = 256 };

/* Where an array lies for a launch, and which of them share memory. */
enum { KB_CHECK_DIMS = 32 };

/* From block to block of a cooperative grid, bytes of shared arrays that lie apart. */
enum { KB_CHECK_STRIDE = 256 * 1024 };

/* The description of an array. The generated code has these, laid out as C does. */
typedef struct kb_check_array {
    const char *name; /* with its type, as messages have it */
    uint32_t item_size;
    uint32_t n_dims; /* of arguments */
    uint32_t word;   /* arguments: the parameter with its address; extents and strides follow */
    uint32_t flags;
    uint64_t offset, size; /* shared arrays: bytes; local ones have a size alone */
    const int64_t *shape;  /* of arrays that are not measured by their words; or NULL */
    uint64_t cell;         /* bytes of an item that are written together */
} kb_check_array;

enum {
    KB_CHECK_BATCHED = 1u << 0,  /* behind the address: bytes from slice to slice */
    KB_CHECK_STRIDED = 1u << 1,  /* behind the extents: strides in bytes */
    KB_CHECK_CONSTANT = 1u << 2, /* nothing writes to it: no races */
    KB_CHECK_DYNAMIC = 1u << 3,  /* shared: the size is the launch's */
    KB_CHECK_SPREAD = 1u << 4,   /* `offset` is an address; if shared, name and size come later */
};

/* `low` and `high` are bytes around `base`. */
typedef struct kb_range {
    const kb_check_array *about;
    uint64_t base;
    int64_t low, high, slice; /* bytes from slice to slice of a batch */
    int64_t extents[KB_CHECK_DIMS];
    size_t cell;     /* the first that remembers its accesses */
    uint64_t unit;   /* bytes of a cell, a power of 2; 0 where nothing writes */
    uint32_t group;  /* the first of the arguments that share memory */
    bool is_watched; /* although nothing writes */
} kb_range;

/* An argument, from its words. */
void kb_range_measure(kb_range *range, void *const *parameters);

/* A shared or local array. */
void kb_range_fixed(kb_range *range, uint64_t base, uint64_t size);

/* Bytes of an array that are written together, if it shares memory with another that has `unit`. */
uint64_t kb_range_unit(const kb_range *range, uint64_t unit);

/* Sees which arguments need cells, and how many cells; arguments that overlap share them. */
size_t kb_ranges_count(kb_range ranges[], uint32_t n);

/* Text of the element that lies `offset` bytes from the beginning. */
void kb_range_element(const kb_range *range, int64_t offset, char text[], size_t size);

/* Text of its shape. */
void kb_range_shape(const kb_range *range, char text[], size_t size);

/* Where an argument lies for a slice of a batch. */
static inline uint64_t kb_range_first(const kb_range *r, uint32_t slice)
{
    return r->base + (uint64_t)r->low + (uint64_t)(r->slice * slice);
}

/* The description of a kernel. The generated code has it, laid out as C does. */
typedef struct kb_check_table {
    const char *kernel;
    const kb_check_array *arrays; /* arguments, shared arrays, local arrays */
    uint32_t n_arguments, n_shared, n_local;
    uint32_t n_sites;
    const char *const *sites; /* "file:line" of each place, or ""; behind KB_CHECK_TEXT its text */
    uint64_t waits;           /* whether threads may wait for each other */
} kb_check_table;

enum { KB_CHECK_TEXT = '\t', KB_SHARED_CELLS = 1 << 22 /* for shared arrays that come later */ };

/* What generated code reads of an array at each access: where it lies at present, and whether
 * accesses inside of it are to be reported. An address without a number has row 0. */
typedef struct kb_check_row {
    uint64_t first, size; /* bytes of memory; where size is 0, see kb_check_ask */
    kb_race_cell *cells;  /* or NULL: nothing is remembered of it */
    uint32_t unit;        /* bytes of a cell, a power of 2 */
    uint32_t since;       /* a read of what was not written since then is looked at closer */
} kb_check_row;

typedef struct kb_check_rows {
    uint64_t n;
    uint64_t unused[3];
    kb_check_row of[];
} kb_check_rows;

/* What the checked mode remembers of the elements of a launch: a cell for each, and a time that
 * goes on from launch to launch, so that what is left of an earlier one is old and need not be
 * erased. Any thread may take cells. */
typedef struct kb_shadow {
    uint32_t time; /* no cell has a later one */
    size_t n_cells;
    kb_race_cell *cells; /* behind this, and */
    kb_race_more *more;  /* of each cell, behind these */
} kb_shadow;

/* At least so many cells; they are given back when the launch has ended. NULL without memory. */
kb_shadow *kb_shadow_take(size_t n_cells);
void kb_shadow_give_back(kb_shadow *shadow);

/* Whether the time might end before long. */
bool kb_shadow_is_late(const kb_shadow *shadow);

/* Erases everything and begins with the time again, if it is late; whether it was. */
bool kb_shadow_renew(kb_shadow *shadow);

/* An index that lies outside its axis, and the array that it was used on. */
typedef struct kb_wrong_index {
    int64_t index, extent;
    uint32_t axis;
    uint32_t which; /* as addresses have it: 0 for none */
} kb_wrong_index;

/* When a block began or went on. */
typedef struct kb_block_start {
    uint32_t time, block;
} kb_block_start;

/* What a launch keeps of accesses. One thread of the system runs it, and no other enters. */
typedef struct kb_checks {
    const kb_check_table *table;
    kb_range *ranges; /* arguments, then shared arrays */
    kb_check_rows *rows;
    uint32_t n_ranges, n_threads, n_blocks;
    uint32_t sizes[6];
    uint8_t **written; /* of arguments: for each byte, whether it has been written; or NULL */
    void **locals;     /* of thread i from i * n_local on */
    uint32_t *seen;    /* of thread i from i * KB_WARP on, once warps have had barriers */
    kb_shadow *shadow;
    size_t shared_cell, shared_cells; /* the first that is for shared memory; those of a block */
    kb_race_now global, shared;       /* the present, for the two sorts of memory */
    uint32_t slice;                   /* of a batch, which the block is in */
    bool is_batched;
    kb_block_start *begins; /* of this phase */
    uint32_t n_begins;
    uint32_t block;  /* the number of the one that runs */
    uint32_t *begun; /* when each block of a cooperative grid began; or NULL */
    kb_fences fences;
    struct kb_early_read {
        kb_thread *thread; /* NULL: there is none */
        uint32_t site, n;  /* of such reads since then */
        char text[KB_FAULT_SIZE];
    } unwritten; /* a read of unwritten shared memory, until the next barrier */
    struct kb_late_race {
        kb_thread *thread; /* NULL: there is none */
        uint64_t row, offset, size;
        uint32_t site, block;
        kb_race_party other;
        uint8_t before[16];
    } late;                   /* a race, unless the thread writes what was there before */
    struct kb_spread *spread; /* of CUDA C++; or NULL */
    struct kb_arena *arena;   /* of all memory but the cells */
    bool may_be_same;         /* the next access comes after what the thread is about to write */
    uint32_t n_polls; /* since a thread of the block has done anything else that others could see */
    uint32_t n_wrong; /* addresses made of wrong indices */
    kb_wrong_index wrong[KB_CHECK_WRONG_MAX];
} kb_checks;

/* NULL without memory. */
kb_checks *kb_checks_new(const kb_check_table *table, const uint32_t sizes[6],
                         uint32_t dynamic_shared, void *const *parameters, bool is_cooperative);
void kb_checks_free(kb_checks *checks);

/* Code that does not tell what it writes has written by now: such a race is one, or is none. */
void kb_checks_settle_race(kb_checks *checks);

/* Where a shared array lies for the block that runs, and that it lies there from now on. */
uint64_t kb_checks_shared(const kb_checks *checks, const kb_check_array *about,
                          const unsigned char *memory);
void kb_checks_place(kb_checks *checks, uint32_t range, uint64_t first);

/* All blocks have come to a barrier of the grid, or to their ends. */
void kb_checks_phase(kb_checks *checks);

/* An access and its place in one number. */
enum { KB_CHECK_KINDS = 4 };
#define KB_CHECK_HOW(kind, site) ((uint32_t)(kind) | (uint32_t)(site)*KB_CHECK_KINDS)

/* What compiled kernels call. The arrays, for the time of the launch; addresses with an array's
 * number for the shared or local array `which`; */
const kb_check_rows *kb_check_rows_of(kb_thread *thread);
void *kb_check_shared_array(kb_thread *thread, uint32_t which);
void *kb_check_local_array(kb_thread *thread, void *memory, uint32_t which);

/* what an address becomes that a wrong index made: one that carries a number of its own, through
 * all arithmetic on it, so that accesses by it are faults, and nothing else is; */
void *kb_check_wrong(kb_thread *thread, void *made, int64_t index, int64_t extent, uint32_t axis);

/* an access inside of an array whose row has cells, `offset` bytes from its beginning. `value` has
 * the bytes that will be written, of at most 8; */
void kb_check_touch(kb_thread *thread, uint64_t row, uint64_t offset, uint64_t size, uint32_t how,
                    uint64_t value);

/* memory for any other access; */
void *kb_check_ask(kb_thread *thread, const void *given, uint64_t size, uint32_t how,
                   uint64_t value);

/* Ends the block. The words of the format stand between the block and thread, and the lines of the
 * source. For an access, they stand after what it does to which element. */
_Noreturn void kb_check_fail(kb_thread *thread, uint32_t site, uint32_t other, const char *format,
                             ...) __attribute__((format(printf, 4, 5)));
_Noreturn void kb_check_fail_at(kb_thread *thread, uint64_t row, uint64_t offset, uint32_t how,
                                const char *what);

/* An atomic access, which is checked otherwise or not at all. */
void kb_check_atomic(kb_thread *thread);

/* a fence, also of code that is not checked; and a barrier of the grid, to which the thread will
 * come. */
void kb_check_fenced(kb_thread *thread);
void kb_check_grid(kb_thread *thread);

/* Places in CUDA C++ that is checked, of which any thread may ask: a number from 1 on for a line,
 * or for the code before this address; 0 if there are too many. */
uint32_t kb_site_of_line(const char *file, uint32_t line);
uint32_t kb_site_of_code(const void *code);

enum { KB_SITE_TEXT = 384 };

/* "file:line", with a tab and the line's text after it if the file can be read; or "". */
const char *kb_site_text(uint32_t site, char text[KB_SITE_TEXT]);

#endif
