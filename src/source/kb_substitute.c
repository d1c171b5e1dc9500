/* Owns parameters, # and ## in the body of a macro. */
#include "source/kb_substitute.h"

#include "core/kb_memory.h"

enum { PASTED_MAX = 1024 };

typedef struct argument {
    const kb_token *written;
    size_t n_written;
    kb_tokens expanded;
    bool is_expanded;
} argument;

typedef struct substitution {
    kb_expander *x;
    const kb_macro *macro;
    argument *arguments;
    kb_tokens out;
    bool pasting; /* a ## was the last */
    bool nothing; /* to paste to: an empty argument was the last */
    bool failed;  /* no memory */
} substitution;

static void put(substitution *s, kb_token t)
{
    if (*s->x->budget == 0)
        return;
    --*s->x->budget;
    s->failed |= !kb_tokens_push(&s->out, t);
}

/* The argument with its own macros replaced. */
static void expand(substitution *s, argument *a)
{
    if (a->is_expanded)
        return;
    kb_expander inner;
    kb_token t;
    kb_expander_begin(&inner, s->x->macros, s->x->budget, a->written, a->n_written);
    inner.depth = s->x->depth + 1;
    while (!s->failed && kb_expander_next(&inner, inner.depth <= KB_EXPAND_DEPTH, &t))
        s->failed |= !kb_tokens_push(&a->expanded, t);
    while (inner.n > 1)
        inner.frames[--inner.n].macro->disabled = false;
    s->failed |= inner.failed;
    a->is_expanded = true;
}

/* Makes one token of the last one and `right`. */
static void paste(substitution *s, const kb_token *right)
{
    kb_token *left = &s->out.at[s->out.n - 1];
    size_t size = (size_t)left->size + right->size;
    char *text = size <= PASTED_MAX ? kb_arena_take(s->x->macros->arena, size, 1) : NULL;
    if (size > PASTED_MAX) {
        put(s, *right);
        return;
    }
    s->failed |= !text;
    if (!text)
        return;
    memcpy(text, left->text, left->size);
    memcpy(text + left->size, right->text, right->size);
    left->text = text;
    left->size = (unsigned)size & 0x1ffffff;
    left->painted = false;
    if (left->kind == KB_TOKEN_WORD && right->kind > KB_TOKEN_NUMBER)
        left->kind = right->kind;
}

static void put_list(substitution *s, const kb_token *list, size_t n, bool blank)
{
    size_t i = 0;
    if (s->pasting && n > 0 && !s->nothing && s->out.n > 0)
        paste(s, &list[i++]);
    for (; i < n && !s->failed; i++) {
        kb_token t = list[i];
        if (i == 0)
            t.blank = blank;
        put(s, t);
    }
    s->nothing = s->pasting ? s->nothing && n == 0 : n == 0;
    s->pasting = false;
}

static bool is_paste(const kb_macro *m, size_t i)
{
    return i < m->n_body && kb_token_is_mark(&m->body[i], "##");
}

/* GNU's `, ## __VA_ARGS__`: the comma goes where the arguments are none. */
static bool is_optional_comma(const substitution *s, uint32_t parameter)
{
    return s->pasting && !s->nothing && s->macro->variadic &&
           parameter + 1 == s->macro->n_parameters && s->out.n > 0 &&
           kb_token_is_mark(&s->out.at[s->out.n - 1], ",");
}

static void put_argument(substitution *s, uint32_t parameter, size_t i)
{
    argument *a = &s->arguments[parameter];
    bool blank = s->macro->body[i].blank;
    if (is_optional_comma(s, parameter)) {
        s->pasting = false;
        if (a->n_written == 0)
            s->out.n--;
    } else if (s->pasting || is_paste(s->macro, i + 1)) {
        put_list(s, a->written, a->n_written, blank);
        return;
    }
    expand(s, a);
    if (!s->failed)
        put_list(s, a->expanded.at, a->expanded.n, blank);
}

static void substitute(substitution *s)
{
    const kb_macro *m = s->macro;
    for (size_t i = 0; i < m->n_body && !s->failed && *s->x->budget; i++) {
        kb_token t = m->body[i];
        --*s->x->budget;
        if (is_paste(m, i)) {
            s->pasting = true;
            continue;
        }
        bool quotes = kb_token_is_mark(&t, "#") && i + 1 < m->n_body;
        uint32_t parameter = kb_macro_parameter(m, &m->body[quotes ? i + 1 : i]);
        if (parameter == KB_MACRO_PARAMETERS) {
            put_list(s, &t, 1, t.blank);
        } else if (quotes) {
            static const char empty[] = "\"\"";
            kb_token string = {.text = empty, .size = 2, .kind = KB_TOKEN_STRING, .blank = t.blank};
            put_list(s, &string, 1, t.blank);
            i++;
        } else {
            put_argument(s, parameter, i);
        }
    }
}

bool kb_substitute(kb_expander *x, kb_macro *m, const kb_tokens *tokens, const size_t *ends,
                   const kb_token **made, size_t *n_made)
{
    size_t cost = 1u + m->n_parameters; /* a call takes time and memory even if it makes nothing */
    substitution s = {.x = x, .macro = m};
    *x->budget = *x->budget > cost ? *x->budget - cost : 0;
    s.arguments = kb_calloc(m->n_parameters + 1u, sizeof *s.arguments);
    if (!s.arguments)
        return false;
    for (uint32_t i = 0; i < m->n_parameters; i++) {
        size_t from = i ? ends[i - 1] : 0;
        s.arguments[i].written = tokens->at ? tokens->at + from : NULL;
        s.arguments[i].n_written = ends[i] - from;
    }
    substitute(&s);
    kb_token *copy = s.failed ? NULL : kb_arena_take(x->macros->arena, s.out.n + 1, sizeof *copy);
    if (copy && s.out.n)
        memcpy(copy, s.out.at, s.out.n * sizeof *copy);
    *made = copy;
    *n_made = s.out.n;
    for (uint32_t i = 0; i < m->n_parameters; i++)
        kb_tokens_free(&s.arguments[i].expanded);
    kb_tokens_free(&s.out);
    kb_free(s.arguments);
    return copy != NULL;
}
