/* Proves that DEFLATE data of every kind is decompressed, and that damaged data is refused without
 * a byte outside: every block has exactly its size, so that AddressSanitizer sees one too many.
 * What is compressed here was compressed by zlib. */
#include "core/kb_inflate.h"
#include "kb_test.h"

#include <stdint.h>
#include <stdlib.h>

enum { TEXT_SIZE = 700, ZEROS_SIZE = 5000 };

/* The text of make_text, in a block with codes of its own. */
static const uint8_t dynamic[] = {
    0x95, 0x91, 0x21, 0x16, 0x44, 0x31, 0x08, 0x03, 0x3d, 0xf7, 0x44, 0xc1, 0x43, 0x70, 0x7f, 0xb1,
    0x49, 0x3b, 0xe6, 0xbb, 0x2d, 0xaa, 0x65, 0x78, 0x04, 0x42, 0x55, 0xe5, 0x4e, 0xd7, 0x66, 0x4d,
    0x4c, 0x65, 0x46, 0xea, 0x19, 0xad, 0x08, 0x11, 0x7d, 0x01, 0x5b, 0x3d, 0x22, 0x2a, 0x57, 0xbd,
    0xd2, 0xd3, 0x22, 0x99, 0x4d, 0x3e, 0x14, 0x74, 0x02, 0x9c, 0xa2, 0xcd, 0x3c, 0xf5, 0x16, 0x08,
    0x91, 0xde, 0x20, 0x5f, 0x75, 0x94, 0xfd, 0x01, 0x58, 0x42, 0xc4, 0x91, 0x6d, 0x01, 0x09, 0x2f,
    0xd2, 0xdf, 0x4e, 0x00, 0x4b, 0x88, 0x38, 0x32, 0x8a, 0x59, 0x91, 0xa6, 0xd3, 0xdc, 0x4e, 0x00,
    0x4b, 0x88, 0x38, 0xae, 0x80, 0x67, 0x45, 0x9a, 0x4e, 0x02, 0x8c, 0xca, 0x6e, 0x98, 0x61, 0x37,
    0x98, 0x15, 0x69, 0x3a, 0x19, 0xdc, 0x51, 0xd9, 0x0d, 0x33, 0x8e, 0x7b, 0x0f, 0xb6, 0x72, 0x87,
    0x07, 0x5b, 0xbf, 0xee, 0xfd, 0x63, 0x2b, 0x77, 0x78, 0xb0, 0x95, 0x3b, 0x3c, 0xd8, 0xca, 0x1d,
    0x1e, 0x6c, 0x65, 0xb9, 0x07, 0x5b, 0xb9, 0xc3, 0x0f};

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
