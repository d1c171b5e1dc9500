/* Cuts the text of a C, C++ or CUDA source into tokens, and finds the comments that annotate. Not
 * to be entered by two threads with one result. */
#ifndef KB_LEXER_H
#define KB_LEXER_H

#include "core/kb_error.h"
#include "source/kb_token.h"

/* Directives are not among the tokens. What a condition leaves out for certain (#if 0, and what
 * stands beside #if 1) is nowhere; of any other condition all branches are there, but where one
 * opens brackets that it does not close: then those after it are left out. An annotation is the
 * text of a line comment from "@BE" to its end. All texts lie in the source. */
typedef struct kb_lexed {
    kb_tokens tokens;
    kb_tokens annotations;
} kb_lexed;

/* The source, of at most KB_TEXT_LIMIT bytes, may be anything. Fails only for want of memory; the
 * result is freed with kb_lexed_free either way. */
kb_status kb_lex(kb_text source, kb_lexed *lexed, kb_error *err);

void kb_lexed_free(kb_lexed *lexed);

#endif
