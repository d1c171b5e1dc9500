/* Proves that no bytes in place of a library that comes with a call, whatever they say, make the
 * core leave its memory, that a kernel is registered only by bytes with the right digest, and that
 * every refusal has a reason. Bytes are read as changes to the fields of a good library, to any
 * byte before it and to its own head; most are signed again, so that they come past the digest. The
 * code within is the sample's or is refused: what the system's loader does with other code is not
 * the core's. */
#include "fuzz.h"

#include "core/kb_dtype.h"
#include "core/kb_handler.h"
#include "library.h"
#include "sealed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "fuzz_library";

static struct {
    long registered, again, not_found, refused[17];
} counts;

static void change_field(library_text *t, reader *r)
{
    static const char *const functions[] = {"scale", "", "scal", "scales", "kb_module"};
    uint32_t *const fields[] = {&t->version,    &t->n_hidden,  &t->zeroed,
                                &t->value_size, &t->dtypes[0], &t->dtypes[1]};
    uint32_t whole = t->stored_size;
    uint8_t what = byte(r) % 12;
    if (what == 0)
        t->function = functions[byte(r) % 5];
    else if (what == 1)
        t->stored_size = (uint32_t)((uint64_t)number(r) % (whole + 1));
    else if (what == 2)
        t->value_size = byte(r) % 18;
    else
        *fields[what % (sizeof fields / sizeof *fields)] = (uint32_t)number(r);
}

/* A byte before the library, or one of those by which the loader knows for what it is. */
static void change_byte(uint8_t *bytes, size_t size, size_t stored, reader *r)
{
    static const uint8_t head[] = {0, 1, 2, 3, 4, 5, 18, 19}; /* of ELF: magic, class, machine */
    size_t front = size - stored, at = ((size_t)byte(r) << 8 | byte(r));
    if (at % 16 == 0 && stored > 32)
        at = front + head[at / 16 % sizeof head];
    else
        at %= front;
    bytes[at] = byte(r);
}

static kb_status load(const uint8_t *bytes, size_t size, const uint8_t *digest, reader *r,
                      kb_error *err)
{
    bool inserted = true, of_call = byte(r) % 4 == 0;
    kb_status s;
    if (of_call && memcmp(bytes, KB_LIBRARY_MAGIC, 4) != 0) {
        s = KB_NOT_FOUND; /* the handler of a call knows no such format */
    } else {
        s = kb_library_register(bytes, size, digest, NULL, &inserted, err);
        require(s == KB_OK || !inserted, "a kernel of a refused library");
        counts.again += s == KB_OK && !inserted;
    }
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    reader r = {.at = data, .end = data + data_size};
    const uint8_t digest[KB_DIGEST_SIZE] = {byte(&r) % 16};
    library_text t;
    size_t size;
    library_init(&t);
    for (int n = byte(&r) % 3; n > 0; n--)
        change_field(&t, &r);
    uint8_t *bytes = library_write(&t, digest, &size);
    for (int n = byte(&r) % 4; n > 0; n--)
        change_byte(bytes, size, t.stored_size, &r);
    if (byte(&r) % 8) /* of another kernel now and then */
        sealed_sign(bytes, size, digest, KB_DIGEST_SIZE - (byte(&r) == 0));
    kb_error err = {.status = KB_OK};
    const kb_kernel *kernel = NULL;
    kb_status s = load(bytes, size, digest, &r, &err);
    if (s == KB_OK) {
        counts.registered++;
        require(sealed_is_signed(bytes, size, digest, KB_DIGEST_SIZE),
                "a library with a wrong digest");
        require(kb_registry_match(&kb_handler_registry, digest, &kernel, &err) == KB_OK,
                "a kernel that is not known");
        for (uint32_t i = 0; i < kb_kernel_n_buffers(kernel); i++)
            require(kb_dtype_known(kernel->buffers[i].dtype) &&
                        strlen(kernel->buffers[i].name) < size,
                    "a buffer");
    } else if (s == KB_NOT_FOUND) {
        counts.not_found++;
    } else {
        counts.refused[s]++;
        require(err.status == s && strlen(err.message) > 0, "a refusal without a reason");
    }
    free(bytes);
    return 0;
}

bool fuzz_tell(uint64_t n)
{
    printf("fuzz_library: %llu inputs: %ld registered, %ld of them again, %ld damaged, %ld for "
           "elsewhere, %ld of no library\n",
           (unsigned long long)n, counts.registered, counts.again,
           counts.refused[KB_INVALID_ARGUMENT], counts.refused[KB_FAILED_PRECONDITION],
           counts.not_found);
    return counts.registered && counts.again && counts.refused[KB_INVALID_ARGUMENT] &&
           counts.refused[KB_FAILED_PRECONDITION];
}
