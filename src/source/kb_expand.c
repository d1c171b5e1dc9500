/* Owns the stack of macros being expanded, and the collection of their arguments. */
#include "source/kb_expand.h"

#include "source/kb_substitute.h"

void kb_expander_begin(kb_expander *x, kb_macros *macros, size_t *budget, const kb_token *tokens,
                       size_t n)
{
    x->macros = macros;
    x->budget = budget;
    x->depth = 0;
    x->failed = false;
    x->unclosed = false;
    x->n = 1;
    x->frames[0] = (struct kb_expand_frame){.at = tokens, .end = n ? tokens + n : tokens};
}

/* Carries out the directive that begins at the cursor, and steps behind it. */
static void directive(kb_expander *x, struct kb_expand_frame *f)
{
    const kb_token *words = f->at;
    while (f->at < f->end && f->at->kind != KB_TOKEN_END)
        f->at++;
    x->failed |= !kb_macros_directive(x->macros, words, (size_t)(f->at - words));
    if (f->at < f->end)
        f->at++;
}

/* The frame that has the next token, or NULL at the end. Macros that are used up may be used
 * again. */
static struct kb_expand_frame *top(kb_expander *x)
{
    for (;;) {
        struct kb_expand_frame *f = &x->frames[x->n - 1];
        if (x->failed)
            return NULL;
        if (f->at < f->end && f->at->kind != KB_TOKEN_DIRECTIVE)
            return f;
        if (f->at < f->end) {
            f->at++;
            directive(x, f);
        } else if (x->n > 1) {
            f->macro->disabled = false;
            x->n--;
        } else {
            return NULL;
        }
    }
}

static bool next_written(kb_expander *x, kb_token *t)
{
    struct kb_expand_frame *f = top(x);
    if (!f)
        return false;
    *t = *f->at++;
    if (f->macro) {
        t->at = f->call;
        t->made = true;
    }
    return true;
}

static bool spend(kb_expander *x, size_t n)
{
    bool enough = n <= *x->budget;
    *x->budget = enough ? *x->budget - n : 0;
    return enough;
}

static void push(kb_expander *x, kb_macro *m, const kb_token *tokens, size_t n, uint32_t call)
{
    if (n == 0 || !spend(x, n))
        return;
    m->disabled = true;
    x->frames[x->n++] = (struct kb_expand_frame){tokens, tokens + n, m, call};
}

/* From behind the parenthesis to the one that closes it, which is not among the tokens; `ends` has
 * the end of each argument. False if none closes it. */
static bool collect(kb_expander *x, const kb_macro *m, kb_tokens *tokens, size_t *ends,
                    uint32_t *n_ends)
{
    kb_token t;
    *n_ends = 0;
    for (size_t depth = 0; next_written(x, &t);) {
        bool closes = kb_token_is_mark(&t, ")");
        if (closes && depth == 0) {
            if (*n_ends < m->n_parameters)
                ends[(*n_ends)++] = tokens->n;
            return true;
        }
        depth += kb_token_is_mark(&t, "(");
        depth -= closes;
        if (depth == 0 && kb_token_is_mark(&t, ",") &&
            *n_ends + (m->variadic ? 1u : 0u) < m->n_parameters)
            ends[(*n_ends)++] = tokens->n;
        else if (!spend(x, 1))
            return false;
        else if (!kb_tokens_push(tokens, t))
            x->failed = true;
    }
    return false;
}

/* Behind a comma that ended an argument, its tokens go on. */
static void call_function(kb_expander *x, kb_macro *m, uint32_t call)
{
    size_t ends[KB_MACRO_PARAMETERS];
    uint32_t n_ends;
    kb_tokens tokens = {0};
    const kb_token *made = NULL;
    size_t n_made = 0;
    struct kb_expand_frame bottom = x->frames[0];
    if (collect(x, m, &tokens, ends, &n_ends)) {
        while (n_ends < m->n_parameters)
            ends[n_ends++] = tokens.n;
        x->failed |= !kb_substitute(x, m, &tokens, ends, &made, &n_made);
    } else if (!x->failed) {
        x->unclosed = true;
        x->frames[0].at = bottom.at;
    }
    kb_tokens_free(&tokens);
    if (!x->failed)
        push(x, m, made, n_made, call);
}

static bool at_call(kb_expander *x)
{
    const struct kb_expand_frame *f = top(x);
    return f && kb_token_is_mark(f->at, "(");
}

bool kb_expander_next(kb_expander *x, bool expand, kb_token *token)
{
    while (next_written(x, token)) {
        kb_macro *m = expand ? kb_macros_get(x->macros, token) : NULL;
        if (!m)
            return true;
        if (m->disabled) {
            token->painted = true;
            return true;
        }
        bool function = m->function;
        if (*x->budget == 0 || (function && (x->unclosed || !at_call(x))))
            return !x->failed;
        if (x->n == KB_EXPAND_FRAMES)
            return true;
        if (function) {
            kb_token paren;
            next_written(x, &paren);
            call_function(x, m, token->at);
        } else {
            push(x, m, m->body, m->n_body, token->at);
        }
    }
    return false;
}
