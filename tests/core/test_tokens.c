/* Proves where brackets and the arguments of templates end, and how a list of parameters is cut,
 * named and looked at. Lists of tokens lie in blocks of exactly their size. */
#include "core/kb_memory.h"
#include "kb_test.h"
#include "source/kb_lexer.h"
#include "source/kb_parameter.h"

#include <stdlib.h>

/* The tokens of a source, which lives on, to be freed. */
static kb_token *tokens_of(const char *source, size_t *n)
{
    kb_lexed lexed;
    kb_error err;
    CHECK_INT(kb_lex(kb_text_of(source), &lexed, &err), KB_OK);
    *n = lexed.tokens.n;
    kb_token *tokens = malloc(*n ? *n * sizeof *tokens : 1);
    if (!tokens)
        abort();
    if (*n)
        memcpy(tokens, lexed.tokens.at, *n * sizeof *tokens);
    kb_lexed_free(&lexed);
    CHECK_PTR(lexed.tokens.at, NULL);
    return tokens;
}

static void test_groups(void)
{
    static const struct {
        const char *source;
        int open, end;
    } cases[] = {
        {"(a)", 0, 2},
        {"a(b)c", 1, 3},
        {"(a(b)[c]{d;e})f", 0, 13},
        {"(a(b)[c]{d;e})f", 2, 4},
        {"(a(b)[c]{d;e})f", 5, 7},
        {"(a(b)[c]{d;e})f", 8, 12},
        {"(a", 0, 2},
        {"(a;)", 0, 4},
        {"(a})", 0, 4},
        {"({a};)", 0, 6},
        {"({}{;})", 0, 6},
        {"([)", 0, 3},
        {"([{", 0, 3},
        {"[]", 0, 1},
        {"{}", 0, 1},
        {"{;;}", 0, 3},
        {"(", 0, 1},
        {"({{;};})", 0, 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n;
        kb_token *tokens = tokens_of(cases[i].source, &n);
        if (!CHECK_INT(kb_group_end(tokens, (size_t)cases[i].open, n), cases[i].end))
            fprintf(stderr, "%s\n", cases[i].source);
        free(tokens);
    }
}

static void test_templates(void)
{
    static const struct {
        const char *source;
        int open, end, of_expression;
    } cases[] = {
        {"<a>b", 0, 2, 2},     {"x<a>", 1, 3, 3},     {"<a,b<c> >", 0, 7, 7}, {"<a<b>", 0, 0, 0},
        {"<1<b>", 0, 4, 4},    {"<(a>b)>", 0, 6, 6},  {"<[a>b]>", 0, 6, 6},   {"<{a>b}>", 0, 6, 6},
        {"<a;>", 0, 0, 0},     {"<a)>", 0, 0, 0},     {"<a]>", 0, 0, 0},      {"<a}>", 0, 0, 0},
        {"<a", 0, 0, 0},       {"<", 0, 0, 0},        {"<(a", 0, 0, 0},       {"<a=b>", 0, 4, 0},
        {"<a&&b>", 0, 4, 0},   {"<a||b>", 0, 4, 0},   {"<a&b>", 0, 4, 4},     {"<>", 0, 1, 1},
        {"a<b<c>>d", 3, 5, 5}, {"a<b<c>>d", 1, 6, 6}, {"<a,(b", 0, 0, 0},     {"<a>>", 0, 2, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n, open = (size_t)cases[i].open;
        kb_token *tokens = tokens_of(cases[i].source, &n);
        if (!CHECK_INT(kb_template_end(tokens, open, n, false), cases[i].end) ||
            !CHECK_INT(kb_template_end(tokens, open, n, true), cases[i].of_expression))
            fprintf(stderr, "%s\n", cases[i].source);
        free(tokens);
    }
}

static void test_next(void)
{
    static const struct {
        const char *source;
        int at, next, of_expression;
    } cases[] = {
        {"a", 0, 1, 1},      {"(a)b", 0, 3, 3},    {"[a]b", 0, 3, 3}, {"{a}b", 0, 3, 3},
        {"(a", 0, 3, 3},     {"x(a)", 1, 4, 4},    {"<a>b", 0, 1, 1}, {"x<a>b", 1, 4, 4},
        {"1<a>b", 1, 2, 2},  {"x<a=b>c", 1, 6, 2}, {"x<a", 1, 2, 2},  {")", 0, 1, 1},
        {"y x<a>", 2, 5, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n, at = (size_t)cases[i].at;
        kb_token *tokens = tokens_of(cases[i].source, &n);
        if (!CHECK_INT(kb_token_next(tokens, at, n, false), cases[i].next) ||
            !CHECK_INT(kb_token_next(tokens, at, n, true), cases[i].of_expression))
            fprintf(stderr, "%s\n", cases[i].source);
        free(tokens);
    }
}

/* "type|name|look at; " of each parameter. */
static const char *parameters_of(const char *source)
{
    static char text[1024];
    static const char looks[][8] = {"value", "pointer", "tensor", "bytes", "stream", "call"};
    size_t n_tokens, n = 0;
    kb_error err;
    kb_parameters p;
    kb_token *tokens = tokens_of(source, &n_tokens);
    kb_arena *arena = kb_arena_new();
    if (!arena)
        abort();
    CHECK_INT(kb_parameters_read(tokens, n_tokens, arena, &p, &err), KB_OK);
    free(tokens);
    text[0] = '\0';
    for (uint32_t i = 0; i < p.n; i++) {
        const kb_parameter *one = &p.at[i];
        CHECK_INT(one->i, i);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s|%.*s|%s%s %u", i ? "; " : "",
                              (int)one->ctype.size, one->ctype.at ? one->ctype.at : "",
                              (int)one->name.size, one->name.at ? one->name.at : "",
                              one->constant ? "const " : "", looks[one->look], one->at);
    }
    kb_arena_free(arena);
    return text;
}

static void test_parameters(void)
{
    static const struct {
        const char *source, *parameters;
    } cases[] = {
        {"", ""},
        {"void", ""},
        {"void *", "void *||pointer 0"},
        {"void, int a", "void||value 0; int|a|value 6"},
        {"int a", "int|a|value 0"},
        {"int a, float  b", "int|a|value 0; float|b|value 7"},
        {"int,", "int||value 0; ||value 3"},
        {",", "||value 0; ||value 0"},
        {",,a b", "||value 0; ||value 1; a|b|value 2"},
        {"= 3, int b", "||value 0; int|b|value 5"},
        {"unsigned", "unsigned||value 0"},
        {"unsigned x", "unsigned|x|value 0"},
        {"unsigned long", "unsigned long||value 0"},
        {"const x", "const x||const value 0"},
        {"x const", "x const||const value 0"},
        {"auto x", "auto|x|value 0"},
        {"const auto x", "const auto|x|const value 0"},
        {"struct s", "struct s||value 0"},
        {"struct s x", "struct s|x|value 0"},
        {"x", "x||value 0"},
        {"a::b", "a::b||value 0"},
        {"a::b c", "a::b|c|value 0"},
        {"::a", "::a||value 0"},
        {"T<a, b> c, d e", "T<a, b>|c|value 0; d|e|value 11"},
        {"T<a = b> c, d e", "T<a = b>|c|value 0; d|e|value 12"},
        {"T<a * = b> c", "T<a * = b>|c|value 0"},
        {"T<const a = b> c", "T<const a = b>|c|value 0"},
        {"__align__<a = b> int c", "int|c|value 17"},
        {"T<a && b, c> d", "T<a && b, c>|d|value 0"},
        {"T<const a> c", "T<const a>|c|value 0"},
        {"T<a> *c", "T<a> *|c|pointer 0"},
        {"T<a *> c", "T<a *>|c|value 0"},
        {"T *const c", "T *const|c|pointer 0"},
        {"T const *c", "T const *|c|const pointer 0"},
        {"const T &c", "const T &|c|const value 0"},
        {"const T *&c", "const T *&|c|const pointer 0"},
        {"T c[2][3]", "T[2][3]|c|pointer 0"},
        {"T c[]", "T[]|c|pointer 0"},
        {"T c[", "T[|c|pointer 0"},
        {"T []", "T []||pointer 0"},
        {"const T (*c)(int)", "const T (*c)(int)||const value 0"},
        {"T (c)", "T (c)||value 0"},
        {"a b (c", "a b (c||value 0"},
        {"int a = 1", "int|a|value 0"},
        {"int a = b < c, int d = e > f", "int|a|value 0; int|d|value 15"},
        {"int a = g<1, 2>(3), int d", "int|a|value 0; int|d|value 20"},
        {"int a = {1, 2}, int d", "int|a|value 0; int|d|value 16"},
        {"int a =", "int|a|value 0"},
        {"[[x, y]] int a, [[z]] b c", "int|a|value 9; b|c|value 22"},
        {"int a [[x]]", "int|a|value 0"},
        {"[[x]]", "||value 0"},
        {"[", "[||pointer 0"},
        {"[[", "||value 0"},
        {"[a] b", "[a] b||pointer 0"},
        {"alignas(16) int a", "int|a|value 12"},
        {"int __attribute__((x)) a", "int|a|value 0"},
        {"int a __attribute__((x))", "int|a|value 0"},
        {"int a __declspec x", "int|a|value 0"},
        {"int a __align__", "int a|__align__|value 0"},
        {"int a __declspec x y", "int a|y|value 0"},
        {"alignas", "alignas||value 0"},
        {"const Tensor a", "const Tensor|a|const tensor 0"},
        {"BE::Tensor &a", "BE::Tensor &|a|tensor 0"},
        {"Tensor *a", "Tensor *|a|pointer 0"},
        {"kb_tensor a", "kb_tensor|a|value 0"},
        {"kb_tensor *a", "kb_tensor *|a|bytes 0"},
        {"kb_tensor a[]", "kb_tensor[]|a|bytes 0"},
        {"const kb_call *c", "const kb_call *|c|const call 0"},
        {"kb_call const *", "kb_call const *||const call 0"},
        {"kb_call *const c", "kb_call *const|c|pointer 0"},
        {"const kb_call c", "const kb_call|c|const value 0"},
        {"cudaStream_t", "cudaStream_t||stream 0"},
        {"CUstream s", "CUstream|s|stream 0"},
        {"hipStream_t s", "hipStream_t|s|stream 0"},
        {"hipStream_t *s", "hipStream_t *|s|pointer 0"},
        {"CUstream_st *s", "CUstream_st *|s|stream 0"},
        {"cudaStream_st *s", "cudaStream_st *|s|stream 0"},
        {"cudaStream_st s", "cudaStream_st|s|value 0"},
        {"int64_t stream", "int64_t|stream|stream 0"},
        {"std::int64_t stream", "std::int64_t|stream|stream 0"},
        {"int64_t other", "int64_t|other|value 0"},
        {"int32_t stream", "int32_t|stream|value 0"},
        {"int64_t *stream", "int64_t *|stream|pointer 0"},
        {"1 x", "1 x||value 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!CHECK_TEXT(parameters_of(cases[i].source), cases[i].parameters))
            fprintf(stderr, "%s\n", cases[i].source);
    /* what has no end */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t from = 0; from < strlen(cases[i].source); from++) {
            char part[64];
            (void)snprintf(part, sizeof part, "%.*s", (int)from, cases[i].source);
            (void)parameters_of(part);
            (void)parameters_of(cases[i].source + from);
        }
}

/* As many tokens as a list has room for, with a name and without. */
static void test_many_tokens(void)
{
    for (int n = 26; n <= 66; n += 2)
        for (int named = 0; named < 2; named++) {
            char source[512] = "T<a", expected[560];
            for (int i = 4; i < n; i += 2)
                strcat(source, ",b");
            strcat(source, ">");
            (void)snprintf(expected, sizeof expected, "%s|%s|value 0", source, named ? "c" : "");
            strcat(source, named ? "c" : "");
            CHECK_TEXT(parameters_of(source), expected);
        }
}

/* A list keeps what it has while it grows, each token for itself. */
static void test_growth(void)
{
    enum { MANY = 300 };
    static char names[MANY];
    kb_tokens list = {0};
    for (uint32_t i = 0; i < MANY; i++) {
        const kb_token t = {
            .text = &names[i], .at = 3 * i, .size = i & 0xffff, .kind = i % 5, .blank = i % 2};
        CHECK(kb_tokens_push(&list, t));
        CHECK_INT(list.n, i + 1);
        CHECK(list.room >= list.n);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        const kb_token *t = &list.at[i];
        CHECK_PTR(t->text, &names[i]);
        CHECK(t->at == 3 * i && t->size == i && t->kind == i % 5 && t->blank == i % 2);
    }
    size_t room = list.room;
    while (list.n < room)
        CHECK(kb_tokens_push(&list, (kb_token){0}));
    const kb_token *at = list.at;
    kb_memory_fail_nth(1);
    CHECK(!kb_tokens_push(&list, (kb_token){0}));
    kb_memory_fail_nth(0);
    CHECK_PTR(list.at, at); /* what there was is there */
    CHECK_INT(list.n, room);
    CHECK_INT(list.room, room);
    kb_tokens_free(&list);
    CHECK(!list.at && !list.n && !list.room);
}

int main(void)
{
    test_groups();
    test_templates();
    test_next();
    test_parameters();
    test_many_tokens();
    test_growth();
    return kb_test_end("test_tokens");
}
