/* A piece of somebody's text, which lives elsewhere and has no NUL behind it. Inline. */
#ifndef KB_TEXT_H
#define KB_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct kb_text {
    const char *at;
    size_t size;
} kb_text;

static inline kb_text kb_text_of(const char *text)
{
    return (kb_text){text, strlen(text)};
}

static inline bool kb_text_same(kb_text a, kb_text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

/* Orders texts as memcmp and strcmp do. */
static inline int kb_text_compare(kb_text a, kb_text b)
{
    size_t n = a.size < b.size ? a.size : b.size;
    int order = n ? memcmp(a.at, b.at, n) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static inline bool kb_text_is(kb_text a, const char *b)
{
    return kb_text_same(a, kb_text_of(b));
}

/* True for a text of the list, which ends with NULL. */
static inline bool kb_text_among(kb_text a, const char *const *list)
{
    for (; *list; list++)
        if (kb_text_is(a, *list))
            return true;
    return false;
}

/* The text, or what of it fits in `limit` bytes without halving a character of UTF-8. */
static inline kb_text kb_text_cut(kb_text text, size_t limit)
{
    if (text.size <= limit)
        return text;
    while (limit > 0 && ((unsigned char)text.at[limit] & 0xC0) == 0x80)
        limit--;
    return (kb_text){text.at, limit};
}

/* For "%.*s" in a message: names may be as long as the text is. */
enum { KB_TEXT_SHOWN = 120 };
#define KB_TEXT_ARG(text) (int)kb_text_cut((text), KB_TEXT_SHOWN).size, ((text).at ? (text).at : "")

static inline bool kb_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Bytes of UTF-8 count as letters. */
static inline bool kb_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
           (unsigned char)c >= 0x80;
}

static inline bool kb_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

#endif
