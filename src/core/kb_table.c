/* Owns hash tables that are used under a lock: chains, as many as there are items or more. */
#include "core/kb_table.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

static kb_link **chain_of(const kb_table *table, uint64_t hash)
{
    return &table->chains[(hash ^ hash >> 32) & (table->capacity - 1)];
}

kb_link *kb_table_find(const kb_table *table, uint64_t hash, const kb_link *after)
{
    if (table->capacity == 0)
        return NULL;
    kb_link *item = after ? after->next : *chain_of(table, hash);
    while (item && item->hash != hash)
        item = item->next;
    return item;
}

static void put(kb_table *table, kb_link *item)
{
    kb_link **chain = chain_of(table, item->hash);
    item->next = *chain;
    *chain = item;
}

static bool grow(kb_table *table)
{
    kb_table larger = {.capacity = table->capacity ? 2 * table->capacity : FIRST_CAPACITY};
    larger.chains = calloc(larger.capacity, sizeof(kb_link *)); // NOLINT: of pointers
    if (!larger.chains)
        return false;
    for (size_t i = 0; i < table->capacity; i++) {
        kb_link *reversed = NULL; /* so that the newest of a hash stays the first */
        for (kb_link *item = table->chains[i], *next; item; item = next) {
            next = item->next;
            item->next = reversed;
            reversed = item;
        }
        for (kb_link *item = reversed, *next; item; item = next) {
            next = item->next;
            put(&larger, item);
        }
    }
    free(table->chains);
    table->chains = larger.chains;
    table->capacity = larger.capacity;
    return true;
}

/* Where a larger table has no memory, the chains of the present one become longer. */
bool kb_table_add(kb_table *table, kb_link *item)
{
    if (table->n >= table->capacity && !grow(table) && table->capacity == 0)
        return false;
    put(table, item);
    table->n++;
    return true;
}

void kb_table_remove(kb_table *table, kb_link *item)
{
    kb_link **at = chain_of(table, item->hash);
    while (*at != item)
        at = &(*at)->next;
    *at = item->next;
    table->n--;
}

uint64_t kb_table_hash(const void *bytes, size_t size)
{
    const uint64_t prime = 0x100000001b3;
    const unsigned char *at = bytes;
    uint64_t hash = 0xcbf29ce484222325 ^ size;
    for (; size >= sizeof hash; size -= sizeof hash, at += sizeof hash) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * prime;
        hash ^= hash >> 29;
    }
    for (; size > 0; size--, at++)
        hash = (hash ^ *at) * prime;
    return hash;
}
