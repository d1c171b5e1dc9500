/* Owns the walk through an outline, and the path of open namespaces. */
#include "source/kb_signature.h"

enum { PATH_MAX_TOKENS = 256 }; /* with more a function is told without its namespaces */

typedef struct walk {
    const kb_tokens *outline;
    const kb_names *names;
    kb_wanted *wanted;
    kb_arena *arena;
    kb_tokens path; /* of each open brace: itself, then the namespaces it opens */
    size_t begin;   /* of the declaration */
    size_t parens;
    bool failed; /* no memory */
} walk;

/* At the brace: `namespace a::inline b {`, or extern "C". */
static void open_scope(walk *w, size_t brace)
{
    const kb_token *t = w->outline->at;
    size_t first = brace, depth = 0;
    for (size_t i = w->begin; i < brace; i++)
        first = kb_token_is_word(&t[i], "namespace") ? i + 1 : first;
    w->failed |= !kb_tokens_push(&w->path, t[brace]);
    for (size_t i = first; i < brace; i++) {
        bool attribute = i + 1 < brace && kb_token_is_mark(&t[i + 1], "(");
        depth += kb_token_is_mark(&t[i], "(") || kb_token_is_mark(&t[i], "[");
        depth -= depth > 0 && (kb_token_is_mark(&t[i], ")") || kb_token_is_mark(&t[i], "]"));
        if (depth == 0 && t[i].kind == KB_TOKEN_WORD && !attribute &&
            !kb_token_is_word(&t[i], "inline"))
            w->failed |= !kb_tokens_push(&w->path, t[i]);
    }
}

static void close_scope(walk *w)
{
    while (w->path.n > 0 && w->path.at[--w->path.n].kind == KB_TOKEN_WORD)
        ;
}

static kb_text qualify(walk *w, kb_text name)
{
    size_t size = name.size + 2;
    for (size_t i = 0; i < w->path.n; i++)
        size += w->path.at[i].size + 2u;
    char *text = kb_arena_take(w->arena, size, 1);
    kb_text result = {text, 0};
    w->failed |= !text;
    for (size_t i = 0; text && i <= w->path.n; i++) {
        kb_text part = i < w->path.n ? kb_token_text(&w->path.at[i]) : name;
        if (i < w->path.n && w->path.at[i].kind != KB_TOKEN_WORD)
            continue;
        text[result.size++] = ':';
        text[result.size++] = ':';
        memcpy(text + result.size, part.at, part.size);
        result.size += part.size;
    }
    return result;
}

/* True if the open namespaces end with what is asked for. */
static bool is_there(const walk *w, const kb_wanted *wanted)
{
    size_t i = w->path.n, n = wanted->n_qualifiers;
    if (n > 0 && i > PATH_MAX_TOKENS)
        return false;
    for (; n > 0 && i > 0; i--)
        if (w->path.at[i - 1].kind == KB_TOKEN_WORD &&
            !kb_text_same(kb_token_text(&w->path.at[i - 1]),
                          kb_token_text(&wanted->qualifiers[--n])))
            return false;
    return n == 0;
}

/* True if the open namespaces are those that are asked for, in a path that ends with them. */
static bool is_exact(const walk *w, const kb_wanted *wanted)
{
    size_t n = 0;
    for (size_t i = 0; i < w->path.n; i++)
        n += w->path.at[i].kind == KB_TOKEN_WORD;
    return n == wanted->n_qualifiers;
}

/* Gives the index from which to go on. */
static size_t try_function(walk *w, kb_wanted *wanted, size_t i)
{
    const kb_token *name = &w->outline->at[i];
    kb_declaration d;
    if (!kb_declaration_read(w->outline, w->begin, i, &d)) {
        bool closed = d.close > i && d.close < w->outline->n;
        w->begin = closed ? d.close + 1 : i + 1;
        return w->begin;
    }
    w->begin = d.end;
    if (d.kernel != wanted->kernel || !is_there(w, wanted))
        return d.end;
    bool before = name->at < wanted->at;
    kb_signature *s = &wanted->found[d.body   ? before ? KB_BODY_BEFORE : KB_BODY_BEHIND
                                     : before ? KB_PROTOTYPE_BEFORE
                                              : KB_PROTOTYPE_BEHIND];
    bool exact = is_exact(w, wanted);
    if (s->found && (s->exact || !exact || !wanted->kernel))
        return d.end;
    *s = (kb_signature){
        .found = true, .at = name->at, .made = name->made, .exact = exact, .declaration = d};
    s->qualified = w->path.n > PATH_MAX_TOKENS ? wanted->name : qualify(w, wanted->name);
    return d.end;
}

static size_t step(walk *w, size_t i)
{
    const kb_token *t = &w->outline->at[i];
    bool ends = kb_token_is_mark(t, ";");
    if (t->kind == KB_TOKEN_WORD) {
        bool call = w->parens == 0 && i + 1 < w->outline->n && kb_token_is_mark(t + 1, "(");
        uint32_t number = call ? kb_names_get(w->names, kb_token_text(t)) : KB_NAMES_NONE;
        return number == KB_NAMES_NONE ? i + 1 : try_function(w, &w->wanted[number], i);
    }
    if (kb_token_is_mark(t, "("))
        w->parens++;
    else if (kb_token_is_mark(t, ")"))
        w->parens -= w->parens > 0;
    else if (kb_token_is_mark(t, "{"))
        open_scope(w, i);
    else if (kb_token_is_mark(t, "}"))
        close_scope(w);
    if (ends || kb_token_is_mark(t, "{") || kb_token_is_mark(t, "}"))
        w->parens = 0;
    if (w->parens == 0 &&
        (ends || t->kind == KB_TOKEN_BODY || kb_token_is_mark(t, "{") || kb_token_is_mark(t, "}")))
        w->begin = i + 1;
    return i + 1;
}

kb_status kb_signatures_find(const kb_tokens *outline, const kb_names *names, kb_wanted *wanted,
                             kb_arena *arena, kb_error *err)
{
    walk w = {.outline = outline, .names = names, .wanted = wanted, .arena = arena};
    for (size_t i = 0; i < outline->n && !w.failed;)
        i = step(&w, i);
    kb_tokens_free(&w.path);
    return w.failed ? kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for signatures") : KB_OK;
}

const kb_signature *kb_wanted_best(const kb_wanted *wanted)
{
    const kb_signature *best = NULL;
    for (int kind = 0; kind < KB_FOUND_KINDS; kind++) {
        const kb_signature *s = &wanted->found[kind];
        if (s->found && (!best || (wanted->kernel && s->exact && !best->exact)))
            best = s;
    }
    return best;
}
