/* Owns the hash table from texts to numbers: open addressing, at most half full. */
#include "source/kb_names.h"

#include "core/kb_memory.h"

typedef struct kb_names_entry {
    kb_text text; /* no address: free */
    uint32_t hash;
    uint32_t number;
} entry;

enum { ROOM_FIRST = 64 };

/* FNV-1a. */
static uint32_t hash_of(kb_text text)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < text.size; i++)
        hash = (hash ^ (unsigned char)text.at[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static entry *find(const kb_names *names, kb_text text, uint32_t hash)
{
    size_t i = hash & (names->room - 1);
    while (names->entries[i].text.at &&
           (names->entries[i].hash != hash || !kb_text_same(names->entries[i].text, text)))
        i = (i + 1) & (names->room - 1);
    return &names->entries[i];
}

uint32_t kb_names_get(const kb_names *names, kb_text text)
{
    if (names->n == 0)
        return KB_NAMES_NONE;
    const entry *e = find(names, text, hash_of(text));
    return e->text.at ? e->number : KB_NAMES_NONE;
}

static bool grow(kb_names *names)
{
    size_t room = names->room ? 2 * names->room : ROOM_FIRST;
    kb_names bigger = {kb_calloc(room, sizeof(entry)), room, names->n};
    if (!bigger.entries)
        return false;
    for (size_t i = 0; i < names->room; i++) {
        const entry *e = &names->entries[i];
        if (e->text.at)
            *find(&bigger, e->text, e->hash) = *e;
    }
    kb_free(names->entries);
    *names = bigger;
    return true;
}

bool kb_names_add(kb_names *names, kb_text text, uint32_t number)
{
    if (2 * (names->n + 1) > names->room && !grow(names))
        return false;
    uint32_t hash = hash_of(text);
    *find(names, text, hash) = (entry){text, hash, number};
    names->n++;
    return true;
}

void kb_names_free(kb_names *names)
{
    kb_free(names->entries);
    *names = (kb_names){0};
}
