/* Reads tokens with the source's own macros replaced, as a preprocessor would. Bounded: past a
 * number of tokens, or too deep, names of macros stay as they are. Not to be entered by two
 * threads. */
#ifndef KB_EXPAND_H
#define KB_EXPAND_H

#include "source/kb_macro.h"

enum { KB_EXPAND_FRAMES = 100, KB_EXPAND_DEPTH = 12, KB_EXPAND_TOKENS = 1 << 21 };

typedef struct kb_expander {
    kb_macros *macros;
    size_t *
        budget; /* tokens that macros may still make; a call spends one more, and one a parameter */
    uint32_t depth;
    bool failed; /* no memory */
    bool unclosed;
    size_t n;
    struct kb_expand_frame {
        const kb_token *at;
        const kb_token *end;
        kb_macro *macro; /* whose text this is; NULL at the bottom */
        uint32_t call;   /* its offset */
    } frames[KB_EXPAND_FRAMES];
} kb_expander;

/* Reads `n` tokens, which stay the caller's. */
void kb_expander_begin(kb_expander *x, kb_macros *macros, size_t *budget, const kb_token *tokens,
                       size_t n);

/* The next token; without `expand` as it is written. Definitions on the way are carried out. False
 * at the end, and when there is no memory, which `failed` tells. */
bool kb_expander_next(kb_expander *x, bool expand, kb_token *token);

#endif
