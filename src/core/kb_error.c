/* Owns the text of errors: formatting into the caller's buffer, names of status codes, and UTF-8
 * (RFC 3629) with escapes for what is not. */
#include "core/kb_error.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ESCAPE_SIZE = 4 }; /* \xNN */

/* What a lead byte announces; 0 for a byte that leads nothing. */
static size_t announced(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4) /* 0xC0 and 0xC1: overlong */
        return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

static int continues(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* Overlong forms, surrogates and what is past U+10FFFF differ in their second byte. */
static int second_fits(unsigned char lead, unsigned char second)
{
    switch (lead) {
    case 0xE0:
        return second >= 0xA0;
    case 0xED:
        return second <= 0x9F;
    case 0xF0:
        return second >= 0x90;
    case 0xF4:
        return second <= 0x8F;
    default:
        return 1;
    }
}

size_t kb_utf8_width(const char *text, size_t size)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t width = size ? announced(at[0]) : 0;
    if (width > size || (width > 1 && !second_fits(at[0], at[1])))
        return 0;
    for (size_t i = 1; i < width; i++)
        if (!continues(at[i]))
            return 0;
    return width;
}

size_t kb_utf8_whole(const char *text, size_t size)
{
    size_t start = size;
    while (start > 0 && size - start < 3 && continues((unsigned char)text[start - 1]))
        start--;
    if (start == 0 || announced((unsigned char)text[start - 1]) <= size - start + 1)
        return size;
    return start - 1;
}

size_t kb_utf8_escape(char *to, size_t capacity, const char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size;) {
        size_t width = text[i] ? kb_utf8_width(text + i, size - i) : 0;
        size_t room = capacity - 1 - n;
        if ((width ? width : ESCAPE_SIZE) > room)
            break;
        if (width)
            memcpy(to + n, text + i, width);
        else
            (void)snprintf(to + n, room + 1, "\\x%02x", (unsigned)(unsigned char)text[i]);
        n += width ? width : ESCAPE_SIZE;
        i += width ? width : 1;
    }
    to[n] = '\0';
    return n;
}

/* What does not fit is left out. */
static void write_at(kb_error *err, size_t at, const char *format, va_list args)
{
    (void)vsnprintf(err->message + at, KB_ERROR_CAPACITY - at, format, args);
}

kb_status kb_error_set(kb_error *err, kb_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err->status = status;
    write_at(err, 0, format, args);
    va_end(args);
    return status;
}

void kb_error_append(kb_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_at(err, strlen(err->message), format, args);
    va_end(args);
}

/* Where the first line ends, without its code. */
static size_t end_of_line(const char *message)
{
    enum { CODE = sizeof " [KB3001]" - 1 };
    size_t end = strcspn(message, "\n");
    return end >= CODE && !strncmp(message + end - CODE, " [KB", 4) ? end - CODE : end;
}

kb_status kb_error_code(kb_error *err, const char *code)
{
    char rest[KB_ERROR_CAPACITY] = "";
    size_t first = strcspn(err->message, "\n");
    if (end_of_line(err->message) < first)
        return err->status;
    size_t n = strlen(code) + strlen(" []");
    if (first > KB_ERROR_CAPACITY - 1 - n)
        first = kb_utf8_whole(err->message, KB_ERROR_CAPACITY - 1 - n);
    else
        memcpy(rest, err->message + first, strlen(err->message + first) + 1);
    err->message[first] = '\0';
    kb_error_append(err, " [%s]%s", code, rest);
    return err->status;
}

void kb_error_note(kb_error *err, const char *format, ...)
{
    char note[96], rest[KB_ERROR_CAPACITY];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(note, sizeof note, format, args);
    va_end(args);
    if (strlen(err->message) + strlen(note) >= KB_ERROR_CAPACITY)
        return;
    size_t at = end_of_line(err->message);
    memcpy(rest, err->message + at, strlen(err->message + at) + 1);
    err->message[at] = '\0';
    kb_error_append(err, "%s%s", note, rest);
}

const char *kb_error_text(kb_error *err)
{
    char raw[KB_ERROR_CAPACITY];
    size_t length = strlen(err->message);
    memcpy(raw, err->message, length);
    (void)kb_utf8_escape(err->message, KB_ERROR_CAPACITY, raw, length);
    return err->message;
}
