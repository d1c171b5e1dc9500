/* What of a source stands in its namespaces and in no braces else, with its macros replaced. Not to
 * be entered by two threads. */
#ifndef KB_OUTLINE_H
#define KB_OUTLINE_H

#include "source/kb_lexer.h"
#include "source/kb_macro.h"

/* Gives the tokens. The braces of namespaces and of extern "C" are among them, in pairs or open at
 * the end; any other pair is one KB_TOKEN_BODY. Fails only for want of memory; the result is freed
 * with kb_tokens_free either way. */
kb_status kb_outline(const kb_lexed *lexed, kb_macros *macros, kb_tokens *outline, kb_error *err);

#endif
