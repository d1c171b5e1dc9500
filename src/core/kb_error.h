/* Status codes and the message that goes with them. The caller owns the kb_error; nothing here
 * allocates, so an error can always be reported. Any thread may enter. */
#ifndef KB_ERROR_H
#define KB_ERROR_H

#include "kernbridge/kernbridge.h" /* kb_status: the codes of user code are ours */

#include <stddef.h>

enum { KB_ERROR_CAPACITY = 2048 };

/* `message` is meaningful only after a function returned something other than KB_OK. */
typedef struct kb_error {
    kb_status status;
    char message[KB_ERROR_CAPACITY];
} kb_error;

/* Off the path of a call that succeeds: the compiler keeps such code out of its way. KB_LIKELY
 * marks the branches where it would guess wrong. */
#define KB_COLD      __attribute__((cold, noinline))
#define KB_LIKELY(x) __builtin_expect(!!(x), 1)

/* Writes the message (cut at the capacity) and returns `status`, so that a check is one line:
 *     return kb_error_set(err, KB_NOT_FOUND, "no kernel %s", name); */
KB_COLD kb_status kb_error_set(kb_error *err, kb_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends to the message that is there; the status stays. */
void kb_error_append(kb_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts " [KB3001]", the code of a mistake that the documentation explains, at the end of the first
 * line of the message, which is cut where there is no room. Returns the error's status. */
KB_COLD kb_status kb_error_code(kb_error *err, const char *code);

/* Adds to the first line, in front of its code. A note that does not fit is left out. */
KB_COLD void kb_error_note(kb_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The message as it leaves the library: UTF-8, whatever user code put into it, since readers refuse
 * anything else. See kb_utf8.h. */
KB_COLD const char *kb_error_text(kb_error *err);

/* "INVALID_ARGUMENT" for KB_INVALID_ARGUMENT; "UNKNOWN" for a number that is no status. */
const char *kb_status_name(kb_status status);

#endif
