/* Owns print: CUDA's vprintf, whose arguments lie one behind the other, each at a multiple of its
 * size (CUDA C++ programming guide, formatted output). A call's text leaves in one piece. */
#include "ext/emulator/kb_thread.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPEC_MAX = 32 };

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

/* `spec` is "%" and flags, width and precision, without lengths, and NULs up to its end. */
static void convert(FILE *out, char spec[SPEC_MAX + 4], bool wide, char kind, const char **at)
{
    union {
        int64_t wide;
        int32_t narrow;
        const char *pointer;
        double number;
    } value;
    bool is_integer = strchr("diuxXo", kind), is_narrow = kind == 'c' || (is_integer && !wide);
    size_t size = is_narrow ? sizeof value.narrow : sizeof value;
    *at += (size - (uintptr_t)*at % size) % size;
    memcpy(&value, *at, size);
    *at += size;
    size_t n = strlen(spec);
    spec[n] = 'j'; /* the length of what is wide */
    spec[n + (is_integer && wide)] = kind;
    if (is_narrow)
        (void)fprintf(out, spec, value.narrow);
    else if (is_integer)
        (void)fprintf(out, spec, (intmax_t)value.wide);
    else if (kind == 's' || kind == 'p')
        (void)fprintf(out, spec, value.pointer);
    else
        (void)fprintf(out, spec, value.number);
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
