/* Proves that no bytes in place of a kernel's machine code, whatever they say, make the core leave
 * its memory. Bytes are read as changes to the fields of a good kernel and to its bytes, most with
 * a digest that is right, so that they come past it. What was placed is not run. */
#include "fuzz.h"

#include "host_code.h"
#include "sealed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "fuzz_host_code";

static struct {
    long read, refused[17];
} counts;

static void change_field(host_code_text *t, reader *r)
{
    int which = byte(r) % HOST_CODE_BUFFERS;
    uint32_t *const fields[] = {
        &t->version,
        &t->object_size,
        &t->n_inputs,
        &t->n_outputs,
        &t->n_hidden,
        &t->n_places,
        &t->places[which % HOST_CODE_PLACES].status,
        (uint32_t *)&t->buffers[which].dtype,
        (uint32_t *)&t->buffers[which].rank,
    };
    uint8_t what = byte(r);
    if (what % 16 == 15)
        t->features = number(r);
    else
        *fields[what % (sizeof fields / sizeof *fields)] = (uint32_t)number(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    reader r = {.at = data, .end = data + data_size};
    const uint8_t digest[KB_DIGEST_SIZE] = {1};
    host_code_text t;
    size_t size;
    host_code_init(&t);
    for (int n = byte(&r) % 3; n > 0; n--)
        change_field(&t, &r);
    uint8_t *bytes = host_code_write(&t, digest, &size);
    for (int n = byte(&r) % 3; n > 0; n--)
        bytes[((size_t)byte(&r) << 8 | byte(&r)) % size] = byte(&r);
    if (byte(&r) % 8)
        sealed_sign(bytes, size, digest, KB_DIGEST_SIZE);
    kb_error err = {.status = KB_OK};
    kb_kernel kernel;
    kb_status s = kb_host_code_read(bytes, size, digest, NULL, &kernel, &err);
    free(bytes);
    if (s == KB_OK) {
        counts.read++;
        for (uint32_t i = 0; i < kb_kernel_n_buffers(&kernel); i++)
            require(strlen(kernel.buffers[i].name) < size, "the name of a buffer");
        kernel.free_owner(kernel.owner);
    } else {
        counts.refused[s]++;
        require(err.status == s && err.message[0], "a refusal without a reason");
    }
    return 0;
}

bool fuzz_tell(uint64_t n)
{
    printf("fuzz_host_code: %llu inputs: %ld read, %ld damaged, %ld for elsewhere\n",
           (unsigned long long)n, counts.read, counts.refused[KB_INVALID_ARGUMENT],
           counts.refused[KB_FAILED_PRECONDITION]);
    return counts.read && counts.refused[KB_INVALID_ARGUMENT] &&
           counts.refused[KB_FAILED_PRECONDITION];
}
