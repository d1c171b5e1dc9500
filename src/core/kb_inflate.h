/* Decompression of raw DEFLATE data (RFC 1951), which is not trusted. Any thread may enter. */
#ifndef KB_INFLATE_H
#define KB_INFLATE_H

#include <stdbool.h>
#include <stddef.h>

/* What a byte of DEFLATE data becomes at most: a pair of one bit each stands for 258 bytes. */
enum { KB_INFLATE_RATIO_MAX = 1032 };

/* Fills `to` with `to_size` bytes. False unless `from` is well-formed and stands for exactly that
 * many; the contents of `to` are undefined then. Allocates nothing. */
bool kb_inflate(const void *from, size_t from_size, void *to, size_t to_size);

#endif
