/* Finds the declarations of functions in a source's tokens, by their names. Not to be entered by
 * two threads. */
#ifndef KB_DECLARATION_H
#define KB_DECLARATION_H

#include "core/kb_arena.h"
#include "core/kb_error.h"
#include "source/kb_token.h"

/* Of one function. Indices are those of the tokens. */
typedef struct kb_declaration {
    bool found;
    size_t name;
    size_t open;       /* ( */
    size_t close;      /* ) */
    bool body;         /* and not a ; */
    bool kernel;       /* __global__ */
    kb_text qualified; /* "::a::name" */
    int rank;          /* among those of one name the lowest is preferred, then the first */
} kb_declaration;

/* What is looked for: a function, or a kernel (__global__), of that name, best behind `at`. */
typedef struct kb_wanted {
    kb_text name;
    uint32_t at;
    bool kernel;
    kb_text path; /* of a kernel: "a::name", with which its qualified name ends */
    uint32_t i;   /* the caller's */
    kb_declaration declaration;
} kb_wanted;

/* Fills in the declarations. `wanted` is sorted by kb_wanted_sort. A body is preferred to a
 * prototype, then what is behind `at`; a kernel whose qualified name is exactly the
 * path comes before all others. Fails only for want of memory, which is the arena's. */
kb_status kb_declarations_find(const kb_tokens *tokens, kb_wanted *wanted, uint32_t n,
                               kb_arena *arena, kb_error *err);

/* Sorts by name. */
void kb_wanted_sort(kb_wanted *wanted, uint32_t n);

#endif
