/* Owns the walk through a source: what stands in its namespaces and in no other braces, the path of
 * open namespaces, and what makes a name and parentheses the declaration of a function. */
#include "source/kb_declaration.h"

#include <stdlib.h>

enum { SUFFIX_TOKENS = 64, PATH_MAX_BYTES = 1024 };

typedef struct walk {
    const kb_token *tokens;
    size_t n;
    kb_wanted *wanted;
    uint32_t n_wanted;
    kb_arena *arena;
    kb_tokens scopes;          /* open braces of namespaces; `at` is the path's size before each */
    char path[PATH_MAX_BYTES]; /* "::a::b"; functions in a longer one are named without it */
    size_t path_size;
    size_t begin; /* of the declaration */
    size_t parens;
    size_t hidden; /* open braces of bodies */
    bool failed;   /* no memory */
} walk;

static int compare_names(const void *a, const void *b)
{
    return kb_text_compare(((const kb_wanted *)a)->name, ((const kb_wanted *)b)->name);
}

void kb_wanted_sort(kb_wanted *wanted, uint32_t n)
{
    qsort(wanted, n, sizeof *wanted, compare_names);
}

static bool among(const kb_token *t, const char *const *words)
{
    return t->kind == KB_TOKEN_WORD && kb_text_among(kb_token_text(t), words);
}

/* The index behind what begins at i in front of a function's name, at `end`; behind that if nothing
 * closes it, and 0 if no function's declaration has it there. */
static size_t head_item(const kb_token *tokens, size_t i, size_t end)
{
    static const char *const others[] = {
        "return", "typedef", "using", "friend", "operator", "new",    "delete", "throw",     "case",
        "goto",   "else",    "do",    "if",     "while",    "sizeof", "switch", "co_return", NULL};
    static const char *const marks[] = {"*", "&", "&&", "::", NULL};
    const kb_token *t = &tokens[i];
    if ((t->kind == KB_TOKEN_WORD && kb_token_is_mark(t + 1, "(")) ||
        kb_token_is_mark(t, "[")) { /* an attribute, or somebody's macro */
        return kb_group_end(tokens, i + (t->kind == KB_TOKEN_WORD), end) + 1;
    }
    if (kb_token_is_mark(t, "<")) { /* of a template, or of a type */
        size_t close = kb_template_end(tokens, i, end, false);
        return close ? close + 1 : 0;
    }
    if (t->kind == KB_TOKEN_MARK && !kb_text_among(kb_token_text(t), marks))
        return 0;
    return t->kind == KB_TOKEN_NUMBER || among(t, others) ? 0 : i + 1;
}

static bool read_head(const walk *w, kb_declaration *d)
{
    size_t i = w->begin;
    while (i < d->name) {
        d->kernel |= kb_token_is_word(&w->tokens[i], "__global__");
        i = head_item(w->tokens, i, d->name);
        if (i == 0)
            return false;
    }
    return i == d->name && i > w->begin && !kb_token_is_mark(&w->tokens[i - 1], "::");
}

/* What may stand behind the parameters: const, noexcept, attributes, somebody's macros, `-> type`;
 * then the body or a ;. */
static bool read_suffix(const walk *w, kb_declaration *d, size_t *end)
{
    static const char *const another[] = {"void",   "int",       "static", "inline",   "extern",
                                          "struct", "class",     "enum",   "template", "union",
                                          "auto",   "namespace", "using",  "typedef",  NULL};
    const kb_token *t = w->tokens;
    size_t n = w->n - d->close > SUFFIX_TOKENS ? d->close + SUFFIX_TOKENS : w->n;
    bool type = false;
    for (size_t i = d->close + 1; i < n; i++) {
        *end = i;
        d->body = kb_token_is_mark(&t[i], "{");
        if (d->body || kb_token_is_mark(&t[i], ";"))
            return true;
        type |= kb_token_is_mark(&t[i], "->");
        if (kb_token_is_mark(&t[i], "[") || kb_token_is_mark(&t[i], "("))
            i = kb_group_end(t, i, n);
        else if (kb_token_is_mark(&t[i], "=") ||
                 (!type && ((t[i].kind == KB_TOKEN_MARK && !kb_token_is_mark(&t[i], "&") &&
                             !kb_token_is_mark(&t[i], "&&")) ||
                            t[i].kind == KB_TOKEN_NUMBER || among(&t[i], another) ||
                            kb_text_same(kb_token_text(&t[i]), kb_token_text(&t[d->name])))))
            return false;
    }
    return false;
}

/* What does not fit counts, and is not there. */
static void append_path(walk *w, kb_text word)
{
    size_t size = w->path_size + word.size + 2;
    if (size <= sizeof w->path) {
        memcpy(w->path + w->path_size, "::", 2);
        memcpy(w->path + w->path_size + 2, word.at, word.size);
    }
    w->path_size = size;
}

/* At its brace. */
static void open_scope(walk *w, size_t brace)
{
    kb_token t = {.at = (uint32_t)w->path_size};
    w->failed |= !kb_tokens_push(&w->scopes, t);
    w->begin = brace + 1;
}

