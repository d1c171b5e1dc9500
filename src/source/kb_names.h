/* A table from texts to numbers; the texts are borrowed. Not to be entered by two threads. */
#ifndef KB_NAMES_H
#define KB_NAMES_H

#include "source/kb_text.h"

typedef struct kb_names {
    struct kb_names_entry *entries;
    size_t room;
    size_t n;
} kb_names;

enum { KB_NAMES_NONE = UINT32_MAX };

/* The number of a text, or KB_NAMES_NONE. */
uint32_t kb_names_get(const kb_names *names, kb_text text);

/* Adds a text that is not there, `number` below KB_NAMES_NONE. False when there is no memory; then
 * nothing changed. */
bool kb_names_add(kb_names *names, kb_text text, uint32_t number);

void kb_names_free(kb_names *names);

#endif
