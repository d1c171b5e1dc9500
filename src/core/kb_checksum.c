/* Owns the compression of blocks, and the check of machine code before it is read. */
#include "core/kb_checksum.h"

#include <string.h>

static const uint32_t ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

enum { LENGTH_SIZE = 8, BITS_PER_BYTE = 8 };

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void compress(uint32_t state[8], const uint8_t block[KB_SHA256_BLOCK])
{
    uint32_t w[64], s[8];
    for (size_t i = 0; i < 16; i++) {
        const uint8_t *b = block + 4 * i;
        w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] +
               (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t sum1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t sum0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        uint32_t t = s[7] + sum1 + choice + ROUND[i] + w[i];
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t;
        s[0] = t + sum0 + majority;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void kb_sha256_begin(kb_sha256 *h)
{
    *h = (kb_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                               0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void kb_sha256_add(kb_sha256 *h, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        size_t used = (size_t)(h->size % KB_SHA256_BLOCK), room = KB_SHA256_BLOCK - used;
        size_t n = size < room ? size : room;
        memcpy(h->block + used, at, n);
        h->size += n;
        at += n;
        size -= n;
        if (n == room)
            compress(h->state, h->block);
    }
}

void kb_sha256_end(kb_sha256 *h, uint8_t digest[KB_SHA256_SIZE])
{
    static const uint8_t padding[KB_SHA256_BLOCK] = {0x80};
    uint8_t length[LENGTH_SIZE];
    uint64_t bits = h->size * BITS_PER_BYTE;
    for (int i = 0; i < LENGTH_SIZE; i++)
        length[i] = (uint8_t)(bits >> (BITS_PER_BYTE * (LENGTH_SIZE - 1 - i)));
    size_t used = (size_t)(h->size % KB_SHA256_BLOCK), end = KB_SHA256_BLOCK - LENGTH_SIZE;
    kb_sha256_add(h, padding, used < end ? end - used : KB_SHA256_BLOCK + end - used);
    kb_sha256_add(h, length, sizeof length);
    for (int i = 0; i < KB_SHA256_SIZE; i++)
        digest[i] = (uint8_t)(h->state[i / 4] >> (24 - BITS_PER_BYTE * (i % 4)));
}

const char *kb_checksum_read(kb_checksum *seal, const char *magic, kb_reader *from)
{
    const void *first = kb_read_bytes(from, strlen(magic));
    seal->version = kb_read_u32(from);
    seal->sha = kb_read_bytes(from, KB_SHA256_SIZE);
    return first && memcmp(first, magic, strlen(magic)) == 0 ? NULL : "its first bytes";
}

const char *kb_checksum_check(const kb_checksum *seal, const void *owner, size_t size,
                              const kb_reader *from)
{
    if (!seal->sha)
        return "its length";
    uint8_t computed[KB_SHA256_SIZE];
    kb_sha256 h;
    kb_sha256_begin(&h);
    kb_sha256_add(&h, owner, size);
    kb_sha256_add(&h, from->at, from->left);
    kb_sha256_end(&h, computed);
    return memcmp(seal->sha, computed, sizeof computed) == 0 ? NULL : "its digest";
}
