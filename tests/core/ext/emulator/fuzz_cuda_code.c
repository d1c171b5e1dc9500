/* Proves that no bytes in place of a CUDA kernel's machine code for the CPU, whatever they say,
 * make the core leave its memory, that what is placed is what the bytes say, and that a change
 * without a new digest is refused. Bytes are read as changes to the fields of a good kernel, to
 * names in its object and to any byte; most are signed again, so that they come past the digest.
 * What was placed is not run. */
#define _GNU_SOURCE /* memmem */
#include "fuzz.h"

#include "cuda_code.h"
#include "object/kb_object.h"
#include "sealed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "fuzz_cuda_code";

static const char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const char other[] = "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static struct {
    long placed, forms[3], refused[17];
} counts;

static void change_field(cuda_code_text *t, reader *r)
{
    uint32_t *const fields[] = {&t->abi, &t->form, &t->shared, &t->stack};
    uint8_t what = byte(r) % 8;
    if (what == 0)
        t->features = number(r);
    else if (what == 1)
        t->form = byte(r) % 4;
    else
        *fields[what % 4] = (uint32_t)number(r);
}

/* Gives what the object defines or needs another name, which is not longer. */
static void rename_symbol(uint8_t *bytes, size_t size, const char *old, const char *name)
{
    size_t room = strlen(old) + 1;
    uint8_t *at = memmem(bytes, size, old, room);
    if (!at || strlen(name) >= room)
        return;
    memset(at, 0, room);
    memcpy(at, name, strlen(name));
}

static void change_name(uint8_t *bytes, size_t size, reader *r)
{
    static const char *const from[] = {"kb_blocks", "kb_fibre", "sqrt"};
    static const char *const to[] = {"kb_fibre", "kb_print", "kb_blocks", "exp", "none", ""};
    uint8_t which = byte(r);
    rename_symbol(bytes, size, from[which % 3], to[byte(r) % 6]);
}

/* The bytes in a block of exactly their size, so that a sanitizer sees a read behind it. */
static uint8_t *part_of(uint8_t *bytes, size_t size)
{
    uint8_t *part = malloc(size ? size : 1);
    require(part != NULL, "no memory");
    memcpy(part, bytes, size);
    free(bytes);
    return part;
}

static void check_placed(const uint8_t *bytes, size_t size)
{
    const kb_hostcuda_code *code = kb_hostcuda_find(digest);
    uint32_t fields[3]; /* form, shared, stack */
    require(code != NULL, "code that is not known");
    require(sealed_is_signed(bytes, size, digest, KB_HOSTCUDA_DIGEST), "code with a wrong digest");
    memcpy(fields, bytes + SEALED_BODY + sizeof(int64_t), sizeof fields);
    require(fields[0] < 3, "an unknown form");
    require(code->threads.shared == fields[1] && code->threads.stack == fields[2], "a size");
    require(code->cooperative == (fields[0] == 2), "whether it is cooperative");
    require(fields[0] ? code->threads.run && !code->blocks : code->blocks && !code->threads.run,
            "what it defines");
    counts.placed++;
    counts.forms[fields[0]]++;
    kb_object_free(code->owner); /* known for ever, and never run */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    reader r = {.at = data, .end = data + data_size};
    cuda_code_text t = {.abi = KB_HOSTCUDA_ABI, .shared = 48, .stack = 96};
    size_t size;
    t.form = byte(&r) % 4 == 0 ? byte(&r) % 3 : 0;
    bool of_threads = t.form;
    for (int n = byte(&r) % 3; n > 0; n--)
        change_field(&t, &r);
    uint8_t *bytes = cuda_code_write(&t, digest, &size);
    if (of_threads) /* a good one */
        rename_symbol(bytes, size, "kb_blocks", "kb_fibre");
    for (int n = byte(&r) % 3; n > 0; n--)
        change_name(bytes, size, &r);
    for (int n = byte(&r) % 3; n > 0; n--)
        bytes[((size_t)byte(&r) << 8 | byte(&r)) % size] = byte(&r);
    if (byte(&r) % 8 == 0) {
        size = ((size_t)byte(&r) << 8 | byte(&r)) % size;
        bytes = part_of(bytes, size);
    }
    uint8_t seal = byte(&r) % 16; /* of another kernel, of none, or its own */
    if (seal != 1)
        sealed_sign(bytes, size, seal ? digest : other, KB_HOSTCUDA_DIGEST);
    kb_error err = {.status = KB_OK};
    kb_status s = kb_cuda_code_load(digest, bytes, size, "op", &err);
    if (s == KB_OK) {
        check_placed(bytes, size);
    } else {
        counts.refused[s]++;
        require(err.status == s && strncmp(err.message, "op: ", 4) == 0,
                "a refusal that does not name the kernel");
    }
    free(bytes);
    return 0;
}

bool fuzz_tell(uint64_t n)
{
    printf("fuzz_cuda_code: %llu inputs: %ld placed (%ld blocks, %ld threads, %ld cooperative), "
           "%ld damaged, %ld for elsewhere\n",
           (unsigned long long)n, counts.placed, counts.forms[0], counts.forms[1], counts.forms[2],
           counts.refused[KB_INVALID_ARGUMENT], counts.refused[KB_FAILED_PRECONDITION]);
    return counts.forms[0] && counts.forms[1] && counts.forms[2] &&
           counts.refused[KB_INVALID_ARGUMENT] && counts.refused[KB_FAILED_PRECONDITION];
}
