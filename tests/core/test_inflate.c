/* Proves that DEFLATE data of every kind is decompressed, and that damaged data is refused without
 * a byte outside: every block has exactly its size, so that AddressSanitizer sees one too many.
 * What is compressed here was compressed by zlib. */
#include "core/kb_inflate.h"
#include "inflated.h"
#include "kb_test.h"

#include <stdint.h>
#include <stdlib.h>

enum { TEXT_SIZE = 700, ZEROS_SIZE = 5000 };

/* "abcabcabcabcabcabcabc, and so on" in a block with fixed codes. */
static const uint8_t fixed[] = {0x4b, 0x4c, 0x4a, 0x4e, 0xc4, 0x40, 0x3a, 0x0a, 0x89,
                                0x79, 0x29, 0x0a, 0xc5, 0xf9, 0x0a, 0xf9, 0x79, 0x00};

/* "as it is" in a stored block. */
static const uint8_t stored[] = {0x01, 0x08, 0x00, 0xf7, 0xff, 0x61, 0x73,
                                 0x20, 0x69, 0x74, 0x20, 0x69, 0x73};

/* ZEROS_SIZE zeros. */
static const uint8_t zeros[] = {0xed, 0xc1, 0x31, 0x01, 0x00, 0x00, 0x00, 0xc2, 0xa0, 0xf5, 0x4f,
                                0x6d, 0x0a, 0x3f, 0xa0, 0x00, 0x00, 0x00, 0x00, 0x80, 0xb7, 0x01};

static void make_text(uint8_t text[TEXT_SIZE])
{
    for (int i = 0; i < TEXT_SIZE; i++)
        text[i] = (uint8_t) "kernel\n"[(i * i / 7 + i / 50) % 7];
}

/* Decompresses a part of some data, in blocks of exactly their size. */
static bool inflate(const uint8_t *data, size_t size, uint8_t *to, size_t to_size)
{
    uint8_t *from = malloc(size ? size : 1), *out = malloc(to_size ? to_size : 1);
    if (!from || !out)
        abort();
    memcpy(from, data, size);
    bool whole = kb_inflate(from, size, out, to_size);
    if (whole)
        memcpy(to, out, to_size);
    free(from);
    free(out);
    return whole;
}

static void expect(const uint8_t *data, size_t size, const void *expected, size_t expected_size)
{
    uint8_t got[ZEROS_SIZE + 1];
    CHECK(inflate(data, size, got, expected_size) && memcmp(got, expected, expected_size) == 0);
    CHECK(!inflate(data, size, got, expected_size + 1));
    CHECK(!inflate(data, size, got, expected_size - 1));
    for (size_t n = 0; n < size; n++)
        CHECK(!inflate(data, n, got, expected_size));
    uint8_t longer[512] = {0};
    memcpy(longer, data, size);
    CHECK(!inflate(longer, size + 1, got, expected_size));
}

static void test_kinds_of_blocks(void)
{
    static const uint8_t none[ZEROS_SIZE];
    uint8_t text[TEXT_SIZE];
    make_text(text);
    expect(dynamic, sizeof dynamic, text, sizeof text);
    expect(fixed, sizeof fixed, "abcabcabcabcabcabcabc, and so on", 32);
    expect(stored, sizeof stored, "as it is", 8);
    expect(zeros, sizeof zeros, none, sizeof none);
}

static void test_nothing(void)
{
    const uint8_t empty[] = {0x03, 0x00}; /* a block that ends at once */
    uint8_t to[1];
    CHECK(inflate(empty, sizeof empty, to, 0));
    CHECK(!inflate(empty, sizeof empty, to, 1));
    CHECK(!inflate(empty, 0, to, 0));
}

static void test_damaged(void)
{
    const struct {
        uint8_t bytes[8];
        size_t size;
    } bad[] = {
        {{0x01}, 1},                                   /* stored, without a size */
        {{0x01, 0x00, 0x00, 0xfe, 0xff}, 5},           /* of a size that is not inverted */
        {{0x07}, 1},                                   /* a kind that does not exist */
        {{0x01, 0x02, 0x00, 0xfe, 0xff, 'a', 'b'}, 7}, /* stored, and its size is not inverted */
        {{0x03, 0x02}, 2},                             /* a distance before the beginning */
        {{0x1b, 0x03, 0x00}, 3},                       /* a length that does not exist */
        {{0x05, 0xe0, 0xff, 0xff, 0xff, 0xff}, 6},     /* more codes than there are */
        {{0xfd, 0xff, 0xff}, 3},                       /* too many literals */
    };
    uint8_t to[4];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t n = 0; n <= sizeof to; n++)
            CHECK(!inflate(bad[i].bytes, bad[i].size, to, n));
}

/* Every bit of the data changed in turn: refused, or other bytes, and never one outside. A block
 * need not end with its last byte. */
static void test_changed_bits(void)
{
    uint8_t text[TEXT_SIZE], got[TEXT_SIZE], data[sizeof dynamic];
    make_text(text);
    int n_refused = 0, n_same = 0;
    for (size_t bit = 0; bit < 8 * sizeof dynamic; bit++) {
        memcpy(data, dynamic, sizeof dynamic);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        bool whole = inflate(data, sizeof data, got, sizeof got);
        n_refused += !whole;
        n_same += whole && memcmp(got, text, sizeof text) == 0;
    }
    CHECK(n_refused > 0);
    CHECK(n_same < 8);
}

int main(void)
{
    test_kinds_of_blocks();
    test_nothing();
    test_damaged();
    test_changed_bits();
    return kb_test_end("test_inflate");
}
