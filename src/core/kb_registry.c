/* Owns the table of kernels: open addressing over atomic pointers. A full table is replaced by one
 * of twice the size; readers may still hold the old one, so it is retired, not freed (all retired
 * tables together are smaller than the current one). */
#include "core/kb_registry.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

typedef kb_registry_table table;

/* The kernel of `key`, or NULL; `at` is the entry where it is, or belongs. Each entry is read once:
 * an empty one may become any kernel's at any time. There always is an empty one. */
static inline const kb_kernel *table_seek(table *t, int64_t key, size_t *at)
{
    size_t mask = t->capacity - 1;
    for (size_t i = (size_t)key & mask;; i = (i + 1) & mask) {
        const kb_kernel *kernel = atomic_load_explicit(&t->entries[i], memory_order_acquire);
        if (kernel && kernel->key != key)
            continue;
        *at = i;
        return kernel;
    }
}

/* Called with the lock held, or before the table is shared. */
static void table_put(table *t, const kb_kernel *kernel)
{
    size_t at;
    table_seek(t, kernel->key, &at);
    atomic_store_explicit(&t->entries[at], kernel, memory_order_release);
}

/* Called with the lock held. */
static kb_status grow(kb_registry *registry, kb_error *err)
{
    table *old = atomic_load(&registry->current);
    if (old && 2 * (registry->stats.kernels + 1) <= old->capacity)
        return KB_OK;
    size_t capacity = old ? 2 * old->capacity : FIRST_CAPACITY;
    size_t bytes = sizeof(table) + capacity * sizeof *old->entries;
    table *t = calloc(1, bytes);
    if (!t)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED,
                            "no memory to register more than %zu kernels", registry->stats.kernels);
    t->capacity = capacity;
    for (size_t i = 0; old && i < old->capacity; i++) {
        const kb_kernel *kernel = atomic_load(&old->entries[i]);
        if (kernel)
            table_put(t, kernel);
    }
    t->retired = old;
    registry->stats.bytes += bytes;
    atomic_store_explicit(&registry->current, t, memory_order_release);
    return KB_OK;
}

static kb_status refuse_collision(const kb_kernel *there, const char *name, kb_error *err)
{
    return kb_error_set(
        err, KB_ALREADY_EXISTS,
        "%s has the key %016llx of %s, but another digest; rename a variable in one "
        "of the two kernels to give it another key",
        name, (unsigned long long)there->key, there->name);
}

/* Called with the lock held. */
static kb_status insert(kb_registry *registry, const kb_kernel *kernel, bool *inserted,
                        kb_error *err)
{
    int64_t key = kb_digest_key(kernel->digest);
    const kb_kernel *there = kb_registry_find(registry, key);
    if (there && memcmp(there->digest, kernel->digest, KB_DIGEST_SIZE) != 0)
        return refuse_collision(there, kernel->name, err);
    if (there)
        return KB_OK;

    kb_kernel *copy;
    kb_status s = grow(registry, err);
    if (s == KB_OK)
        s = kb_kernel_copy(kernel, &copy, err);
    if (s != KB_OK)
        return s;
    table_put(atomic_load(&registry->current), copy);
    registry->stats.kernels++;
    registry->stats.bytes += copy->bytes;
    *inserted = true;
    return KB_OK;
}

kb_status kb_registry_add(kb_registry *registry, const kb_kernel *kernel, bool *inserted,
                          kb_error *err)
{
    *inserted = false;
    pthread_mutex_lock(&registry->lock);
    kb_status s = insert(registry, kernel, inserted, err);
    pthread_mutex_unlock(&registry->lock);
    return s;
}

const kb_kernel *kb_registry_find(const kb_registry *registry, int64_t key)
{
    size_t at;
    table *t = atomic_load_explicit(&registry->current, memory_order_acquire);
    return t ? table_seek(t, key, &at) : NULL;
}

kb_status kb_registry_match(const kb_registry *registry, const uint8_t digest[KB_DIGEST_SIZE],
                            const kb_kernel **kernel, kb_error *err)
{
    int64_t key = kb_digest_key(digest);
    *kernel = kb_registry_find(registry, key);
    if (!*kernel)
        return kb_error_set(err, KB_NOT_FOUND, "no kernel with the key %016llx is registered",
                            (unsigned long long)key);
    if (memcmp((*kernel)->digest, digest, KB_DIGEST_SIZE) != 0)
        return refuse_collision(*kernel, "the kernel of this program", err);
    return KB_OK;
}

kb_registry_stats kb_registry_count(kb_registry *registry)
{
    pthread_mutex_lock(&registry->lock);
    kb_registry_stats stats = registry->stats;
    pthread_mutex_unlock(&registry->lock);
    return stats;
}
