/* Places in a source, for those who read messages. Not to be entered by two threads. */
#ifndef KB_PLACE_H
#define KB_PLACE_H

#include "core/kb_error.h"
#include "core/kb_text.h"

/* Lives as long as both texts. */
typedef struct kb_places {
    kb_text source;
    kb_text file;
    uint32_t *lines; /* where each begins */
    size_t n_lines;
} kb_places;

/* Fails only for want of memory; freed with kb_places_free either way. */
kb_status kb_places_begin(kb_places *places, kb_text source, kb_text file, kb_error *err);

void kb_places_free(kb_places *places);

/* Counted from 1. */
uint32_t kb_place_line(const kb_places *places, uint32_t at);

/* KB_INVALID_ARGUMENT with "file:line:column: message", the line, and a caret below. */
KB_COLD kb_status kb_place_error(const kb_places *places, uint32_t at, kb_error *err,
                                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Appends such a place, and what is there, to a message. */
KB_COLD void kb_place_append(const kb_places *places, uint32_t at, kb_error *err, const char *what);

#endif
