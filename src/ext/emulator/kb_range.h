/* Where an array lies for a launch in checked mode, and which of them share memory. */
#ifndef KB_RANGE_H
#define KB_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    KB_CHECK_APART = 1u << 4,    /* `offset` is an address; if shared, name and size come later */
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

/* Sees which arguments need cells, and how many of them; those that overlap share them. */
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

#endif
