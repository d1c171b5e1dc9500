/* A compiled GPU function: its images (cubins), and what loading them gave, per device.
 *
 * Functions are shared by content: two programs with the same image have the same function, loaded
 * once. They live as long as the process, since an executable or a graph may use them at any time.
 * Any thread may enter. */
#ifndef KB_FUNCTION_H
#define KB_FUNCTION_H

#include "core/kb_error.h"
#include "core/kb_kernel.h"
#include "cuda/kb_driver.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { KB_DEVICES_MAX = 64, KB_IMAGES_MAX = 16, KB_WORDS_MAX = 2048 };

/* Parameters are handed over as 8-byte words: one each, or as many as its size needs. */
enum { KB_WORD_SIZE = 8, KB_PARAMETER_SIZE_MAX = 4096 };

typedef struct kb_image {
    uint32_t cc; /* compute capability, 10 * major + minor */
    const void *bytes;
    size_t size;
} kb_image;

typedef struct kb_loaded {
    _Atomic(kb_cu_kernel) kernel; /* NULL until loaded for this device */
    int best_block;           /* threads a block for the best occupancy; meaningful once loaded */
    _Atomic(uint32_t) shared; /* dynamic shared memory that launches may use; 0 until loaded */
} kb_loaded;

typedef struct kb_function {
    uint8_t digest[KB_DIGEST_SIZE]; /* of all that follows down to `images` */
    const char *entry;
    uint32_t n_words;
    uint32_t n_sizes;      /* of parameters that are not all words; else 0 */
    const uint32_t *sizes; /* bytes of each parameter */
    uint32_t shared;       /* dynamic shared memory that `best_block` reckons with */
    uint32_t n_images;
    const kb_image *images;
    kb_cu_library libraries[KB_IMAGES_MAX]; /* under the lock */
    kb_loaded loaded[KB_DEVICES_MAX];
    struct kb_function *next;
} kb_function;

/* Gives the function of this digest, made of a copy of `from` if it is new. Loads nothing.
 * KB_ALREADY_EXISTS if the digest belongs to other content. */
kb_status kb_function_get(const kb_function *from, kb_function **function, kb_error *err);

/* Loads the function for the device of the current context, once, and gives its kernel. `what`
 * names the operation. */
kb_status kb_function_load(kb_function *function, const kb_driver *cu, kb_cu_device device,
                           const char *what, kb_cu_kernel *kernel, kb_error *err);

/* Lets launches use `shared` bytes of dynamic shared memory on this device. Without asking, a
 * kernel may have 48 KiB together with what it declares statically. Once the function is loaded. */
kb_status kb_function_allow_shared(kb_function *function, const kb_driver *cu, kb_cu_device device,
                                   uint32_t shared, const char *what, kb_error *err);

/* The kernel for this device, or NULL if it was not loaded yet. */
static inline kb_cu_kernel kb_function_kernel(const kb_function *function, kb_cu_device device)
{
    return atomic_load_explicit(&function->loaded[device].kernel, memory_order_acquire);
}

/* The same for launches with this much dynamic shared memory; NULL also if that was not allowed. */
static inline kb_cu_kernel kb_function_ready(const kb_function *function, kb_cu_device device,
                                             uint32_t shared)
{
    const kb_loaded *loaded = &function->loaded[device];
    kb_cu_kernel kernel = kb_function_kernel(function, device);
    return kernel && shared <= atomic_load_explicit(&loaded->shared, memory_order_relaxed) ? kernel
                                                                                           : NULL;
}

/* Functions known, and how many kernels were loaded so far, over all devices. */
void kb_function_count(size_t *known, size_t *loads, size_t *bytes);

/* Tests only: forgets and frees everything, unloading libraries. Nobody may be using any. */
void kb_function_free_all(void);

#endif
