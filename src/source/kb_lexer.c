/* Owns the lexical rules: splices, comments, literals, directives and punctuation. Which branches
 * of conditions count is kb_condition's. */
#include "source/kb_lexer.h"

#include "source/kb_condition.h"

typedef struct lexer {
    kb_text source;
    size_t at;
    kb_lexed *lexed;
    kb_conditions conditions;
    size_t directive; /* where its tokens begin */
    bool in_directive;
    bool line_start; /* nothing but blanks so far */
    bool blank;
    bool failed; /* no memory */
} lexer;

/* The byte `ahead` of the cursor; 0 behind the end. */
static char peek(const lexer *x, size_t ahead)
{
    if (ahead >= x->source.size - x->at)
        return '\0';
    return x->source.at[x->at + ahead];
}

/* Of a backslash that ends its line (blanks may follow it), and of the line's end; 0 if it does
 * not. */
static size_t splice_size(kb_text source, size_t at)
{
    if (source.at[at] != '\\')
        return 0;
    size_t end = at + 1;
    while (end < source.size && kb_is_blank(source.at[end]))
        end++;
    return end < source.size && source.at[end] == '\n' ? end + 1 - at : 0;
}

static kb_token token_of(const lexer *x, kb_token_kind kind, size_t from, size_t to)
{
    return (kb_token){
        .text = x->source.at + from,
        .at = (uint32_t)from,
        .size = (unsigned)(to - from) & 0x1ffffff,
        .kind = (unsigned)kind & 7,
        .blank = x->blank || x->line_start,
    };
}

static void emit(lexer *x, kb_token_kind kind, size_t from)
{
    kb_token t = token_of(x, kind, from, x->at);
    x->blank = false;
    x->line_start = false;
    if (!x->in_directive) {
        if (kb_conditions_skip(&x->conditions) != KB_SKIP_NOTHING)
            return;
        if (kind == KB_TOKEN_MARK && t.size == 1)
            kb_conditions_bracket(&x->conditions, *t.text);
    }
    x->failed |= !kb_tokens_push(&x->lexed->tokens, t);
}

static void begin_directive(lexer *x)
{
    size_t from = x->at++;
    x->directive = x->lexed->tokens.n;
    x->in_directive = true;
    emit(x, KB_TOKEN_DIRECTIVE, from);
}

/* Only definitions stay, and only where code would. */
static void end_directive(lexer *x)
{
    kb_tokens *tokens = &x->lexed->tokens;
    bool keep = kb_conditions_skip(&x->conditions) == KB_SKIP_NOTHING;
    x->in_directive = false;
    if (x->failed || x->directive >= tokens->n)
        return;
    const kb_token *words = tokens->at + x->directive + 1;
    size_t n = tokens->n - x->directive - 1;
    if (keep && n > 1 && (kb_token_is_word(words, "define") || kb_token_is_word(words, "undef"))) {
        x->failed |= !kb_tokens_push(tokens, token_of(x, KB_TOKEN_END, x->at, x->at));
        return;
    }
    x->failed |= !kb_conditions_directive(&x->conditions, words, n);
    tokens->n = x->directive;
}

/* What an annotation begins with. */
static bool annotates(kb_text comment)
{
    return comment.size >= 3 && memcmp(comment.at, "@BE", 3) == 0 &&
           (comment.size == 3 || kb_is_blank(comment.at[3]));
}

static void line_comment(lexer *x)
{
    size_t from = x->at;
    while (x->at < x->source.size && x->source.at[x->at] != '\n') {
        size_t splice = splice_size(x->source, x->at);
        x->at += splice ? splice : 1;
    }
    while (from < x->at && (x->source.at[from] == '/' || kb_is_blank(x->source.at[from])))
        from++;
    x->blank = true;
    if (kb_conditions_skip(&x->conditions) != KB_SKIP_ALL &&
        annotates((kb_text){x->source.at + from, x->at - from}))
        x->failed |=
            !kb_tokens_push(&x->lexed->annotations, token_of(x, KB_TOKEN_WORD, from, x->at));
}

static void block_comment(lexer *x)
{
    x->at += 2;
    while (x->at < x->source.size && !(peek(x, 0) == '*' && peek(x, 1) == '/'))
        x->at++;
    x->at = x->at < x->source.size ? x->at + 2 : x->at;
    x->blank = true;
}

/* Up to the quote that closes it or, if none does, to the end of the line. */
static void quoted(lexer *x, size_t from)
{
    char quote = peek(x, 0);
    x->at++;
    while (x->at < x->source.size && peek(x, 0) != quote && peek(x, 0) != '\n') {
        size_t splice = splice_size(x->source, x->at);
        x->at += splice ? splice : peek(x, 0) == '\\' && peek(x, 1) != '\n' ? 2 : 1;
    }
    if (x->at > x->source.size)
        x->at = x->source.size;
    if (peek(x, 0) == quote)
        x->at++;
    emit(x, quote == '"' ? KB_TOKEN_STRING : KB_TOKEN_CHARACTER, from);
}

