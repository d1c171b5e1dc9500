/* What the checked mode keeps for a launch, for the files that own a part of it. One thread of the
 * system runs the launch, and nobody else enters. */
#ifndef KB_CHECKS_H
#define KB_CHECKS_H

#include "hostcuda/kb_check.h"
#include "hostcuda/kb_fences.h"
#include "hostcuda/kb_range.h"
#include "hostcuda/kb_shadow.h"

enum { KB_CHECK_TAG_MAX = 0x7FFF, KB_CHECK_WRONG_MAX = 256 };

/* The numbers of addresses that were made of wrong indices: the last ones. */
enum { KB_CHECK_WRONG_FIRST = KB_CHECK_TAG_MAX - KB_CHECK_WRONG_MAX + 1 };

static const uint64_t kb_check_address_mask = (UINT64_C(1) << KB_CHECK_TAG_SHIFT) - 1;

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

struct kb_checks {
    const kb_check_table *table;
    kb_range *ranges; /* arguments, then shared arrays */
    kb_check_rows *rows;
    uint32_t n_ranges, n_threads, n_blocks;
    uint32_t sizes[6];
    uint8_t **written;   /* of arguments: for each byte, whether it has been written; or NULL */
    void **locals;       /* of thread i from i * n_local on */
    uint32_t *seen;      /* of thread i from i * KB_WARP on; NULL without barriers of warps */
    uint32_t *seen_room; /* for it */
    kb_shadow *shadow;
    size_t shared_cell, shared_cells; /* the first that is for shared memory; those of a block */
    kb_race_now global, shared;       /* the present, for the two sorts of memory */
    uint32_t slice;                   /* of a batch, which the block is in */
    bool is_batched, is_cooperative;
    kb_block_start *begins; /* of this phase */
    uint32_t n_begins;
    uint32_t block;  /* the number of the one that runs */
    uint32_t *begun; /* when each block of a cooperative grid began; or NULL */
    kb_fences fences;
    struct kb_unwritten {
        kb_thread *thread; /* NULL: there is none */
        uint32_t site, n;  /* of such reads since then */
        char text[KB_FAULT_SIZE];
    } unwritten;      /* a read of unwritten shared memory, until the next barrier */
    uint32_t n_polls; /* since a thread of the block has done anything else that others could see */
    uint32_t n_wrong; /* addresses made of wrong indices */
    kb_wrong_index wrong[KB_CHECK_WRONG_MAX];
};

/* Advances the time, for all. */
uint32_t kb_checks_tick(kb_checks *checks);

/* The block of an access that was made in this phase. */
uint32_t kb_checks_block_of(const kb_checks *checks, uint32_t time);

/* Ends the block. The format's words go between block and thread on the one hand, and the lines of
 * the source on the other. */
_Noreturn void kb_checks_fail(kb_thread *thread, uint32_t site, uint32_t other, const char *format,
                              ...) __attribute__((format(printf, 4, 5)));

/* " (at file:line)", or "". */
enum { KB_PLACE_MAX = 256 };
const char *kb_checks_place(const kb_thread *thread, uint32_t site, char text[KB_PLACE_MAX]);

#endif
