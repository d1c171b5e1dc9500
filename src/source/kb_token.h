/* Tokens of C, C++ and CUDA, and lists of them that grow. Not to be entered by two threads. */
#ifndef KB_TOKEN_H
#define KB_TOKEN_H

#include "core/kb_text.h"

/* Offsets and sizes fit in their fields, and a hostile text in memory. */
enum { KB_TEXT_LIMIT = 16 << 20 };

typedef enum kb_token_kind {
    KB_TOKEN_WORD,      /* identifier or keyword */
    KB_TOKEN_NUMBER,    /* of any form */
    KB_TOKEN_STRING,    /* prefix and quotes are part of it, a raw string's too */
    KB_TOKEN_CHARACTER, /* 'x' */
    KB_TOKEN_MARK       /* punctuation, of one byte or two */
} kb_token_kind;

typedef struct kb_token {
    const char *text;
    uint32_t at; /* its offset in the source */
    unsigned size : 25;
    unsigned kind : 3;  /* a kb_token_kind */
    unsigned blank : 1; /* something blank is before it */
} kb_token;

typedef struct kb_tokens {
    kb_token *at;
    size_t n;
    size_t room;
} kb_tokens;

/* False when there is no memory. */
bool kb_tokens_push(kb_tokens *tokens, kb_token token);

void kb_tokens_free(kb_tokens *tokens);

static inline kb_text kb_token_text(const kb_token *t)
{
    return (kb_text){t->text, t->size};
}

static inline bool kb_token_is(const kb_token *t, kb_token_kind kind, const char *text)
{
    return t->kind == kind && kb_text_is(kb_token_text(t), text);
}

static inline bool kb_token_is_mark(const kb_token *t, const char *text)
{
    return kb_token_is(t, KB_TOKEN_MARK, text);
}

/* The byte of a mark that is one byte long, or NUL. */
static inline char kb_token_mark(const kb_token *t)
{
    if (t->kind != KB_TOKEN_MARK || t->size > 1)
        return '\0';
    return *t->text;
}

static inline bool kb_token_is_word(const kb_token *t, const char *text)
{
    return kb_token_is(t, KB_TOKEN_WORD, text);
}

/* The index of what closes the bracket at `open`; n if nothing does before a `;` or a `}`. */
size_t kb_group_end(const kb_token *tokens, size_t open, size_t n);

/* The index of the > that closes the < at `open`; 0 if these are no arguments of a template, or
 * none that end soon. In an expression `a < b` is taken for what it is. */
size_t kb_template_end(const kb_token *tokens, size_t open, size_t n, bool expression);

/* The index behind the token at i, or behind the group or the arguments of a template that it
 * opens. */
size_t kb_token_next(const kb_token *tokens, size_t i, size_t n, bool expression);

#endif
