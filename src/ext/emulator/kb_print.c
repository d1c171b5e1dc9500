/* Owns print: CUDA's vprintf, whose arguments lie one behind the other, each at a multiple of its
 * size (CUDA C++ programming guide, formatted output). A call's text leaves in one piece. */
#include "ext/emulator/kb_thread.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPEC_MAX = 32 };

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
static void convert(FILE *out, char spec[SPEC_MAX + 4], bool wide, char kind, const char **at)
{
    size_t n = strlen(spec);
    spec[n] = kind;
    if (strchr("diuxXo", kind)) {
        int64_t value = take_integer(at, wide);
        bool is_signed = kind == 'd' || kind == 'i';
        memcpy(spec + n, (char[]){'l', 'l', kind}, 3);
        (void)fprintf(out, spec, is_signed || wide ? (long long)value : (long long)(uint32_t)value);
    } else if (kind == 'c') {
        (void)fprintf(out, spec, (int)take_integer(at, false));
    } else if (kind == 's' || kind == 'p') {
        const char *pointer;
        memcpy(&pointer, take(at, sizeof pointer), sizeof pointer);
        (void)fprintf(out, spec, pointer);
    } else {
        double number;
        memcpy(&number, take(at, sizeof number), sizeof number);
        (void)fprintf(out, spec, number);
    }
}

#pragma GCC diagnostic pop

int kb_print(const char *format, const void *arguments)
{
    char *text = NULL;
    size_t size = 0;
    const char *at = arguments;
    int n_converted = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return -1;
    while (*format) {
        if (*format != '%' || format[1] == '%') {
            format += *format == '%';
            (void)putc(*format++, out);
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
        convert(out, spec, wide, kind, &at);
        format += n_length + 1;
        n_converted++;
    }
    (void)fclose(out);
    (void)fwrite(text, 1, size, stdout);
    free(text);
    return n_converted;
}
