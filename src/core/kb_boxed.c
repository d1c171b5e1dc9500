/* Owns the values, and how Python would write them. */
#include "core/kb_boxed.h"

#include "core/kb_memory.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum form { SIGNED, UNSIGNED, FLOAT, BOOL, TEXT, TUPLE } form;

struct kb_boxed {
    form form;
    size_t size; /* of a text or a tuple */
    union {
        long long number;
        unsigned long long natural;
        double real;
        uint32_t *characters;
        kb_boxed **items;
    };
};

static kb_boxed *new_value(form form_of)
{
    kb_boxed *value = kb_calloc(1, sizeof *value);
    if (value)
        value->form = form_of;
    return value;
}

kb_boxed *kb_boxed_signed(long long value)
{
    kb_boxed *v = new_value(SIGNED);
    if (v)
        v->number = value;
    return v;
}

kb_boxed *kb_boxed_unsigned(unsigned long long value)
{
    kb_boxed *v = new_value(UNSIGNED);
    if (v)
        v->natural = value;
    return v;
}

kb_boxed *kb_boxed_float(double value)
{
    kb_boxed *v = new_value(FLOAT);
    if (v)
        v->real = value;
    return v;
}

kb_boxed *kb_boxed_bool(long value)
{
    kb_boxed *v = new_value(BOOL);
    if (v)
        v->number = value;
    return v;
}

static uint32_t character_at(int width, const void *characters, size_t i)
{
    if (width == 1)
        return ((const uint8_t *)characters)[i];
    return width == 2 ? ((const uint16_t *)characters)[i] : ((const uint32_t *)characters)[i];
}

kb_boxed *kb_boxed_text(int width, const void *characters, ptrdiff_t size)
{
    kb_boxed *v = size < 0 ? NULL : new_value(TEXT);
    if (!v)
        return NULL;
    v->size = (size_t)size;
    v->characters = kb_calloc(v->size, sizeof *v->characters);
    if (!v->characters) {
        kb_free(v);
        return NULL;
    }
    for (size_t i = 0; i < v->size; i++)
        v->characters[i] = character_at(width, characters, i);
    return v;
}

kb_boxed *kb_boxed_tuple(ptrdiff_t size)
{
    kb_boxed *v = size < 0 ? NULL : new_value(TUPLE);
    if (!v)
        return NULL;
    v->size = (size_t)size;
    v->items = kb_calloc(v->size, sizeof(kb_boxed *)); // NOLINT: of pointers
    if (v->items)
        return v;
    kb_free(v);
    return NULL;
}

int kb_boxed_set(kb_boxed *tuple, ptrdiff_t index, kb_boxed *item)
{
    if (!tuple || (size_t)index >= tuple->size) { /* a negative one is larger than any size */
        kb_boxed_free(item);
        return -1;
    }
    tuple->items[index] = item;
    return 0;
}

kb_boxed *kb_boxed_pack(ptrdiff_t size, ...)
{
    kb_boxed *tuple = kb_boxed_tuple(size);
    va_list items;
    va_start(items, size);
    for (ptrdiff_t i = 0; i < size; i++)
        (void)kb_boxed_set(tuple, i, va_arg(items, kb_boxed *));
    va_end(items);
    return tuple;
}

ptrdiff_t kb_boxed_hash(const kb_boxed *value)
{
    (void)value;
    return 0;
}

void kb_boxed_ignore(void *type, const char *text)
{
    (void)type, (void)text;
}

const kb_boxed *kb_boxed_item(const kb_boxed *tuple, size_t index)
{
    return tuple && tuple->form == TUPLE && index < tuple->size ? tuple->items[index] : NULL;
}

/* A text that is being written; what does not fit is left out. */
typedef struct writer {
    char *to;
    size_t capacity, size;
} writer;

static void put(writer *w, const char *text)
{
    size_t n = strlen(text), room = w->capacity - 1 - w->size;
    n = n < room ? n : room;
    memcpy(w->to + w->size, text, n);
    w->size += n;
    w->to[w->size] = '\0';
}

enum {
    REAL_ROOM = 40,
    DIGITS_MAX = 17,   /* distinguish every double */
    EXPONENT_MIN = -4, /* Python writes smaller and larger ones with an exponent */
    EXPONENT_MAX = 16,
};

