/* Where an array lies for a launch in checked mode, and which of them share memory. */
#ifndef KB_RANGE_H
#define KB_RANGE_H

#include "hostcuda/kb_check.h"

#include <stdbool.h>
#include <stddef.h>

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

/* Sees which arguments need cells, and how many of them; those that overlap share them. */
size_t kb_ranges_count(kb_range ranges[], uint32_t n);

/* Text of the element that lies `offset` bytes from the beginning. */
void kb_range_element(const kb_range *range, int64_t offset, char text[], size_t size);

/* Text of its shape. */
void kb_range_shape(const kb_range *range, char text[], size_t size);

#endif
