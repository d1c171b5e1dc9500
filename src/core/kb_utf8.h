/* Text of any bytes as UTF-8: the readers of messages refuse anything else. Any thread may enter.
 */
#ifndef KB_UTF8_H
#define KB_UTF8_H

#include <stddef.h>

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
