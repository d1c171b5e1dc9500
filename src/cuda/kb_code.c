/* Owns the code of GPU functions: one copy for each content, and its loading into the driver. */
#include "cuda/kb_code.h"

#include "core/kb_memory.h"
#include "core/kb_table.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>

struct kb_code {
    kb_link link; /* under the table's lock */
    size_t n_holds;
    size_t size;
    pthread_mutex_t loading;                       /* held while the driver loads */
    kb_cu_library library;                         /* under it; NULL until loaded */
    kb_cu_result (*unload)(kb_cu_library library); /* of the driver that has loaded it */
    alignas(16) char bytes[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kb_table table; /* under the lock */
static size_t n_bytes; /* under the lock */

static kb_code *find(uint64_t hash, const void *bytes, size_t size)
{
    kb_link *at = NULL;
    while ((at = kb_table_find(&table, hash, at))) {
        kb_code *c = (kb_code *)at;
        if (c->size == size && memcmp(c->bytes, bytes, size) == 0)
            return c;
    }
    return NULL;
}

static kb_code *add(uint64_t hash, const void *bytes, size_t size)
{
    kb_code *c = kb_calloc(1, sizeof *c + size + 1); /* a NUL ends images that are text */
    if (!c || pthread_mutex_init(&c->loading, NULL) != 0) {
        kb_free(c);
        return NULL;
    }
    c->link.hash = hash;
    c->size = size;
    memcpy(c->bytes, bytes, size);
    if (kb_table_add(&table, &c->link)) {
        n_bytes += sizeof *c + size;
        return c;
    }
    pthread_mutex_destroy(&c->loading);
    kb_free(c);
    return NULL;
}

kb_code *kb_code_hold(const void *bytes, size_t size)
{
    uint64_t hash = kb_table_hash(bytes, size);
    pthread_mutex_lock(&lock);
    kb_code *c = find(hash, bytes, size);
    if (!c)
        c = add(hash, bytes, size);
    if (c)
        c->n_holds++;
    pthread_mutex_unlock(&lock);
    return c;
}

void kb_code_drop(kb_code *code)
{
    pthread_mutex_lock(&lock);
    bool last = --code->n_holds == 0;
    if (last) {
        kb_table_remove(&table, &code->link);
        n_bytes -= sizeof *code + code->size;
    }
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    if (code->library)
        (void)code->unload(code->library);
    pthread_mutex_destroy(&code->loading);
    kb_free(code);
}

const void *kb_code_bytes(const kb_code *code)
{
    return code->bytes;
}

kb_status kb_code_load(kb_code *code, const kb_driver *cu, const char *what, kb_cu_library *library,
                       kb_error *err)
{
    kb_cu_result result = KB_CU_SUCCESS;
    pthread_mutex_lock(&code->loading);
    if (!code->library) {
        result = cu->cuLibraryLoadData(&code->library, code->bytes, NULL, NULL, 0, NULL, NULL, 0);
        if (result != KB_CU_SUCCESS)
            code->library = NULL;
        code->unload = cu->cuLibraryUnload;
    }
    *library = code->library;
    pthread_mutex_unlock(&code->loading);
    return result == KB_CU_SUCCESS ? KB_OK
                                   : kb_driver_fail(err, cu, result, "cuLibraryLoadData", what);
}

void kb_code_count(size_t *codes, size_t *bytes)
{
    pthread_mutex_lock(&lock);
    *codes = table.n;
    *bytes = n_bytes;
    pthread_mutex_unlock(&lock);
}
