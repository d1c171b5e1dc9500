/* Owns what may stand before a function's name and behind its parameters. */
#include "source/kb_declaration.h"

#include "source/kb_parameter.h"

enum { SUFFIX_TOKENS = 256 };

size_t kb_bracket_end(const kb_token *tokens, size_t open, size_t end)
{
    size_t depth = 0;
    for (size_t i = open; i < end; i++) {
        depth += kb_token_is_mark(&tokens[i], "(") || kb_token_is_mark(&tokens[i], "[");
        if ((kb_token_is_mark(&tokens[i], ")") || kb_token_is_mark(&tokens[i], "]")) &&
            --depth == 0)
            return i;
        if (kb_token_is_mark(&tokens[i], ";"))
            return end;
    }
    return end;
}

/* Words before a function's name that are no part of its type. */
static bool is_specifier(const kb_token *t)
{
    static const char *const words[] = {
        "static",          "inline",       "extern",     "constexpr",     "consteval",
        "__global__",      "__host__",     "__device__", "__inline__",    "__inline",
        "__forceinline__", "__noinline__", "virtual",    "explicit",      "export",
        "_Noreturn",       "volatile",     "const",      "__extension__", NULL};
    return t->kind == KB_TOKEN_STRING ||
           (t->kind == KB_TOKEN_WORD && kb_text_among(kb_token_text(t), words));
}

static bool is_no_declaration(const kb_token *t)
{
    static const char *const words[] = {"return", "typedef", "using",     "friend", "operator",
                                        "new",    "delete",  "throw",     "case",   "goto",
                                        "else",   "do",      "if",        "while",  "for",
                                        "sizeof", "switch",  "co_return", NULL};
    return t->kind == KB_TOKEN_WORD && kb_text_among(kb_token_text(t), words);
}

typedef struct head {
    const kb_token *tokens;
    size_t end; /* the name */
    kb_declaration *declaration;
    size_t n_words; /* of the type */
    bool is_void;
    bool is_int;
    bool is_auto;
    bool other; /* something that is neither */
    bool strange;
} head;

/* Takes the tokens from i up to `end` for a part of the type. */
static void add_to_type(head *h, size_t i, size_t end)
{
    kb_declaration *d = h->declaration;
    if (d->type == d->type_end)
        d->type = i;
    d->type_end = end;
    h->n_words++;
    if (kb_token_is_word(&h->tokens[i], "void"))
        h->is_void = true;
    else if (kb_token_is_word(&h->tokens[i], "int"))
        h->is_int = true;
    else if (kb_token_is_word(&h->tokens[i], "auto"))
        h->is_auto = true;
    else if (h->tokens[i].kind != KB_TOKEN_WORD ||
             (kb_ctype_is_keyword(kb_token_text(&h->tokens[i])) &&
              !kb_token_is_word(&h->tokens[i], "signed")))
        h->other = true;
}

/* Gives the index behind what begins at i. */
static size_t read_head_item(head *h, size_t i)
{
    const kb_token *t = &h->tokens[i];
    bool last = i + 1 == h->end;
    bool calls = t->kind == KB_TOKEN_WORD && !last && kb_token_is_mark(t + 1, "(");
    if (calls || kb_token_is_mark(t, "[")) { /* an attribute, or somebody's macro */
        size_t end = kb_bracket_end(h->tokens, i + calls, h->end);
        h->strange |= end == h->end;
        return end + 1;
    }
    if (kb_token_is_word(t, "template") && !last && kb_token_is_mark(t + 1, "<")) {
        size_t end = kb_template_end(h->tokens, i + 1, h->end, false);
        h->strange |= end == 0;
        return end + 1 > i ? end + 1 : i + 1;
    }
    h->strange |= is_no_declaration(t);
    h->declaration->kernel |= kb_token_is_word(t, "__global__");
    if (is_specifier(t))
        return i + 1;
    if (t->kind == KB_TOKEN_WORD) {
        add_to_type(h, i, i + 1);
    } else if (kb_token_is_mark(t, "<")) {
        size_t end = kb_template_end(h->tokens, i, h->end, false);
        h->strange |= end == 0;
        end = end > i ? end + 1 : i + 1;
        add_to_type(h, i, end);
        return end;
    } else if (kb_token_is_mark(t, "*") || kb_token_is_mark(t, "&") || kb_token_is_mark(t, "&&") ||
               kb_token_is_mark(t, "::")) {
        h->strange |= last && kb_token_is_mark(t, "::");
        add_to_type(h, i, i + 1);
    } else {
        h->strange = true;
    }
    return i + 1;
}

