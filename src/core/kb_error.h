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
 * line of the message, which is cut where there is no room, unless that line has a code already.
 * Returns the error's status. */
KB_COLD kb_status kb_error_code(kb_error *err, const char *code);

/* Adds to the first line, in front of its code. A note that does not fit is left out. */
KB_COLD void kb_error_note(kb_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The message as it leaves the library: UTF-8, whatever user code put into it, since readers refuse
 * anything else. */
KB_COLD const char *kb_error_text(kb_error *err);

/* Bytes of the character at `text`, or 0 if the `size` bytes there begin with none. */
size_t kb_utf8_width(const char *text, size_t size);

/* The part of a text that was cut at `size` which ends with a whole character: `size`, or up to 3
 * bytes less. */
size_t kb_utf8_whole(const char *text, size_t size);

/* Copies `size` bytes to `to`, which has room for `capacity` > 0 and gets a NUL at its end. A byte
 * that belongs to no character, and a NUL, are written as \xNN. What does not fit is left out; no
 * character and no \xNN is cut. Returns the length. */
size_t kb_utf8_escape(char *to, size_t capacity, const char *text, size_t size);

#endif
