/* Tokens of C, C++ and CUDA, and lists of them that grow. Not to be entered by two threads. */
#ifndef KB_TOKEN_H
#define KB_TOKEN_H

#include "source/kb_text.h"

/* Offsets and sizes fit in their fields, and a hostile text in memory. */
enum { KB_TEXT_LIMIT = 16 << 20 };

typedef enum kb_token_kind {
    KB_TOKEN_WORD,      /* identifier or keyword */
    KB_TOKEN_NUMBER,    /* of any form */
    KB_TOKEN_STRING,    /* prefix and quotes are part of it, a raw string's too */
    KB_TOKEN_CHARACTER, /* 'x' */
    KB_TOKEN_MARK,      /* punctuation; of those with '>' only -> and >= are longer than one */
    KB_TOKEN_DIRECTIVE, /* the # of a #define or #undef: its tokens follow, up to ... */
    KB_TOKEN_END,       /* ... the end of its line */
    KB_TOKEN_BODY       /* what stands in braces and is nobody's business; of size 1 */
} kb_token_kind;

typedef struct kb_token {
    const char *text;
    uint32_t at; /* its offset in the source; of what a macro made: that of the macro's call */
    unsigned size : 25;
    unsigned kind : 3;    /* a kb_token_kind */
    unsigned blank : 1;   /* something blank is before it */
    unsigned made : 1;    /* by a macro */
    unsigned painted : 1; /* a macro's name that is not to be expanded any more */
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

static inline bool kb_token_is_word(const kb_token *t, const char *text)
{
    return kb_token_is(t, KB_TOKEN_WORD, text);
}

#endif
