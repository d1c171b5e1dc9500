/* The macros that a source defines itself. Not to be entered by two threads. */
#ifndef KB_MACRO_H
#define KB_MACRO_H

#include "core/kb_arena.h"
#include "source/kb_names.h"
#include "source/kb_token.h"

enum { KB_MACRO_PARAMETERS = 128 };

/* The tokens are those of the directive. */
typedef struct kb_macro {
    bool defined;
    bool function;  /* written with parentheses */
    bool variadic;  /* the last parameter stands for all that is left */
    bool disabled;  /* being expanded */
    int64_t braces; /* that its text leaves open; negative: that it closes */
    uint32_t n_parameters;
    kb_text *parameters;
    const kb_token *body;
    size_t n_body;
} kb_macro;

typedef struct kb_macro_slot {
    kb_macro *macro;
} kb_macro_slot;

/* All zero but the arena: no macros. */
typedef struct kb_macros {
    kb_arena *arena;
    kb_names names;
    kb_macro_slot *at;
    size_t n;
    size_t room;
} kb_macros;

/* Carries out a #define or #undef, given the tokens from behind its # up to KB_TOKEN_END. What is
 * no such directive, or has too many parameters, leaves its name undefined. False when there is no
 * memory. */
bool kb_macros_directive(kb_macros *macros, const kb_token *words, size_t n);

/* The macro of that name, or NULL. */
kb_macro *kb_macros_get(const kb_macros *macros, const kb_token *word);

/* The index of a parameter, or KB_MACRO_PARAMETERS. */
uint32_t kb_macro_parameter(const kb_macro *macro, const kb_token *word);

/* The arena stays. */
void kb_macros_free(kb_macros *macros);

#endif
