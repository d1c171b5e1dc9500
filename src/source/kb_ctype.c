/* Owns the spellings of types. */
#include "source/kb_ctype.h"

#include "source/kb_builtin.h"

static const char *const qualifiers[] = {
    "const", "volatile", "struct",       "class",      "enum",     "union",     "typename",
    "auto",  "register", "__restrict__", "__restrict", "restrict", "_Noreturn", "__grid_constant__",
    NULL};

bool kb_ctype_is_qualifier(kb_text word)
{
    return kb_text_among(word, qualifiers);
}

bool kb_ctype_is_keyword(kb_text word)
{
    return kb_ctype_is_qualifier(word) || kb_builtin_is_word(word);
}

/* What comes before the first * or &, without qualifiers. */
typedef struct base {
    kb_text words[KB_BUILTIN_WORDS];
    size_t n_words;
    kb_text name;       /* the last identifier outside of <> */
    kb_text outer;      /* the one before it */
    kb_text outermost;  /* the one before that */
    kb_text argument;   /* what stands between <>, if it is one word */
    size_t n_arguments; /* tokens there, and */
    size_t n_marks;     /* of <> and within */
    size_t n_scopes;    /* :: that are not at the begin */
    bool templated;
    bool constant;
    bool strange;
} base;

static void add_word(base *b, kb_text word)
{
    if (kb_text_is(word, "const"))
        b->constant = true;
    if (kb_ctype_is_qualifier(word))
        return;
    if (b->n_words < KB_BUILTIN_WORDS)
        b->words[b->n_words] = word;
    b->n_words++;
    b->outermost = b->outer;
    b->outer = b->name;
    b->name = word;
}

bool kb_angles_inside(kb_angles *a, const kb_token *t)
{
    bool inside = a->open > 0;
    if (t->kind != KB_TOKEN_MARK || t->size != 1)
        return inside;
    if (inside && *t->text == '(')
        a->parens++;
    else if (a->parens > 0)
        a->parens -= *t->text == ')';
    else if (*t->text == '<')
        a->open++;
    else if (inside && *t->text == '>')
        a->open--;
    return inside || a->open > 0;
}

/* Gives the index of the first * or &, or n. */
static size_t read_base(base *b, const kb_token *tokens, size_t n)
{
    kb_angles angles = {0};
    size_t i = 0;
    for (; i < n; i++) {
        const kb_token *t = &tokens[i];
        if (kb_angles_inside(&angles, t)) {
            b->templated = true;
            b->n_marks += t->kind == KB_TOKEN_MARK;
            b->n_arguments += t->kind != KB_TOKEN_MARK;
            if (t->kind == KB_TOKEN_WORD)
                b->argument = kb_token_text(t);
        } else if (t->kind == KB_TOKEN_WORD) {
            add_word(b, kb_token_text(t));
        } else if (kb_token_is_mark(t, "::")) {
            b->n_scopes += b->n_words > 0;
        } else if (kb_token_is_mark(t, "*") || kb_token_is_mark(t, "&") ||
                   kb_token_is_mark(t, "&&")) {
            break;
        } else {
            b->strange = true;
        }
    }
    return i;
}

/* In no namespace, or in std. */
static bool is_plain(const base *b)
{
    return b->n_scopes == 0 ? b->n_words == 1
                            : b->n_scopes == 1 && b->n_words == 2 && kb_text_is(b->outer, "std");
}

/* std::, thrust::, cuda::std:: or nothing before it. */
static bool is_complex_scope(const base *b)
{
    static const char *const scopes[] = {"std", "thrust", "kernbridge", "BE", NULL};
    if (b->n_scopes == 2)
        return kb_text_is(b->outermost, "cuda") && kb_text_is(b->outer, "std");
    return b->n_scopes == 0 || (b->n_scopes == 1 && kb_text_among(b->outer, scopes));
}

static void classify_base(const base *b, kb_ctype *type)
{
    static const char *const half[] = {"__half", "half", "float16_t", NULL};
    static const char *const bfloat[] = {"__nv_bfloat16", "nv_bfloat16", "bfloat16_t", NULL};
    if (b->strange || b->n_words == 0)
        return;
    if (b->templated) {
        if (kb_text_is(b->name, "complex") && b->n_arguments == 1 && b->n_marks == 2 &&
            is_complex_scope(b))
            type->scalar = kb_text_is(b->argument, "float")    ? KB_ATTR_COMPLEX64
                           : kb_text_is(b->argument, "double") ? KB_ATTR_COMPLEX128
                                                               : KB_ATTR_NONE;
    } else if (kb_text_is(b->name, "complex64_t")) {
        type->scalar = KB_ATTR_COMPLEX64;
    } else if (kb_text_is(b->name, "complex128_t")) {
        type->scalar = KB_ATTR_COMPLEX128;
    } else if (kb_text_among(b->name, half)) {
        type->element = KB_ATTR_FLOAT16;
    } else if (kb_text_among(b->name, bfloat)) {
        type->element = KB_ATTR_BFLOAT16;
    } else if (is_plain(b)) {
        kb_builtin_name(b->name, b->n_scopes == 0, &type->scalar, &type->element);
    }
    if (!b->templated && b->n_scopes == 0 && b->n_words <= KB_BUILTIN_WORDS)
        kb_builtin_words(b->words, b->n_words, &type->scalar, &type->element);
    if (type->scalar)
        type->element = type->scalar;
    type->is_int64_t = !b->templated && is_plain(b) && kb_text_is(b->name, "int64_t");
}

static kb_ctype_kind kind_of(const base *b, size_t stars, size_t references)
{
    static const char *const streams[] = {"cudaStream_t", "CUstream", "hipStream_t", NULL};
    static const char *const streamed[] = {"cudaStream_st", "CUstream_st", NULL};
    bool named = !b->strange && !b->templated && b->n_words == b->n_scopes + 1;
    if (b->strange || b->n_words == 0 || stars + references > 1)
        return KB_CTYPE_OTHER;
    if (named && !stars && kb_text_is(b->name, "Tensor"))
        return KB_CTYPE_TENSOR;
    if (named && stars && kb_text_is(b->name, "kb_tensor"))
        return KB_CTYPE_TENSOR;
    if (named && stars && b->constant && kb_text_is(b->name, "kb_call"))
        return KB_CTYPE_CALL;
    if (named && b->n_scopes == 0 && kb_text_among(b->name, stars ? streamed : streams))
        return references ? KB_CTYPE_REFERENCE : KB_CTYPE_STREAM;
    return stars ? KB_CTYPE_POINTER : references ? KB_CTYPE_REFERENCE : KB_CTYPE_VALUE;
}

kb_ctype kb_ctype_of(const kb_token *tokens, size_t n)
{
    base b = {0};
    kb_ctype type = {0};
    size_t stars = 0, references = 0;
    for (size_t i = read_base(&b, tokens, n); i < n; i++) {
        if (kb_token_is_mark(&tokens[i], "*"))
            stars++;
        else if (kb_token_is_mark(&tokens[i], "&") || kb_token_is_mark(&tokens[i], "&&"))
            references++;
        else if (tokens[i].kind != KB_TOKEN_WORD ||
                 !kb_ctype_is_qualifier(kb_token_text(&tokens[i])))
            b.strange = true;
    }
    type.constant = b.constant;
    type.pointer = stars == 1 && references == 0;
    type.kind = kind_of(&b, stars, references);
    if (type.kind != KB_CTYPE_OTHER)
        classify_base(&b, &type);
    return type;
}
