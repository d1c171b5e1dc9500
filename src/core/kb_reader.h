/* A cursor over untrusted bytes: every read is checked, and after the first that does not fit all
 * return zero. Inline; lives on one stack. */
#ifndef KB_READER_H
#define KB_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct kb_reader {
    const uint8_t *at;
    size_t left;
    bool failed;
} kb_reader;

static inline kb_reader kb_reader_of(const void *bytes, size_t size)
{
    return (kb_reader){.at = bytes, .left = size};
}

/* The next `size` bytes, or NULL. */
static inline const void *kb_read_bytes(kb_reader *r, size_t size)
{
    if (r->failed || size > r->left) {
        r->failed = true;
        return NULL;
    }
    const void *bytes = r->at;
    r->at += size;
    r->left -= size;
    return bytes;
}

static inline uint32_t kb_read_u32(kb_reader *r)
{
    const uint8_t *b = kb_read_bytes(r, 4);
    return b ? (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24
             : 0;
}

static inline int64_t kb_read_i64(kb_reader *r)
{
    uint64_t low = kb_read_u32(r), high = kb_read_u32(r);
    return (int64_t)(low | high << 32);
}

/* A number of things of which each takes at least `size` bytes of what is left. */
static inline uint32_t kb_read_count(kb_reader *r, size_t size)
{
    uint32_t n = kb_read_u32(r);
    if (n > r->left / size)
        r->failed = true;
    return r->failed ? 0 : n;
}

/* A text without NUL; NULL if it does not fit or holds one. It ends after `*size` bytes. */
static inline const char *kb_read_text(kb_reader *r, uint32_t *size)
{
    *size = kb_read_count(r, 1);
    const char *text = kb_read_bytes(r, *size);
    if (text && memchr(text, 0, *size))
        r->failed = true;
    return r->failed ? NULL : text;
}

#endif
