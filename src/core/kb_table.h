/* A hash table of items that hold its links themselves. A user of it locks. */
#ifndef KB_TABLE_H
#define KB_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first member of an item. */
typedef struct kb_link {
    struct kb_link *next;
    uint64_t hash;
} kb_link;

typedef struct kb_table {
    kb_link **chains;
    size_t capacity; /* a power of two, or 0 */
    size_t n;
} kb_table;

/* The items of this hash one after another, the newest first: `after` is the previous one, or NULL
 * for the first. NULL at the end. */
kb_link *kb_table_find(const kb_table *table, uint64_t hash, const kb_link *after);

/* Adds an item whose hash is set. False when there is no memory. */
bool kb_table_add(kb_table *table, kb_link *item);

/* Takes out an item that is in the table. */
void kb_table_remove(kb_table *table, kb_link *item);

/* A hash of bytes (FNV-1a, eight bytes at a time). Content may be chosen so that it collides:
 * compare the content too. */
uint64_t kb_table_hash(const void *bytes, size_t size);

#endif
