/* Owns the splitting of a list of parameters, where the name of one is, and what it looks like. */
#include "source/kb_parameter.h"

/* The tokens as they are spelled; NULL address when there is no memory. */
static kb_text spell(const kb_token *tokens, size_t n, kb_arena *arena)
{
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += tokens[i].size + (i > 0 && tokens[i].blank);
    char *text = kb_arena_take(arena, size, 1);
    kb_text result = {text, 0};
    for (size_t i = 0; text && i < n; i++) {
        if (i > 0 && tokens[i].blank)
            text[result.size++] = ' ';
        memcpy(text + result.size, tokens[i].text, tokens[i].size);
        result.size += tokens[i].size;
    }
    return result;
}

/* Copies one parameter without attributes and default. */
static bool strip(const kb_token *tokens, size_t n, kb_tokens *plain)
{
    static const char *const attributes[] = {"__attribute__", "alignas", "__align__", "__declspec",
                                             NULL};
    size_t next;
    for (size_t i = 0; i < n && !kb_token_is_mark(&tokens[i], "="); i = next) {
        const kb_token *t = &tokens[i];
        next = kb_token_next(tokens, i, n, false);
        if (i + 1 < n && kb_token_is_mark(t, "[") && kb_token_is_mark(t + 1, "["))
            continue;
        if (i + 1 < n && t->kind == KB_TOKEN_WORD && kb_text_among(kb_token_text(t), attributes))
            next = kb_token_next(tokens, i + 1, n, false);
        else
            for (size_t j = i; j < next && j < n; j++)
                if (!kb_tokens_push(plain, tokens[j]))
                    return false;
    }
    return true;
}

/* Words that add nothing to what a type is. */
static const char *const qualifiers[] = {
    "const", "volatile", "struct",       "class",      "enum",     "union",     "typename",
    "auto",  "register", "__restrict__", "__restrict", "restrict", "_Noreturn", "__grid_constant__",
    NULL};

/* Words that are no names. */
static const char *const builtin[] = {"signed", "unsigned", "short",  "long", "char",
                                      "int",    "float",    "double", "bool", "void",
                                      "_Bool",  "_Complex", NULL};

static bool is_qualifier(const kb_token *t)
{
    return t->kind == KB_TOKEN_WORD && kb_text_among(kb_token_text(t), qualifiers);
}

/* True if the last token is a name and not a part of the type. */
static bool ends_with_name(const kb_token *tokens, size_t n)
{
    if (n < 2 || tokens[n - 1].kind != KB_TOKEN_WORD || kb_token_is_mark(&tokens[n - 2], "::") ||
        is_qualifier(&tokens[n - 1]) || kb_text_among(kb_token_text(&tokens[n - 1]), builtin))
        return false;
    for (size_t i = 0; i + 1 < n; i++)
        if (tokens[i].kind == KB_TOKEN_WORD &&
            (!is_qualifier(&tokens[i]) || kb_token_is_word(&tokens[i], "auto")))
            return true;
    return false;
}

/* The index of the first token that is one of those marks outside of brackets and <>, or n. */
static size_t find(const kb_token *tokens, size_t n, const char *marks)
{
    for (size_t i = 0; i < n; i = kb_token_next(tokens, i, n, false))
        if (tokens[i].kind == KB_TOKEN_MARK && strchr(marks, *tokens[i].text) &&
            !kb_token_is_mark(&tokens[i], "::"))
            return i;
    return n;
}

/* From the last word of the type, and what follows it. */
static kb_look look_of(const kb_parameter *p, kb_text last, bool pointer)
{
    static const char *const streams[] = {"cudaStream_t", "CUstream", "hipStream_t", NULL};
    static const char *const streamed[] = {"cudaStream_st", "CUstream_st", NULL};
    if (kb_text_is(last, pointer ? "kb_tensor" : "Tensor"))
        return pointer ? KB_LOOKS_BYTES : KB_LOOKS_TENSOR;
    if (kb_text_among(last, pointer ? streamed : streams))
        return KB_LOOKS_STREAM;
    if (pointer)
        return p->constant && kb_text_is(last, "kb_call") ? KB_LOOKS_CALL : KB_LOOKS_POINTER;
    return kb_text_is(last, "int64_t") && kb_text_is(p->name, "stream") ? KB_LOOKS_STREAM
                                                                        : KB_LOOKS_VALUE;
}

/* Reads the tokens of a type, without the name. */
static void read_type(kb_parameter *p, const kb_token *tokens, size_t n)
{
    size_t end = find(tokens, n, "*&[(");
    kb_text last = {0};
    for (size_t i = 0; i < end; i = kb_token_next(tokens, i, end, false)) {
        p->constant |= kb_token_is_word(&tokens[i], "const");
        if (tokens[i].kind == KB_TOKEN_WORD && !is_qualifier(&tokens[i]))
            last = kb_token_text(&tokens[i]);
    }
    p->look = look_of(p, last, end < n && strchr("*[", *tokens[end].text));
}

/* The index of the name, or n: the last word, or the one before [. */
static size_t find_name(const kb_token *tokens, size_t n)
{
    size_t end = find(tokens, n, "[(");
    bool plain = end == n || kb_token_is_mark(&tokens[end], "[");
    return plain && ends_with_name(tokens, end) ? end - 1 : n;
}

static bool read_one(kb_parameter *p, kb_tokens *tokens, kb_arena *arena)
{
    size_t n = tokens->n, name = find_name(tokens->at, n);
    p->at = tokens->at[0].at;
    if (name < n) {
        p->name = kb_token_text(&tokens->at[name]);
        n--;
        memmove(&tokens->at[name], &tokens->at[name + 1], (n - name) * sizeof *tokens->at);
    }
    read_type(p, tokens->at, n);
    p->ctype = spell(tokens->at, n, arena);
    return p->ctype.at != NULL;
}

/* The end of the parameter that begins at i. */
static size_t parameter_end(const kb_token *tokens, size_t i, size_t n)
{
    bool expression = false;
    while (i < n && !kb_token_is_mark(&tokens[i], ",")) {
        expression |= kb_token_is_mark(&tokens[i], "=");
        i = kb_token_next(tokens, i, n, expression);
    }
    return i < n ? i : n;
}

kb_status kb_parameters_read(const kb_token *tokens, size_t n, kb_arena *arena,
                             kb_parameters *parameters, kb_error *err)
{
    size_t count = 1;
    for (size_t i = 0; i < n; i++)
        count += kb_token_is_mark(&tokens[i], ",");
    *parameters = (kb_parameters){0};
    if (n == 0 || (n == 1 && kb_token_is_word(tokens, "void")))
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
        kb_tokens_free(&plain);
        i = end + 1;
    }
    return ok ? KB_OK
              : kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for a function's parameters");
}
