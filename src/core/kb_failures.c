/* Owns the words for exceptions of code that came without its compiler. */
#include "core/kb_failures.h"

#include <stddef.h>
#include <string.h>

static const char *place_of(const kb_failures *failures, int32_t status)
{
    for (uint32_t i = 0; i < failures->n_places; i++)
        if (failures->places[i].status == status)
            return failures->places[i].text;
    return NULL;
}

KB_COLD void kb_failures_describe(const kb_failures *failures, int32_t status,
                                  const kb_numba_exception *record, const char *source,
                                  kb_error *err)
{
    if (status < KB_NUMBA_USER_EXCEPTION || !record) {
        kb_error_append(err, "the kernel failed with status %d", (int)status);
        return;
    }
    const char *text = record->pickle, *place = place_of(failures, status);
    if (!place)
        place = text + strlen(text) + 1;
    if (*place)
        kb_error_append(err, "%s (%s)", text, place);
    else
        kb_error_append(err, "%s (in the kernel at %s)", text, source);
}
