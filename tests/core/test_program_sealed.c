/* Proves that a program is read as it was written, and is refused where any
 * bit of it, or of the digest of its kernel, is another: most bits of a launch may have either
 * value, and the sum of the images says nothing about them. */
#include "cuda/kb_program.h"
#include "gpu.h"
#include "program.h"
#include "sealed.h"

#include <stdlib.h>

static kb_status read_program(const uint8_t *bytes, size_t size, const void *owner, kb_error *err)
{
    kb_kernel k;
    kb_status s = kb_program_read(bytes, size, owner, false, &k, err);
    if (s == KB_OK)
        k.free_owner(k.owner);
    return s;
}

static void refused(const uint8_t *bytes, size_t size, const void *owner)
{
    kb_error err;
    CHECK_INT(read_program(bytes, size, owner, &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "a kernel's program is damaged, or of another version of kernbridge: ");
    CHECK_HAS(err.message, "the check of ");
}

static void test_damage(void)
{
    uint8_t digest[KB_DIGEST_SIZE];
    program_text p;
    size_t size;
    kb_error err;
    sample_digest(digest, 78);
    program_init(&p);
    uint8_t *bytes = program_write(&p, digest, &size);
    CHECK_INT(read_program(bytes, size, digest, &err), KB_OK);
    sealed_each_part(bytes, size, 1, digest, sizeof digest, refused);
    sealed_each_flip(bytes, size, 1, digest, refused);
    for (size_t i = 0; i < sizeof digest; i++) {
        digest[i] ^= 1;
        refused(bytes, size, digest);
        digest[i] ^= 1;
    }
    free(bytes);
}

int main(void)
{
    test_damage();
    kb_function_free_all();
    return kb_test_end("test_program_sealed");
}
