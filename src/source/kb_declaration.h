/* What stands around the name and the parameters of a function's declaration. Any thread may
 * enter. */
#ifndef KB_DECLARATION_H
#define KB_DECLARATION_H

#include "source/kb_token.h"

typedef enum kb_returns {
    KB_RETURNS_UNKNOWN,
    KB_RETURNS_VOID,
    KB_RETURNS_INT,
    KB_RETURNS_OTHER
} kb_returns;

/* Indices into the tokens. */
typedef struct kb_declaration {
    size_t name;
    size_t open;  /* ( */
    size_t close; /* ) */
    size_t end;   /* the body, or the ; */
    bool body;
    bool kernel; /* __global__ */
    kb_returns returns;
    size_t type; /* where an OTHER type begins, and ... */
    size_t type_end;
} kb_declaration;

/* Reads the declaration of the function whose name is at `name` and that begins not before `begin`.
 * False if it is none. Looks at no more tokens than there are in the declaration, and a bounded
 * number behind it. */
bool kb_declaration_read(const kb_tokens *tokens, size_t begin, size_t name, kb_declaration *d);

/* The index of what closes the bracket at `open`; `end` if nothing does before it or a `;`. */
size_t kb_bracket_end(const kb_token *tokens, size_t open, size_t end);

#endif
