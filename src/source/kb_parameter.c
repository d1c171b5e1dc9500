/* Owns the splitting of a list of parameters, and where the name of one is. */
#include "source/kb_parameter.h"

enum { TEMPLATE_TOKENS = 512 };

static bool opens(const kb_token *t)
{
    return kb_token_is_mark(t, "(") || kb_token_is_mark(t, "[");
}

static bool closes(const kb_token *t)
{
    return kb_token_is_mark(t, ")") || kb_token_is_mark(t, "]");
}

static bool is_expression_only(const kb_token *t)
{
    return t->kind == KB_TOKEN_BODY || kb_token_is_mark(t, "=") || kb_token_is_mark(t, "&&") ||
           kb_token_is_mark(t, "||");
}

size_t kb_template_end(const kb_token *tokens, size_t open, size_t end, bool expression)
{
    size_t angles = 1, brackets = 0;
    if (end > open + TEMPLATE_TOKENS)
        end = open + TEMPLATE_TOKENS;
    for (size_t i = open + 1; i < end; i++) {
        const kb_token *t = &tokens[i];
        if (closes(t) && brackets == 0)
            return 0;
        brackets += opens(t);
        brackets -= closes(t);
        if (brackets > 0)
            continue;
        if (kb_token_is_mark(t, ";") || (expression && is_expression_only(t)))
            return 0;
        if (kb_token_is_mark(t, "<"))
            angles += tokens[i - 1].kind == KB_TOKEN_WORD;
        else if (kb_token_is_mark(t, ">") && --angles == 0)
            return i;
    }
    return 0;
}

kb_text kb_tokens_spell(const kb_token *tokens, size_t n, kb_arena *arena)
{
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += tokens[i].size + 1u;
    char *text = kb_arena_take(arena, size + 1, 1);
    kb_text result = {text, 0};
    for (size_t i = 0; text && i < n; i++) {
        if (i > 0 && tokens[i].blank)
            text[result.size++] = ' ';
        memcpy(text + result.size, tokens[i].text, tokens[i].size);
        result.size += tokens[i].size;
    }
    return result;
}

/* The end of an attribute that begins at i, or i. */
static size_t skip_attribute(const kb_token *tokens, size_t i, size_t n)
{
    static const char *const attributes[] = {"__attribute__", "alignas", "__align__", "__declspec",
                                             NULL};
    size_t begin = i, depth = 0;
    if (tokens[i].kind == KB_TOKEN_WORD && kb_text_among(kb_token_text(&tokens[i]), attributes) &&
        i + 1 < n && kb_token_is_mark(&tokens[i + 1], "("))
        i++;
    else if (!(kb_token_is_mark(&tokens[i], "[") && i + 1 < n &&
               kb_token_is_mark(&tokens[i + 1], "[")))
        return begin;
    for (; i < n; i++) {
        depth += opens(&tokens[i]);
        if (closes(&tokens[i]) && --depth == 0)
            return i + 1;
    }
    return n;
}

/* Copies one parameter without attributes and default. */
static bool strip(const kb_token *tokens, size_t n, kb_tokens *plain)
{
    for (size_t i = 0; i < n; i++) {
        size_t end = skip_attribute(tokens, i, n);
        if (end > i) {
            i = end - 1;
            continue;
        }
        if (kb_token_is_mark(&tokens[i], "="))
            return true;
        if (!kb_tokens_push(plain, tokens[i]))
            return false;
    }
    return true;
}

/* True if the last token is a name and not a part of the type. */
static bool ends_with_name(const kb_token *tokens, size_t n)
{
    if (n < 2 || tokens[n - 1].kind != KB_TOKEN_WORD || kb_token_is_mark(&tokens[n - 2], "::") ||
        kb_ctype_is_keyword(kb_token_text(&tokens[n - 1])))
        return false;
    for (size_t i = 0; i + 1 < n; i++)
        if (tokens[i].kind == KB_TOKEN_WORD && (!kb_ctype_is_qualifier(kb_token_text(&tokens[i])) ||
                                                kb_token_is_word(&tokens[i], "auto")))
            return true;
    return false;
}