/* R"delimiter( ... )delimiter". What has no such form is taken for a plain string. */
static void raw_string(lexer *x, size_t from)
{
    enum { DELIMITER_MAX = 16 };
    const char *delimiter = x->source.at + x->at + 1;
    size_t n = 0;
    while (n < DELIMITER_MAX && !strchr(" ()\\\t\v\f\n\"", peek(x, 1 + n)))
        n++;
    if (peek(x, 1 + n) != '(') {
        quoted(x, from);
        return;
    }
    for (x->at += n + 2; x->at < x->source.size; x->at++)
        if (peek(x, 0) == ')' && peek(x, n + 1) == '"' &&
            memcmp(x->source.at + x->at + 1, delimiter, n) == 0) {
            x->at += n + 2;
            break;
        }
    emit(x, KB_TOKEN_STRING, from);
}

static void word(lexer *x)
{
    static const char *const prefixes[] = {"u8", "u", "U", "L", "R", "u8R", "uR", "UR", "LR", NULL};
    size_t from = x->at;
    while (kb_is_letter(peek(x, 0)) || kb_is_digit(peek(x, 0)))
        x->at++;
    kb_text w = {x->source.at + from, x->at - from};
    char next = peek(x, 0);
    if ((next != '"' && next != '\'') || !kb_text_among(w, prefixes))
        emit(x, KB_TOKEN_WORD, from);
    else if (next == '"' && w.at[w.size - 1] == 'R')
        raw_string(x, from);
    else
        quoted(x, from);
}

static void number(lexer *x)
{
    size_t from = x->at;
    for (;; x->at++) {
        char c = peek(x, 0), next = peek(x, 1);
        if ((c == '+' || c == '-') && x->at > from && strchr("eEpP", x->source.at[x->at - 1]))
            continue;
        if (c == '\'' && x->at > from && (kb_is_letter(next) || kb_is_digit(next)))
            continue;
        if (!kb_is_letter(c) && !kb_is_digit(c) && c != '.')
            break;
    }
    emit(x, KB_TOKEN_NUMBER, from);
}

static void mark(lexer *x)
{
    static const char *const marks[] = {
        "...", "<<=", "::", "->", "##", "&&", "||", "==", "!=", "<=", ">=", "<<",
        "++",  "--",  "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", NULL};
    size_t from = x->at, size = 1;
    kb_text rest = {x->source.at + x->at, x->source.size - x->at};
    bool alone = strchr("(){}[];,?~>", *rest.at) && !(*rest.at == '>' && peek(x, 1) == '=');
    for (const char *const *m = marks; !alone && *m && size == 1; m++) {
        size_t n = strlen(*m);
        if (n <= rest.size && memcmp(rest.at, *m, n) == 0)
            size = n;
    }
    x->at += size;
    emit(x, KB_TOKEN_MARK, from);
}

static void end_line(lexer *x)
{
    if (x->in_directive)
        end_directive(x);
    x->line_start = true;
    x->blank = true;
    x->at++;
}

static void step(lexer *x)
{
    char c = peek(x, 0), next = peek(x, 1);
    size_t splice = splice_size(x->source, x->at);
    if (splice || kb_is_blank(c)) {
        x->at += splice ? splice : 1;
        x->blank = true;
    } else if (c == '\n') {
        end_line(x);
    } else if (c == '/' && next == '/') {
        line_comment(x);
    } else if (c == '/' && next == '*') {
        block_comment(x);
    } else if (c == '#' && x->line_start && !x->in_directive) {
        begin_directive(x);
    } else if (c == '"' || c == '\'') {
        quoted(x, x->at);
    } else if (kb_is_letter(c)) {
        word(x);
    } else if (kb_is_digit(c) || (c == '.' && kb_is_digit(next))) {
        number(x);
    } else {
        mark(x);
    }
}

kb_status kb_lex(kb_text source, kb_lexed *lexed, kb_error *err)
{
    *lexed = (kb_lexed){0};
    lexer x = {.source = source, .lexed = lexed, .line_start = true, .blank = true};
    while (x.at < source.size && !x.failed)
        step(&x);
    if (x.in_directive)
        end_directive(&x);
    kb_conditions_free(&x.conditions);
    return x.failed ? kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for a source's tokens")
                    : KB_OK;
}

void kb_lexed_free(kb_lexed *lexed)
{
    kb_tokens_free(&lexed->tokens);
    kb_tokens_free(&lexed->annotations);
}
