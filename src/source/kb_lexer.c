/* Owns the lexical rules: splices, comments, literals, directives and punctuation; and which
 * branches of conditions count. */
#include "source/kb_lexer.h"

enum { CONDITION_DEPTH = 64 }; /* of nested conditions; in deeper ones every branch counts */

typedef struct condition {
    bool outside; /* the whole condition is skipped */
    bool others;  /* the branches to come are skipped, whatever their condition */
    int64_t open; /* brackets where it began */
} condition;

typedef struct lexer {
    kb_text source;
    size_t at;
    kb_lexed *lexed;
    condition conditions[CONDITION_DEPTH];
    size_t n_conditions;
    size_t deeper;         /* open ones for which there was no room */
    bool skip;             /* what a condition leaves out */
    int64_t open;          /* brackets of the code so far */
    kb_token directive[3]; /* its first tokens */
    size_t n_directive;
    bool in_directive;
    bool line_start; /* nothing but blanks so far */
    bool blank;
    bool failed; /* no memory */
} lexer;

/* Begins a branch of the innermost condition. One that left brackets open is one way to begin what
 * goes on behind the #endif, and the others are left out. */
static void enter_branch(lexer *x, bool never, bool always)
{
    condition *top = &x->conditions[x->n_conditions - 1];
    top->others |= !x->skip && top->open != x->open;
    x->skip = top->outside || top->others || never;
    top->others |= always;
}

/* Conditions are not evaluated, except that a branch of #if 0 is left out. */
static void end_directive(lexer *x)
{
    static const char *const begins[] = {"if", "ifdef", "ifndef", NULL};
    static const char *const others[] = {"elif", "elifdef", "elifndef", "else", NULL};
    static const char *const yes[] = {"1", "true", NULL}, *const no[] = {"0", "false", NULL};
    size_t n = x->n_directive;
    kb_text name = n > 0 ? kb_token_text(&x->directive[0]) : (kb_text){0};
    kb_text what = n == 2 ? kb_token_text(&x->directive[1]) : (kb_text){0};
    bool begin = kb_text_among(name, begins), end = kb_text_is(name, "endif");
    x->in_directive = false;
    if (x->deeper > 0 || (begin && x->n_conditions == CONDITION_DEPTH)) {
        x->deeper += begin;
        x->deeper -= end;
    } else if (begin || (x->n_conditions > 0 && kb_text_among(name, others))) {
        if (begin)
            x->conditions[x->n_conditions++] = (condition){x->skip, false, x->open};
        enter_branch(x, kb_text_among(what, no), kb_text_among(what, yes));
    } else if (x->n_conditions > 0 && end) {
        x->skip = x->conditions[--x->n_conditions].outside;
    }
}

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
    if (x->in_directive) {
        if (x->n_directive < sizeof x->directive / sizeof *x->directive)
            x->directive[x->n_directive++] = t;
        return;
    }
    if (x->skip)
        return;
    x->open += (*t.text == '{' || *t.text == '(') - (*t.text == '}' || *t.text == ')');
    x->failed |= !kb_tokens_push(&x->lexed->tokens, t);
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
    if (!x->skip && annotates((kb_text){x->source.at + from, x->at - from}))
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
        x->at += splice ? splice : peek(x, 0) == '\\' ? 2 : 1;
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
        if (c == '\'' && (kb_is_letter(next) || kb_is_digit(next)))
            continue;
        if (!kb_is_letter(c) && !kb_is_digit(c) && c != '.')
            break;
    }
    emit(x, KB_TOKEN_NUMBER, from);
}

static void mark(lexer *x)
{
    static const char marks[] = "::->&&||==!=<=>=<<";
    size_t from = x->at, size = 1;
    for (const char *m = marks; *m && size == 1; m += 2)
        if (peek(x, 0) == m[0] && peek(x, 1) == m[1])
            size = 2;
    x->at += size;
    emit(x, KB_TOKEN_MARK, from);
}

static void end_line(lexer *x)
{
    if (x->in_directive)
        end_directive(x);
    x->line_start = true;
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
        x->in_directive = true;
        x->n_directive = 0;
        x->at++;
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
    lexer x = {.source = source, .lexed = lexed, .line_start = true};
    while (x.at < source.size && !x.failed)
        step(&x);
    return x.failed ? kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for a source's tokens")
                    : KB_OK;
}

void kb_lexed_free(kb_lexed *lexed)
{
    kb_tokens_free(&lexed->tokens);
    kb_tokens_free(&lexed->annotations);
}