/* Words beside void and int are taken for somebody's macros. */
static kb_returns returns_of(const head *h)
{
    if (h->n_words == 0 || (h->is_auto && !h->other && h->n_words == 1))
        return KB_RETURNS_UNKNOWN;
    if (h->other || h->is_void == h->is_int)
        return KB_RETURNS_OTHER;
    return h->is_void ? KB_RETURNS_VOID : KB_RETURNS_INT;
}

static bool read_head(const kb_tokens *tokens, size_t begin, size_t name, kb_declaration *d)
{
    head h = {.tokens = tokens->at, .end = name, .declaration = d};
    for (size_t i = begin; i < name && !h.strange;)
        i = read_head_item(&h, i);
    d->returns = returns_of(&h);
    return !h.strange && name > begin;
}

/* Words with which something else begins. */
static bool begins_another(const kb_token *t)
{
    static const char *const words[] = {"void",   "int",       "auto",   "static",  "inline",
                                        "extern", "template",  "struct", "class",   "enum",
                                        "union",  "namespace", "using",  "typedef", NULL};
    return t->kind == KB_TOKEN_WORD && kb_text_among(kb_token_text(t), words);
}

/* `-> type`: gives the index behind it. */
static size_t read_trailing(const kb_tokens *tokens, size_t i, size_t end, kb_declaration *d)
{
    head h = {.tokens = tokens->at, .declaration = d};
    size_t from = ++i;
    while (i < end && tokens->at[i].kind != KB_TOKEN_BODY &&
           !kb_token_is_mark(&tokens->at[i], ";") && !kb_token_is_mark(&tokens->at[i], "="))
        i++;
    h.end = i;
    d->type = d->type_end = from;
    while (from < i && !h.strange)
        from = read_head_item(&h, from);
    d->returns = h.strange ? KB_RETURNS_OTHER : returns_of(&h);
    return i;
}

/* const, noexcept, attributes, somebody's macros. */
static bool may_follow(const kb_token *t)
{
    return t->kind == KB_TOKEN_WORD || t->kind == KB_TOKEN_STRING || kb_token_is_mark(t, "&") ||
           kb_token_is_mark(t, "&&");
}

static bool read_suffix(const kb_tokens *tokens, kb_declaration *d)
{
    size_t n = tokens->n, end = d->close + 1;
    if (n > end + SUFFIX_TOKENS)
        n = end + SUFFIX_TOKENS;
    for (size_t i = end; i < n; i++) {
        const kb_token *t = &tokens->at[i];
        d->body = t->kind == KB_TOKEN_BODY;
        d->end = i;
        if (d->body || kb_token_is_mark(t, ";"))
            return true;
        if (kb_token_is_mark(t, "->"))
            i = read_trailing(tokens, i, n, d) - 1;
        else if (kb_token_is_mark(t, "[") || kb_token_is_mark(t, "("))
            i = kb_bracket_end(tokens->at, i, n);
        else if (!may_follow(t) || begins_another(t) ||
                 kb_text_same(kb_token_text(t), kb_token_text(&tokens->at[d->name])))
            return false;
    }
    return false;
}

static bool can_end_type(const kb_token *t)
{
    return t->kind == KB_TOKEN_WORD || kb_token_is_mark(t, "*") || kb_token_is_mark(t, "&") ||
           kb_token_is_mark(t, "&&") || kb_token_is_mark(t, ">") || kb_token_is_mark(t, ")") ||
           kb_token_is_mark(t, "]");
}

bool kb_declaration_read(const kb_tokens *tokens, size_t begin, size_t name, kb_declaration *d)
{
    *d = (kb_declaration){.name = name, .open = name + 1};
    if (name <= begin || name + 1 >= tokens->n || !can_end_type(&tokens->at[name - 1]) ||
        !kb_token_is_mark(&tokens->at[d->open], "("))
        return false;
    d->close = kb_bracket_end(tokens->at, d->open, tokens->n);
    return d->close < tokens->n && read_head(tokens, begin, name, d) && read_suffix(tokens, d);
}
