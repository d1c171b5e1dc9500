/* Owns the words for exceptions of code that came without its compiler. */
#include "core/kb_failures.h"

#include "core/kb_memory.h"

#include <stdatomic.h>
#include <string.h>

static _Atomic(kb_failures_writer *) writer; /* NULL without Python */

static const char *place_of(const kb_failures *failures, int32_t status)
{
    for (uint32_t i = 0; i < failures->n_places; i++)
        if (failures->places[i].status == status)
            return failures->places[i].text;
    return NULL;
}

void kb_failures_set_writer(kb_failures_writer *fn)
{
    atomic_store(&writer, fn);
}

kb_failures_writer *kb_failures_get_writer(void)
{
    return atomic_load(&writer);
}

static void append_without_values(const char *text, kb_error *err)
{
    while (*text) {
        size_t plain = strcspn(text, (const char[]){KB_FAILURES_VALUE, 0});
        kb_error_append(err, "%.*s%s", (int)plain, text, text[plain] ? "..." : "");
        text += plain;
        text += *text ? 1 + strspn(text + 1, "0123456789") : 0;
        text += *text ? 1 : 0; /* the conversion */
    }
}

static void append_message(kb_numba_exception *record, kb_error *err)
{
    char message[KB_ERROR_CAPACITY];
    kb_failures_writer *write = kb_failures_get_writer();
    if (record->dynamic <= 0) {
        kb_error_append(err, "%s", record->pickle);
        return;
    }
    if (write && write(record, message, sizeof message)) {
        kb_error_append(err, "%s", message);
        return;
    }
    if (!write) /* it makes nothing (see object/kb_provided.c), and releases the payload */
        ((void *(*)(void *))(uintptr_t)record->unwrap)(record->payload);
    append_without_values(record->pickle, err);
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