/* At the word: `namespace a::inline b {`, an alias, or `using namespace a;`. Gives the index from
 * which to go on. */
static size_t read_namespace(walk *w, size_t i)
{
    const kb_token *t = w->tokens;
    size_t first = ++i;
    while (i < w->n && !kb_token_is_mark(&t[i], "{") && !kb_token_is_mark(&t[i], ";") &&
           !kb_token_is_mark(&t[i], "=") && !kb_token_is_mark(&t[i], "}"))
        i = kb_token_next(t, i, w->n, false);
    if (i >= w->n || !kb_token_is_mark(&t[i], "{"))
        return i;
    open_scope(w, i);
    for (size_t j = first; j < i; j = kb_token_next(t, j, i, false))
        if (t[j].kind == KB_TOKEN_WORD && !kb_token_is_mark(&t[j + 1], "(") &&
            !kb_token_is_word(&t[j], "inline"))
            append_path(w, kb_token_text(&t[j]));
    return i + 1;
}

/* True if a qualified name ends with a path, which has a name; *exact: it is that and no more. */
static bool is_there(kb_text qualified, kb_text path, bool *exact)
{
    while (*path.at == ':')
        path = (kb_text){path.at + 1, path.size - 1};
    size_t before = qualified.size - path.size;
    *exact = before == 2;
    return qualified.size >= path.size + 2 && qualified.at[before - 1] == ':' &&
           memcmp(qualified.at + before, path.at, path.size) == 0;
}

static void take(walk *w, kb_wanted *wanted, kb_declaration *d)
{
    size_t size = w->path_size;
    bool exact = true, before = w->tokens[d->name].at < wanted->at;
    append_path(w, wanted->name);
    d->qualified = w->path_size > sizeof w->path ? wanted->name : (kb_text){w->path, w->path_size};
    w->path_size = size;
    if (d->kernel != wanted->kernel ||
        (wanted->kernel && !is_there(d->qualified, wanted->path, &exact)))
        return;
    d->rank = !exact * 4 + !d->body * 2 + before;
    if (wanted->declaration.found && wanted->declaration.rank <= d->rank)
        return;
    char *text = kb_arena_take(w->arena, d->qualified.size, 1);
    w->failed |= !text;
    if (text)
        d->qualified.at = memcpy(text, d->qualified.at, d->qualified.size);
    d->found = true;
    wanted->declaration = *d;
}

/* At a name that is wanted and a parenthesis. Gives the index from which to go on. */
static size_t try_function(walk *w, kb_wanted *wanted, size_t i)
{
    kb_declaration d = {.name = i, .open = i + 1};
    size_t end = i + 1;
    d.close = kb_group_end(w->tokens, d.open, w->n);
    if (d.close < w->n) {
        if (read_head(w, &d) && read_suffix(w, &d, &end))
            take(w, wanted, &d);
        else
            end = d.close + 1;
    }
    w->begin = end;
    return end;
}

static size_t step_word(walk *w, size_t i)
{
    const kb_token *t = &w->tokens[i];
    if (w->parens > 0 || i + 1 == w->n)
        return i + 1;
    if (kb_token_is_word(t, "namespace"))
        return read_namespace(w, i);
    if (!kb_token_is_mark(t + 1, "("))
        return i + 1;
    kb_wanted key = {.name = kb_token_text(t)};
    kb_wanted *found = bsearch(&key, w->wanted, w->n_wanted, sizeof key, compare_names);
    return found ? try_function(w, found, i) : i + 1;
}

static size_t step(walk *w, size_t i)
{
    const kb_token *t = &w->tokens[i];
    char mark = kb_token_mark(t);
    if (w->hidden > 0) {
        w->hidden += mark == '{';
        w->hidden -= mark == '}';
        if (w->hidden == 0 && w->parens == 0)
            w->begin = i + 1;
        return i + 1;
    }
    if (t->kind == KB_TOKEN_WORD)
        return step_word(w, i);
    w->parens += mark == '(';
    w->parens -= mark == ')' && w->parens > 0;
    if (mark == '{' && w->parens == 0 && i > 1 && t[-1].kind == KB_TOKEN_STRING &&
        kb_token_is_word(t - 2, "extern"))
        open_scope(w, i);
    else
        w->hidden += mark == '{';
    if (mark == '}' && w->scopes.n > 0)
        w->path_size = w->scopes.at[--w->scopes.n].at;
    if (mark == ';' || mark == '}') { /* no parentheses go across */
        w->parens = 0;
        w->begin = i + 1;
    }
    return i + 1;
}

kb_status kb_declarations_find(const kb_tokens *tokens, kb_wanted *wanted, uint32_t n,
                               kb_arena *arena, kb_error *err)
{
    walk w = {.tokens = tokens->at, .n = tokens->n, .wanted = wanted, .n_wanted = n};
    w.arena = arena;
    for (size_t i = 0; i < w.n && !w.failed;)
        i = step(&w, i);
    kb_tokens_free(&w.scopes);
    return w.failed ? kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for declarations")
                    : KB_OK;
}
