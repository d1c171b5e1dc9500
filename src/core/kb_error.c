/* Owns the text of errors: formatting into the caller's buffer, names of status codes. */
#include "core/kb_error.h"

#include "core/kb_utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

kb_status kb_error_code(kb_error *err, const char *code)
{
    char rest[KB_ERROR_CAPACITY] = "", shown[32];
    size_t first = strcspn(err->message, "\n");
    size_t n = (size_t)snprintf(shown, sizeof shown, " [%s]", code);
    if (first > KB_ERROR_CAPACITY - 1 - n)
        first = kb_utf8_whole(err->message, KB_ERROR_CAPACITY - 1 - n);
    else
        memcpy(rest, err->message + first, strlen(err->message + first) + 1);
    err->message[first] = '\0';
    kb_error_append(err, "%s%s", shown, rest);
    return err->status;
}

void kb_error_note(kb_error *err, const char *format, ...)
{
    enum { CODE = sizeof " [KB3001]" - 1 };
    char note[96], rest[KB_ERROR_CAPACITY];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(note, sizeof note, format, args);
    va_end(args);
    if (strlen(err->message) + strlen(note) >= KB_ERROR_CAPACITY)
        return;
    size_t at = strcspn(err->message, "\n");
    if (at >= CODE && strncmp(err->message + at - CODE, " [KB", 4) == 0)
        at -= CODE;
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
