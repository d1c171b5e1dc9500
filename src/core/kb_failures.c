/* Owns the words for exceptions of code that came without its compiler. */
#include "core/kb_failures.h"

#include "core/kb_boxed.h"
#include "core/kb_memory.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *place_of(const kb_failures *failures, int32_t status)
{
    for (uint32_t i = 0; i < failures->n_places; i++)
        if (failures->places[i].status == status)
            return failures->places[i].text;
    return NULL;
}

/* Appends a message in which values of the call stand. */
static void append_with_values(const char *text, const kb_boxed *values, kb_error *err)
{
    char value[KB_ERROR_CAPACITY];
    while (*text) {
        size_t plain = strcspn(text, (const char[]){KB_FAILURES_VALUE, 0});
        kb_error_append(err, "%.*s", (int)plain, text);
        text += plain;
        if (!*text)
            return;
        char *end;
        size_t index = strtoul(text + 1, &end, 10);
        kb_boxed_write(kb_boxed_item(values, index), *end, value, sizeof value);
        kb_error_append(err, "%s", value);
        text = *end ? end + 1 : end;
    }
}

static void append_message(kb_numba_exception *record, kb_error *err)
{
    if (record->dynamic <= 0) {
        kb_error_append(err, "%s", record->pickle);
        return;
    }
    kb_boxed *(*unwrap)(void *) = (kb_boxed * (*)(void *))(uintptr_t)record->unwrap;
    kb_boxed *values = unwrap(record->payload);
    append_with_values(record->pickle, values, err);
    kb_boxed_free(values);
}

KB_COLD void kb_failures_describe(const kb_failures *failures, int32_t status,
                                  kb_numba_exception *record, const char *source, kb_error *err)
{
    if (status < KB_NUMBA_USER_EXCEPTION || !record) {
        kb_error_append(err, "the kernel failed with status %d", (int)status);
        return;
    }
    const char *place = place_of(failures, status);
    if (!place)
        place = record->pickle + strlen(record->pickle) + 1;
    append_message(record, err);
    if (*place)
        kb_error_append(err, " (%s)", place);
    else
        kb_error_append(err, " (in the kernel at %s)", source);
    if (record->dynamic > 0)
        kb_free(record);
}
