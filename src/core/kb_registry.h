/* Identity key -> kernel. Inserted under a lock, found without one, kept for the registry's life.
 * Any thread may enter. */
#ifndef KB_REGISTRY_H
#define KB_REGISTRY_H

#include "core/kb_error.h"
#include "core/kb_kernel.h"

#include <pthread.h>

typedef struct kb_registry_stats {
    size_t kernels;
    size_t bytes; /* descriptors and tables; not the machine code, which its compiler owns */
} kb_registry_stats;

typedef struct kb_registry_table {
    struct kb_registry_table *retired;
    size_t capacity; /* a power of two */
    const kb_kernel *_Atomic entries[];
} kb_registry_table;

/* An empty one is all zero but for its lock, which is initialised. */
typedef struct kb_registry {
    _Atomic(kb_registry_table *) current; /* NULL before the first kernel */
    pthread_mutex_t lock;                 /* held by writers */
    kb_registry_stats stats;
} kb_registry;

/* Copies `kernel` in, unless its digest is there already (see `*inserted`).
 * KB_ALREADY_EXISTS if another digest has the same key: such a kernel cannot be distinguished. */
kb_status kb_registry_add(kb_registry *registry, const kb_kernel *kernel, bool *inserted,
                          kb_error *err);

/* NULL when there is none. Takes no lock and allocates nothing. */
const kb_kernel *kb_registry_find(const kb_registry *registry, int64_t key);

/* Finds by key and compares all of the digest. KB_NOT_FOUND, or KB_ALREADY_EXISTS when the key
 * belongs to a kernel of another digest. */
kb_status kb_registry_match(const kb_registry *registry, const uint8_t digest[KB_DIGEST_SIZE],
                            const kb_kernel **kernel, kb_error *err);

kb_registry_stats kb_registry_count(kb_registry *registry);

#endif
