/* Owns the machine code of kernels for the CPU, by the digests of their images. */
#include "hostcuda/kb_hostcuda.h"

#include "core/kb_memory.h"
#include "core/kb_table.h"
#include "cuda/kb_stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct known {
    kb_link link;
    char digest[KB_HOSTCUDA_DIGEST];
    kb_hostcuda_code code;
    kb_hostcuda_counts counts;
} known;

static _Atomic(kb_hostcuda_compiler *) compiler;
static _Atomic(kb_hostcuda_loader *) loader;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kb_table codes; /* of known, under the lock; never freed */

void kb_hostcuda_set_compiler(kb_hostcuda_compiler *given)
{
    atomic_store(&compiler, given);
}

void kb_hostcuda_set_loader(kb_hostcuda_loader *given)
{
    atomic_store(&loader, given);
}

const kb_hostcuda_code *kb_hostcuda_find(const char digest[KB_HOSTCUDA_DIGEST])
{
    const kb_hostcuda_code *found = NULL;
    uint64_t hash = kb_table_hash(digest, KB_HOSTCUDA_DIGEST);
    pthread_mutex_lock(&lock);
    kb_link *at = NULL;
    while (!found && (at = kb_table_find(&codes, hash, at))) {
        const known *c = (const known *)at;
        if (memcmp(c->digest, digest, sizeof c->digest) == 0)
            found = &c->code;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool kb_hostcuda_has(const char digest[KB_HOSTCUDA_DIGEST])
{
    return kb_hostcuda_find(digest) != NULL;
}

kb_status kb_hostcuda_add(const char digest[KB_HOSTCUDA_DIGEST], const kb_hostcuda_code *code,
                          kb_error *err)
{
    known *c = kb_calloc(1, sizeof *c);
    if (!c)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for the code of a kernel");
    memcpy(c->digest, digest, sizeof c->digest);
    c->code = *code;
    c->code.counts = kb_stream_debug() & KB_DEBUG_COUNT_LAUNCHES ? &c->counts : NULL;
    c->link.hash = kb_table_hash(digest, KB_HOSTCUDA_DIGEST);
    pthread_mutex_lock(&lock);
    bool added = kb_table_add(&codes, &c->link);
    pthread_mutex_unlock(&lock);
    if (added && code->threads.checked)
        kb_stream_set_checked();
    if (added)
        return KB_OK;
    kb_free(c);
    return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for the code of a kernel");
}

/* Compares the number of the ABI in an image with ours: code that was generated for another one may
 * crash. */
static kb_status check_abi(const kb_image *image, const char *what, kb_error *err)
{
    static const char line[] = "\n" KB_HOSTCUDA_ABI_LINE;
    enum { DECIMAL = 10 };
    const char *at = (const char *)image->bytes + KB_HOSTCUDA_DIGEST; /* ends in NUL */
    if (strncmp(at, line, sizeof line - 1) != 0)
        return kb_error_set(err, KB_FAILED_PRECONDITION,
                            "%s: the program's code for the CPU was generated without a number of "
                            "its ABI, and this kernbridge has ABI %d: export the program again "
                            "with this version",
                            what, KB_HOSTCUDA_ABI);
    long abi = strtol(at + sizeof line - 1, NULL, DECIMAL);
    if (abi != KB_HOSTCUDA_ABI)
        return kb_error_set(err, KB_FAILED_PRECONDITION,
                            "%s: the program's code for the CPU was generated for ABI %ld of "
                            "kernbridge, and this kernbridge has ABI %d: export the program again "
                            "with this version",
                            what, abi, KB_HOSTCUDA_ABI);
    return KB_OK;
}

static const kb_image *find_image(const kb_function *function, uint32_t cc)
{
    for (uint32_t i = 0; i < function->n_images; i++)
        if (function->images[i].cc == cc)
            return &function->images[i];
    return NULL;
}

bool kb_hostcuda_is_checked(const kb_function *function)
{
    const kb_image *image = find_image(function, KB_HOSTCUDA_CC);
    bool has_digest = image && image->size > KB_HOSTCUDA_DIGEST;
    const kb_hostcuda_code *code = has_digest ? kb_hostcuda_find(image->bytes) : NULL;
    return code && code->threads.checked;
}

/* KB_NOT_FOUND if the function has no machine code. */
static kb_status load(const kb_function *function, const kb_image *image, const char *what,
                      kb_error *err)
{
    const kb_image *code = find_image(function, KB_HOSTCUDA_CODE_CC);
    kb_hostcuda_loader *fn = atomic_load(&loader);
    return code && fn ? fn(image->bytes, code->bytes, code->size, what, err) : KB_NOT_FOUND;
}

static kb_status compile(const kb_image *image, const char *what, kb_error *err)
{
    kb_hostcuda_compiler *fn = atomic_load(&compiler);
    if (fn)
        return fn(image->bytes, image->size, err);
    return kb_error_set(err, KB_FAILED_PRECONDITION,
                        "%s: nothing here compiles a CUDA kernel for the CPU", what);
}

kb_status kb_hostcuda_provide(const kb_function *function, const char *what, kb_error *err)
{
    const kb_image *image = find_image(function, KB_HOSTCUDA_CC);
    if (!image || image->size <= KB_HOSTCUDA_DIGEST ||
        ((const char *)image->bytes)[image->size - 1] != '\0')
        return kb_error_set(err, KB_FAILED_PRECONDITION,
                            "%s: the program has no code for the CPU; lower it again for this "
                            "platform",
                            what);
    kb_status s = check_abi(image, what, err);
    if (s != KB_OK || kb_hostcuda_find(image->bytes))
        return s;
    s = load(function, image, what, err);
    if (s == KB_NOT_FOUND)
        return compile(image, what, err);
    kb_error other;
    if (s != KB_FAILED_PRECONDITION || compile(image, what, &other) == KB_OK)
        return s == KB_FAILED_PRECONDITION ? KB_OK : s;
    kb_error_append(err, ". Nor can the kernel be compiled again: %s", other.message);
    return s;
}