/* The index of the first token of that mark outside of <>, or n. */
static size_t find(const kb_token *tokens, size_t n, const char *mark)
{
    kb_angles angles = {0};
    for (size_t i = 0; i < n; i++)
        if (!kb_angles_inside(&angles, &tokens[i]) && kb_token_is_mark(&tokens[i], mark))
            return i;
    return n;
}

static void read_array(kb_parameter *p, const kb_token *tokens, size_t n, size_t bracket)
{
    bool named = ends_with_name(tokens, bracket);
    if (named)
        p->name = kb_token_text(&tokens[bracket - 1]);
    p->type = kb_ctype_of(tokens, named ? bracket - 1 : bracket);
    p->array = p->type.kind == KB_CTYPE_VALUE &&
               find(tokens + bracket + 1, n - bracket - 1, "[") == n - bracket - 1;
    p->type.kind = KB_CTYPE_OTHER;
}

static void read_function(kb_parameter *p, const kb_token *tokens, size_t n, size_t paren)
{
    p->type.kind = KB_CTYPE_OTHER;
    for (size_t i = paren + 1; i < n && tokens[i].kind != KB_TOKEN_WORD; i++)
        if (i + 1 < n && tokens[i + 1].kind == KB_TOKEN_WORD)
            p->name = kb_token_text(&tokens[i + 1]);
}

static bool read_one(kb_parameter *p, kb_tokens *tokens, kb_arena *arena)
{
    size_t n = tokens->n, paren = find(tokens->at, n, "("), bracket = find(tokens->at, n, "[");
    p->at = tokens->at[0].at;
    if (paren < n) {
        read_function(p, tokens->at, n, paren);
    } else if (bracket < n) {
        read_array(p, tokens->at, n, bracket);
        if (p->name.size) {
            memmove(&tokens->at[bracket - 1], &tokens->at[bracket],
                    (n - bracket) * sizeof *tokens->at);
            n--;
        }
    } else {
        bool named = ends_with_name(tokens->at, n);
        n -= named;
        if (named)
            p->name = kb_token_text(&tokens->at[n]);
        p->type = kb_ctype_of(tokens->at, n);
    }
    p->ctype = kb_tokens_spell(tokens->at, n, arena);
    return p->ctype.at != NULL;
}

/* The end of the parameter that begins at i. */
static size_t parameter_end(const kb_token *tokens, size_t i, size_t n)
{
    size_t depth = 0;
    bool expression = false;
    for (size_t begin = i; i < n; i++) {
        const kb_token *t = &tokens[i];
        depth += opens(t);
        depth -= closes(t) && depth > 0;
        if (depth > 0)
            continue;
        if (kb_token_is_mark(t, ","))
            return i;
        expression |= kb_token_is_mark(t, "=");
        if (kb_token_is_mark(t, "<") && i > begin && tokens[i - 1].kind == KB_TOKEN_WORD) {
            size_t end = kb_template_end(tokens, i, n, expression);
            i = end ? end : i;
        }
    }
    return n;
}

static bool is_void(const kb_token *tokens, size_t n)
{
    return n == 1 && kb_token_is_word(tokens, "void");
}

kb_status kb_parameters_read(const kb_token *tokens, size_t n, kb_arena *arena,
                             kb_parameters *parameters, kb_error *err)
{
    size_t count = 1;
    for (size_t i = 0; i < n; i++)
        count += kb_token_is_mark(&tokens[i], ",");
    *parameters = (kb_parameters){0};
    if (n == 0 || is_void(tokens, n))
        return KB_OK;
    parameters->at = kb_arena_take(arena, count, sizeof *parameters->at);
    bool ok = parameters->at != NULL;
    for (size_t i = 0; ok && i <= n;) {
        kb_tokens plain = {0};
        size_t end = parameter_end(tokens, i, n);
        ok = strip(tokens + i, end - i, &plain);
        kb_parameter *p = &parameters->at[parameters->n];
        p->i = parameters->n++;
        p->at = tokens[i < n ? i : n - 1].at;
        if (ok && plain.n > 0)
            ok = read_one(p, &plain, arena);
        else
            p->type.kind = KB_CTYPE_OTHER;
        kb_tokens_free(&plain);
        i = end + 1;
    }
    return ok ? KB_OK
              : kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for a function's parameters");
}
