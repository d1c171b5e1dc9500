/* Owns the text of errors: formatting into the caller's buffer, names of status codes. */
#include "core/kb_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void write_at(kb_error *err, size_t at, const char *format, va_list args)
{
    if (at < KB_ERROR_CAPACITY - 1)
        vsnprintf(err->message + at, KB_ERROR_CAPACITY - at, format, args);
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

static size_t utf8_size(unsigned char lead)
{
    return lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

const char *kb_error_text(kb_error *err)
{
    size_t length = strlen(err->message), start = length;
    while (start > 0 && ((unsigned char)err->message[start - 1] & 0xC0) == 0x80)
        start--;
    if (start > 0 && length - (start - 1) < utf8_size((unsigned char)err->message[start - 1]))
        err->message[start - 1] = '\0';
    return err->message;
}

const char *kb_status_name(kb_status status)
{
    switch (status) {
#define KB_STATUS_CASE(name, number)                                                               \
    case KB_##name:                                                                                \
        return #name;
        KB_STATUS_LIST(KB_STATUS_CASE)
#undef KB_STATUS_CASE
    }
    return "UNKNOWN";
}
