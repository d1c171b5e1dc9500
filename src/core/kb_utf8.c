/* Owns the reading of UTF-8 (RFC 3629) and the escapes of what is not. */
#include "core/kb_utf8.h"

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
