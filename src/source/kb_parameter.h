/* The parameters of a function, from the tokens of its declaration. Not to be entered by two
 * threads. */
#ifndef KB_PARAMETER_H
#define KB_PARAMETER_H

#include "core/kb_arena.h"
#include "core/kb_error.h"
#include "source/kb_ctype.h"

typedef struct kb_parameter {
    kb_text name;  /* empty if it has none */
    kb_text ctype; /* as spelled, with single blanks */
    kb_ctype type;
    bool array; /* T name[...], one bracket; `type` is KB_CTYPE_OTHER all the same */
    uint32_t at;
    uint32_t i; /* counted from 0 */
} kb_parameter;

typedef struct kb_parameters {
    kb_parameter *at;
    uint32_t n;
} kb_parameters;

/* Behind a template's name, the index of the > that closes the < at `open`; 0 if it is no list of
 * arguments, or none that ends soon. In an expression `a < b` is taken for what it is. */
size_t kb_template_end(const kb_token *tokens, size_t open, size_t end, bool expression);

/* Reads what stands between the parentheses. Memory is the arena's; texts lie in it and in the
 * source. Fails only for want of memory. */
kb_status kb_parameters_read(const kb_token *tokens, size_t n, kb_arena *arena,
                             kb_parameters *parameters, kb_error *err);

/* The tokens as they are spelled, blanks made single; NULL address when there is no memory. */
kb_text kb_tokens_spell(const kb_token *tokens, size_t n, kb_arena *arena);

#endif
