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
    int64_t word = 0; /* whose lower half comes first */
    size_t size = wide ? sizeof word : sizeof(int32_t);
    memcpy(&word, take(at, size), size);
    return wide ? word : (int32_t)word;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

/* `spec` is "%" and flags, width and precision, without lengths, and NULs up to its end. */
static void convert(text *out, char spec[SPEC_MAX + 4], bool wide, char kind, const char **at)
{
    char *to = out->bytes + out->n;
    size_t room = sizeof out->bytes - out->n, n = strlen(spec);
    int made;
    spec[n] = kind;
    if (strchr("diuxXo", kind)) {
        int64_t value = take_integer(at, wide);
        bool is_signed = kind == 'd' || kind == 'i';
        memcpy(spec + n, (char[]){'l', 'l', kind}, 3);
        made = snprintf(to, room, spec,
                        is_signed || wide ? (long long)value : (long long)(uint32_t)value);
    } else if (kind == 'c') {
        made = snprintf(to, room, spec, (int)take_integer(at, false));
    } else if (kind == 's' || kind == 'p') {
        const char *pointer;
        memcpy(&pointer, take(at, sizeof pointer), sizeof pointer);
        made = snprintf(to, room, spec, pointer);
    } else {
        double number;
        memcpy(&number, take(at, sizeof number), sizeof number);
        made = snprintf(to, room, spec, number);
    }
    if (made > 0)
        out->n += (size_t)made < room - 1 ? (size_t)made : room - 1;
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
