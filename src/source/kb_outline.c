/* Owns the difference between the braces of a namespace and all others. */
#include "source/kb_outline.h"

#include "source/kb_expand.h"

typedef struct outliner {
    kb_macros *macros;
    kb_tokens *out;
    int64_t hidden; /* open braces of which nothing is shown */
    size_t parens;
    size_t scopes;
    bool in_namespace; /* between the word and its brace */
    bool failed;       /* no memory */
} outliner;

static const kb_token *last(const outliner *o, size_t back)
{
    static const kb_token none = {.kind = KB_TOKEN_END};
    return o->out->n > back ? &o->out->at[o->out->n - 1 - back] : &none;
}

static void show(outliner *o, kb_token t)
{
    o->failed |= !kb_tokens_push(o->out, t);
}

static void open_brace(outliner *o, kb_token t)
{
    bool is_linkage = last(o, 0)->kind == KB_TOKEN_STRING && kb_token_is_word(last(o, 1), "extern");
    if (o->parens == 0 && (o->in_namespace || is_linkage)) {
        o->scopes++;
    } else {
        o->hidden = 1;
        t.kind = KB_TOKEN_BODY;
    }
    o->in_namespace = false;
    show(o, t);
}

/* Within the braces of a body. A macro that closes what another has opened counts. */
static void hide(outliner *o, const kb_token *t)
{
    if (t->kind == KB_TOKEN_MARK) {
        o->hidden += kb_token_is_mark(t, "{") - kb_token_is_mark(t, "}");
    } else if (t->kind == KB_TOKEN_WORD) {
        const kb_macro *m = kb_macros_get(o->macros, t);
        o->hidden += m ? m->braces : 0;
    }
    if (o->hidden < 0)
        o->hidden = 0;
}

static void take(outliner *o, kb_token t)
{
    if (kb_token_is_mark(&t, "{")) {
        open_brace(o, t);
        return;
    }
    bool closes = kb_token_is_mark(&t, "}"), ends = kb_token_is_mark(&t, ";");
    if (kb_token_is_mark(&t, "("))
        o->parens++;
    else if (kb_token_is_mark(&t, ")"))
        o->parens -= o->parens > 0;
    if (closes || ends) /* no parentheses go across */
        o->parens = 0;
    if (closes || ends || kb_token_is_mark(&t, "="))
        o->in_namespace = false;
    if (kb_token_is_word(&t, "namespace"))
        o->in_namespace = !kb_token_is_word(last(o, 0), "using");
    if (closes && o->scopes == 0)
        return;
    o->scopes -= closes;
    show(o, t);
}

kb_status kb_outline(const kb_lexed *lexed, kb_macros *macros, kb_tokens *outline, kb_error *err)
{
    size_t budget = KB_EXPAND_TOKENS;
    kb_expander x;
    kb_token t;
    outliner o = {.macros = macros, .out = outline};
    *outline = (kb_tokens){0};
    kb_expander_begin(&x, macros, &budget, lexed->tokens.at, lexed->tokens.n);
    while (!o.failed && kb_expander_next(&x, o.hidden == 0, &t)) {
        if (o.hidden)
            hide(&o, &t);
        else
            take(&o, t);
    }
    return o.failed || x.failed
               ? kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for a source's outline")
               : KB_OK;
}
