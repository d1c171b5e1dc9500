/* Proves that no bytes in place of DEFLATE data make the core leave its memory. Bytes are read as a
 * size, as changes to good data, and as data of their own. */
#include "fuzz.h"

#include "core/kb_inflate.h"
#include "inflated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "fuzz_inflate";

static struct {
    long whole, refused;
} counts;

static void inflate(const uint8_t *data, size_t size, size_t to_size)
{
    uint8_t *from = malloc(size ? size : 1), *to = malloc(to_size ? to_size : 1);
    if (!from || !to)
        abort();
    memcpy(from, data, size);
    bool whole = kb_inflate(from, size, to, to_size);
    ++*(whole ? &counts.whole : &counts.refused);
    require(!whole || to_size <= size * KB_INFLATE_RATIO_MAX, "more bytes than there can be");
    free(from);
    free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reader r = {.at = data, .end = data + size};
    uint8_t changed[sizeof dynamic];
    memcpy(changed, dynamic, sizeof dynamic);
    size_t n_changed = sizeof dynamic, to_size = 700;
    for (int n = byte(&r) % 4; n > 0; n--)
        changed[byte(&r) % sizeof dynamic] ^= (uint8_t)(1 << byte(&r) % 8);
    if (byte(&r) % 4 == 0)
        n_changed = byte(&r) % (sizeof dynamic + 1);
    if (byte(&r) % 4 == 0)
        to_size = (size_t)byte(&r) << 2;
    inflate(changed, n_changed, to_size);
    inflate(r.at, (size_t)(r.end - r.at), to_size);
    return 0;
}

bool fuzz_tell(uint64_t n)
{
    printf("fuzz_inflate: %llu inputs: %ld whole, %ld refused\n", (unsigned long long)n,
           counts.whole, counts.refused);
    return counts.whole && counts.refused;
}
