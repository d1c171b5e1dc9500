/* Proves that a reader gives the numbers that are there, and never a byte behind the end: every
 * block has exactly its size, so that AddressSanitizer sees one too many. */
#include "core/kb_reader.h"
#include "kb_test.h"

#include <stdlib.h>

static uint8_t *block_of(const void *bytes, size_t size)
{
    uint8_t *block = malloc(size ? size : 1);
    if (!block)
        abort();
    return memcpy(block, bytes, size);
}

static void test_numbers(void)
{
    const uint8_t bytes[] = {0x78, 0x56, 0x34, 0x92, 0x01, 0,    0,    0,    0,    0,
                             0,    0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    uint8_t *block = block_of(bytes, sizeof bytes);
    kb_reader r = kb_reader_of(block, sizeof bytes);
    CHECK_INT(kb_read_u32(&r), 0x92345678);
    CHECK(kb_read_i64(&r) == INT64_MIN + 1);
    CHECK(kb_read_i64(&r) == -1);
    CHECK(!r.failed);
    CHECK_INT(r.left, 0);
    CHECK_INT(kb_read_u32(&r), 0);
    CHECK(r.failed);
    free(block);
}

/* At every length that is too short all reads give zero, also those behind that would fit. */
static void test_too_short(void)
{
    const uint8_t bytes[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    for (size_t size = 0; size < sizeof bytes; size++) {
        uint8_t *block = block_of(bytes, size);
        kb_reader r = kb_reader_of(block, size);
        CHECK((kb_read_u32(&r) != 0) == (size >= 4));
        int64_t second = kb_read_i64(&r);
        CHECK(size >= 12 ? second == INT64_C(0x0c0b0a0908070605) : r.failed);
        CHECK(kb_read_bytes(&r, 4) == NULL);
        CHECK(r.failed);
        CHECK_PTR(kb_read_bytes(&r, 0), NULL);
        CHECK_INT(kb_read_u32(&r), 0);
        free(block);
    }
    kb_reader r = kb_reader_of(NULL, 0);
    CHECK_INT(kb_read_i64(&r), 0);
    CHECK(r.failed);
}

static void test_bytes(void)
{
    const uint8_t bytes[] = {1, 2, 3};
    kb_reader r = kb_reader_of(bytes, 3);
    CHECK_PTR(kb_read_bytes(&r, 0), bytes);
    CHECK_PTR(kb_read_bytes(&r, 2), bytes);
    CHECK_PTR(kb_read_bytes(&r, SIZE_MAX), NULL);
    CHECK(r.failed);
}

static void test_counts(void)
{
    const struct {
        uint32_t n;
        size_t behind, size;
        bool fits;
    } cases[] = {{0, 0, 8, true},   {1, 8, 8, true},
                 {1, 7, 8, false},  {2, 17, 8, true},
                 {3, 23, 8, false}, {UINT32_MAX, 64, 1, false},
                 {64, 64, 1, true}, {UINT32_MAX, 64, 12, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[4 + 64] = {(uint8_t)cases[i].n, (uint8_t)(cases[i].n >> 8),
                                 (uint8_t)(cases[i].n >> 16), (uint8_t)(cases[i].n >> 24)};
        kb_reader r = kb_reader_of(bytes, 4 + cases[i].behind);
        CHECK_INT(kb_read_count(&r, cases[i].size), cases[i].fits ? cases[i].n : 0);
        CHECK(r.failed != cases[i].fits);
    }
}

static void test_texts(void)
{
    uint32_t size;
    const uint8_t good[] = {3, 0, 0, 0, 'a', 'b', 'c', 0, 0, 0, 0};
    uint8_t *block = block_of(good, sizeof good);
    kb_reader r = kb_reader_of(block, sizeof good);
    const char *text = kb_read_text(&r, &size);
    CHECK_INT(size, 3);
    CHECK(text && memcmp(text, "abc", 3) == 0);
    text = kb_read_text(&r, &size);
    CHECK(text != NULL);
    CHECK_INT(size, 0);
    CHECK(!r.failed);
    free(block);

    const uint8_t holds_nul[] = {3, 0, 0, 0, 'a', 0, 'c'}, too_long[] = {4, 0, 0, 0, 'a', 'b', 'c'};
    r = kb_reader_of(holds_nul, sizeof holds_nul);
    CHECK_PTR(kb_read_text(&r, &size), NULL);
    CHECK(r.failed);
    r = kb_reader_of(too_long, sizeof too_long);
    CHECK_PTR(kb_read_text(&r, &size), NULL);
    CHECK_INT(size, 0);
    CHECK(r.failed);
}

int main(void)
{
    test_numbers();
    test_too_short();
    test_bytes();
    test_counts();
    test_texts();
    return kb_test_end("test_reader");
}