/* The fewest digits that are read as the same number again, as Python writes them. */
static void put_real(writer *w, double value)
{
    char text[REAL_ROOM];
    if (!isfinite(value)) {
        put(w, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    int digits = 1;
    do
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
    while (strtod(text, NULL) != value && digits++ < DIGITS_MAX);
    long exponent = strtol(strchr(text, 'e') + 1, NULL, 10);
    if (exponent >= EXPONENT_MIN && exponent < EXPONENT_MAX) {
        long decimals = digits - 1 - exponent;
        snprintf(text, sizeof text, "%.*f", decimals < 1 ? 1 : (int)decimals, value);
    }
    put(w, text);
}

/* A character as UTF-8. */
static void put_utf8(writer *w, uint32_t c)
{
    char utf8[5] = {0};
    if (c < 0x80) {
        utf8[0] = (char)c;
    } else if (c < 0x800) {
        utf8[0] = (char)(0xc0 | c >> 6);
        utf8[1] = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        utf8[0] = (char)(0xe0 | c >> 12);
        utf8[1] = (char)(0x80 | (c >> 6 & 0x3f));
        utf8[2] = (char)(0x80 | (c & 0x3f));
    } else {
        utf8[0] = (char)(0xf0 | (c >> 18 & 7));
        utf8[1] = (char)(0x80 | (c >> 12 & 0x3f));
        utf8[2] = (char)(0x80 | (c >> 6 & 0x3f));
        utf8[3] = (char)(0x80 | (c & 0x3f));
    }
    put(w, utf8);
}

static bool is_surrogate(uint32_t c)
{
    return c >= 0xd800 && c < 0xe000;
}

/* Of a control character or a surrogate. */
static void put_escape(writer *w, uint32_t c)
{
    char text[REAL_ROOM];
    snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
    put(w, text);
}

static void put_quoted(writer *w, uint32_t c, uint32_t quote)
{
    if (c == '\\' || c == quote)
        put(w, "\\");
    if (c == '\n' || c == '\r' || c == '\t')
        put(w, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    else if (c < ' ' || (c >= 0x7f && c <= 0xa0) || c == 0xad || is_surrogate(c))
        put_escape(w, c);
    else
        put_utf8(w, c);
}

static bool has(const kb_boxed *text, uint32_t c)
{
    for (size_t i = 0; i < text->size; i++)
        if (text->characters[i] == c)
            return true;
    return false;
}

static void put_text(writer *w, const kb_boxed *text, bool quoted)
{
    uint32_t quote = has(text, '\'') && !has(text, '"') ? '"' : '\'';
    if (quoted)
        put_utf8(w, quote);
    for (size_t i = 0; i < text->size; i++) {
        uint32_t c = text->characters[i];
        if (quoted)
            put_quoted(w, c, quote);
        else if (c == 0 || is_surrogate(c)) /* readers of messages take neither */
            put_escape(w, c);
        else
            put_utf8(w, c);
    }
    if (quoted)
        put_utf8(w, quote);
}

static void put_value(writer *w, const kb_boxed *value, bool quoted) // NOLINT(misc-no-recursion)
{
    char text[REAL_ROOM];
    switch (value ? value->form : BOOL) {
    case SIGNED:
        snprintf(text, sizeof text, "%lld", value->number);
        put(w, text);
        break;
    case UNSIGNED:
        snprintf(text, sizeof text, "%llu", value->natural);
        put(w, text);
        break;
    case FLOAT:
        put_real(w, value->real);
        break;
    case BOOL:
        put(w, !value ? "?" : value->number ? "True" : "False");
        break;
    case TEXT:
        put_text(w, value, quoted);
        break;
    case TUPLE:
        put(w, "(");
        for (size_t i = 0; i < value->size; i++) {
            put(w, i ? ", " : "");
            put_value(w, value->items[i], true);
        }
        put(w, value->size == 1 ? ",)" : ")");
        break;
    }
}

void kb_boxed_write(const kb_boxed *value, char conversion, char *to, size_t capacity)
{
    writer w = {.to = to, .capacity = capacity};
    to[0] = '\0';
    put_value(&w, value, conversion == 'r');
}

void kb_boxed_free(kb_boxed *value) // NOLINT(misc-no-recursion)
{
    if (!value)
        return;
    if (value->form == TEXT)
        kb_free(value->characters);
    for (size_t i = 0; value->form == TUPLE && i < value->size; i++)
        kb_boxed_free(value->items[i]);
    if (value->form == TUPLE)
        kb_free(value->items);
    kb_free(value);
}
