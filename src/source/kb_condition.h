/* Which branches of #if, #elif and #else count while a text is cut into tokens. */
#ifndef KB_CONDITION_H
#define KB_CONDITION_H

#include "source/kb_token.h"

typedef enum kb_skip {
    KB_SKIP_NOTHING,
    KB_SKIP_TOKENS, /* annotations count */
    KB_SKIP_ALL
} kb_skip;

/* All zero: a text's begin. */
typedef struct kb_conditions {
    struct kb_condition *open;
    size_t n;
    size_t room;
    kb_skip skip;
    int64_t braces; /* open ones */
    int64_t parens;
} kb_conditions;

static inline kb_skip kb_conditions_skip(const kb_conditions *c)
{
    return c->skip;
}

/* Counts a bracket of the code. */
void kb_conditions_bracket(kb_conditions *c, char mark);

/* Takes note of a directive, given the tokens behind its #. False when there is no memory. */
bool kb_conditions_directive(kb_conditions *c, const kb_token *words, size_t n);

void kb_conditions_free(kb_conditions *c);

#endif
