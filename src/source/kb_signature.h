/* Finds the functions of certain names in a source's outline. Not to be entered by two threads. */
#ifndef KB_SIGNATURE_H
#define KB_SIGNATURE_H

#include "core/kb_arena.h"
#include "core/kb_error.h"
#include "source/kb_declaration.h"
#include "source/kb_names.h"

typedef struct kb_signature {
    bool found;
    uint32_t at;       /* its name's offset in the source */
    bool made;         /* by a macro */
    bool exact;        /* its namespaces are those that were asked for, and no others */
    kb_text qualified; /* "::a::name" */
    kb_declaration declaration;
} kb_signature;

/* In the order in which they are preferred; of each the first in the text. A kernel whose name is
 * exactly the one that was asked for comes before kernels in other namespaces. */
enum { KB_BODY_BEHIND, KB_BODY_BEFORE, KB_PROTOTYPE_BEHIND, KB_PROTOTYPE_BEFORE, KB_FOUND_KINDS };

/* What is looked for: a function, or a kernel (__global__), of that name; `at`: what divides behind
 * from before. With qualifiers it must be in a namespace that ends with them. */
typedef struct kb_wanted {
    kb_text name;
    uint32_t at;
    bool kernel;
    const kb_token *qualifiers;
    size_t n_qualifiers;
    kb_signature found[KB_FOUND_KINDS];
} kb_wanted;

/* Fills in `found`. `names` has the index of each wanted name. Fails only for want of memory, which
 * is the arena's. */
kb_status kb_signatures_find(const kb_tokens *outline, const kb_names *names, kb_wanted *wanted,
                             kb_arena *arena, kb_error *err);

/* The one that is preferred, or NULL. */
const kb_signature *kb_wanted_best(const kb_wanted *wanted);

#endif
