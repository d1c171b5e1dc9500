/* How an error of the core becomes one of the host. Inline. */
#ifndef KB_FAILURE_H
#define KB_FAILURE_H

#include "core/kb_error.h"
#include "kernbridge/host.h"

#include <string.h>

_Static_assert((int)KB_HOST_MESSAGE_SIZE >= (int)KB_ERROR_CAPACITY, "a message of the core fits");

/* Copies the error of a status that is not KB_OK to where the host has room for one, or NULL;
 * returns the status. A message without a code gets one. */
static inline kb_status kb_failure_tell(kb_status status, kb_error *err, kb_host_error *to)
{
    if (status == KB_OK || !to)
        return status;
    if (!strstr(err->message, "[KB"))
        (void)kb_error_code(err, status == KB_RESOURCE_EXHAUSTED ? "KB3009" : "KB5108");
    to->status = status;
    const char *text = kb_error_text(err);
    memcpy(to->message, text, strlen(text) + 1);
    return status;
}

#endif
