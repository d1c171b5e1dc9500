/* The text of one call of a function-like macro. Not to be entered by two threads. */
#ifndef KB_SUBSTITUTE_H
#define KB_SUBSTITUTE_H

#include "source/kb_expand.h"

/* The macro's body with its parameters replaced by `tokens`, of which parameter i has those up to
 * ends[i]. The result is the arena's. False when there is no memory. */
bool kb_substitute(kb_expander *x, kb_macro *m, const kb_tokens *tokens, const size_t *ends,
                   const kb_token **made, size_t *n_made);

#endif
