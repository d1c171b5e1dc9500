/* Proves SHA-256 by the examples of FIPS 180-4, whatever the pieces are that the bytes come in. */
#include "core/kb_checksum.h"
#include "kb_test.h"

#include <stdlib.h>

static void check(const char *bytes, size_t size, size_t piece, const char *expected)
{
    kb_sha256 h;
    uint8_t digest[KB_SHA256_SIZE];
    char text[2 * KB_SHA256_SIZE + 1];
    kb_sha256_begin(&h);
    for (size_t at = 0; at < size; at += piece)
        kb_sha256_add(&h, bytes + at, size - at < piece ? size - at : piece);
    kb_sha256_end(&h, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    CHECK_TEXT(text, expected);
}

static void test_examples(void)
{
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    check("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    for (size_t piece = 1; piece <= 64; piece++) {
        check("abc", 3, piece, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check(two_blocks, sizeof two_blocks - 1, piece,
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }
}

static void test_a_million(void)
{
    enum { MILLION = 1000000 };
    char *bytes = malloc(MILLION);
    if (!bytes)
        abort();
    memset(bytes, 'a', MILLION);
    const size_t pieces[] = {MILLION, 4099, 63, 64, 65};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        check(bytes, MILLION, pieces[i],
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(bytes);
}

/* Every length around the ends of a block: the padding takes one block or two. */
static void test_lengths(void)
{
    const struct {
        size_t size;
        const char *expected;
    } cases[] = {
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
    };
    char bytes[65];
    memset(bytes, 'a', sizeof bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(bytes, cases[i].size, 7, cases[i].expected);
}

int main(void)
{
    test_examples();
    test_a_million();
    test_lengths();
    return kb_test_end("test_sha256");
}
