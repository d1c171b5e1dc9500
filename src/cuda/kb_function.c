/* Owns the table of GPU functions, by digest: who holds them, and their release. */
#include "cuda/kb_function.h"

#include "core/kb_memory.h"

#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kb_table table; /* under the lock */
static size_t n_bytes; /* under the lock */
static _Atomic(size_t) n_loads;

static kb_function *find(const uint8_t digest[KB_DIGEST_SIZE])
{
    kb_link *at = NULL;
    while ((at = kb_table_find(&table, (uint64_t)kb_digest_key(digest), at))) {
        kb_function *f = (kb_function *)at;
        if (memcmp(f->digest, digest, KB_DIGEST_SIZE) == 0)
            return f;
    }
    return NULL;
}

static void release(kb_function *f)
{
    for (uint32_t i = 0; i < f->n_images; i++)
        if (f->codes[i])
            kb_code_drop(f->codes[i]);
    pthread_mutex_destroy(&f->loading);
    kb_free(f);
}

static bool hold_codes(kb_function *f, const kb_function *from, kb_image *images)
{
    for (uint32_t i = 0; i < from->n_images; i++) {
        f->codes[i] = kb_code_hold(from->images[i].bytes, from->images[i].size);
        if (!f->codes[i])
            return false;
        images[i] = from->images[i];
        images[i].bytes = kb_code_bytes(f->codes[i]);
    }
    return true;
}

/* One block: the function, its images' table, the sizes of parameters, the entry. */
static kb_function *copy(const kb_function *from)
{
    size_t images = from->n_images * sizeof(kb_image);
    size_t sizes = from->n_sizes * sizeof *from->sizes;
    size_t entry = strlen(from->entry) + 1;
    size_t size = sizeof(kb_function) + images + sizes + entry;
    kb_function *f = kb_calloc(1, size);
    if (!f || pthread_mutex_init(&f->loading, NULL) != 0) {
        kb_free(f);
        return NULL;
    }
    char *at = (char *)(f + 1);
    memcpy(f->digest, from->digest, KB_DIGEST_SIZE);
    f->link.hash = (uint64_t)kb_digest_key(from->digest);
    f->size = size;
    f->n_words = from->n_words;
    f->n_sizes = from->n_sizes;
    f->shared = from->shared;
    f->n_images = from->n_images;
    f->images = (kb_image *)at;
    if (sizes)
        f->sizes = memcpy(at + images, from->sizes, sizes);
    f->entry = memcpy(at + images + sizes, from->entry, entry);
    if (hold_codes(f, from, (kb_image *)at))
        return f;
    release(f);
    return NULL;
}

static kb_function *add(const kb_function *from)
{
    kb_function *f = copy(from);
    if (!f)
        return NULL;
    if (!kb_table_add(&table, &f->link)) {
        release(f);
        return NULL;
    }
    n_bytes += f->size;
    return f;
}

static bool equal(const kb_function *a, const kb_function *b)
{
    bool same = a->n_words == b->n_words && a->n_sizes == b->n_sizes && a->shared == b->shared &&
                a->n_images == b->n_images && strcmp(a->entry, b->entry) == 0;
    for (uint32_t i = 0; same && i < a->n_sizes; i++)
        same = a->sizes[i] == b->sizes[i];
    for (uint32_t i = 0; same && i < a->n_images; i++)
        same = a->images[i].cc == b->images[i].cc && a->images[i].size == b->images[i].size &&
               memcmp(a->images[i].bytes, b->images[i].bytes, a->images[i].size) == 0;
    return same;
}

kb_status kb_function_hold(const kb_function *from, kb_function **function, kb_error *err)
{
    pthread_mutex_lock(&lock);
    kb_function *f = find(from->digest);
    bool differs = f && !equal(f, from);
    if (!f)
        f = add(from);
    if (f && !differs)
        f->n_holds++;
    pthread_mutex_unlock(&lock);
    *function = differs ? NULL : f;
    if (differs)
        return kb_error_set(err, KB_ALREADY_EXISTS,
                            "the image of %s differs from one of the same digest: the program is "
                            "damaged",
                            from->entry);
    return f ? KB_OK
             : kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for the image of %s",
                            from->entry);
}

void kb_function_drop(kb_function *function)
{
    pthread_mutex_lock(&lock);
    bool last = --function->n_holds == 0;
    if (last) {
        kb_table_remove(&table, &function->link);
        n_bytes -= function->size;
    }
    pthread_mutex_unlock(&lock);
    if (last)
        release(function);
}

void kb_function_count_load(void)
{
    atomic_fetch_add(&n_loads, 1);
}

kb_function_stats kb_function_count(void)
{
    kb_function_stats stats;
    pthread_mutex_lock(&lock);
    stats.functions = table.n;
    stats.bytes = n_bytes;
    pthread_mutex_unlock(&lock);
    stats.loads = atomic_load(&n_loads);
    size_t bytes;
    kb_code_count(&stats.images, &bytes);
    stats.bytes += bytes;
    return stats;
}

void kb_function_free_all(void)
{
    pthread_mutex_lock(&lock);
    for (kb_link *item; (item = kb_table_pop(&table));)
        release((kb_function *)item);
    n_bytes = 0;
    pthread_mutex_unlock(&lock);
    atomic_store(&n_loads, 0);
}
