/* Owns print: CUDA's vprintf, whose arguments lie one behind the other, each at a multiple of its
 * size (CUDA C++ programming guide, formatted output). A call's text leaves in one piece. */
#include "ext/emulator/kb_thread.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 4096, SPEC_MAX = 32 };

typedef struct text {
    char bytes[TEXT_MAX];
    size_t n;
} text;

static const char *take(const char **at, size_t size)
{
    uintptr_t address = (uintptr_t)*at;
    const char *found = *at + ((size - address % size) % size);
    *at = found + size;
    return found;
}

static int64_t take_integer(const char **at, bool wide)
{
    int64_t word;
    int32_t half;
    if (wide) {
        memcpy(&word, take(at, sizeof word), sizeof word);
        return word;
    }
    memcpy(&half, take(at, sizeof half), sizeof half);
    return half;
}

static void append(text *out, int n)
{
    size_t room = sizeof out->bytes - 1 - out->n;
    if (n > 0)
        out->n += (size_t)n < room ? (size_t)n : room;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

/* `spec` is "%" and flags, width and precision, without lengths, and NULs up to its end. */
static void convert(text *out, char spec[SPEC_MAX + 4], bool wide, char kind, const char **at)
{
    char *to = out->bytes + out->n;
    size_t room = sizeof out->bytes - out->n, n = strlen(spec);
    double number;
    const char *pointer;
    switch (kind) {
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': {
        int64_t value = take_integer(at, wide);
        bool is_signed = kind == 'd' || kind == 'i';
        memcpy(spec + n, (char[]){'l', 'l', kind}, 3);
        append(out, snprintf(to, room, spec,
                             is_signed || wide ? (long long)value : (long long)(uint32_t)value));
        return;
    }
    case 'c':
        spec[n] = kind;
        append(out, snprintf(to, room, spec, (int)take_integer(at, false)));
        return;
    case 's':
    case 'p':
        memcpy(&pointer, take(at, sizeof pointer), sizeof pointer);
        spec[n] = kind;
        append(out, snprintf(to, room, spec, pointer));
        return;
    default:
        memcpy(&number, take(at, sizeof number), sizeof number);
        spec[n] = kind;
        append(out, snprintf(to, room, spec, number));
    }
}

#pragma GCC diagnostic pop

int kb_print(const char *format, const void *arguments)
{
    text out = {.n = 0};
    const char *at = arguments;
    int n_converted = 0;
    while (*format && out.n < sizeof out.bytes - 1) {
        if (*format != '%' || format[1] == '%') {
            format += *format == '%';
            out.bytes[out.n++] = *format++;
            continue;
        }
        char spec[SPEC_MAX + 4] = "";
        size_t n = strspn(format + 1, "-+ #0123456789.") + 1;
        memcpy(spec, format, n < SPEC_MAX ? n : SPEC_MAX - 1);
        format += n;
        size_t n_long = strspn(format, "l"), n_length = strspn(format, "lhzjt");
        char kind = format[n_length];
        bool wide = n_long || strcspn(format, "zjt") < n_length;
        if (!kind || !strchr("diuxXocspfFeEgGaA", kind))
            break;
        convert(&out, spec, wide, kind, &at);
        format += n_length + 1;
        n_converted++;
    }
    (void)fwrite(out.bytes, 1, out.n, stdout);
    return n_converted;
}
