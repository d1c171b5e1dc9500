/* A compiled GPU function: its images (cubins), and what loading them gave, per device.
 *
 * Functions are shared by content: programs with the same image have the same function, loaded
 * once, and own it together; it is released with the last of them. The bytes of images are shared
 * further (see kb_code).
 *
 * A program that could not be read, that was refused, or that was registered already releases its
 * functions at once. A registered program is kept as long as the process, and its functions with
 * it: a lowered module names it by its digest alone, so a program with the module or a copy of its
 * text may compile it later; and XLA does not report when the last executable or graph that calls
 * it is gone. What stays is counted (kb_function_count).
 *
 * The table's lock is never held while the driver is called: a function has a lock of its own for
 * that: threads that register or count functions do not wait for a load. Any thread may enter. */
#ifndef KB_FUNCTION_H
#define KB_FUNCTION_H

#include "core/kb_error.h"
#include "core/kb_kernel.h"
#include "cuda/kb_driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    KB_DEVICES_MAX = 64,
    KB_DEVICE_HOST = KB_DEVICES_MAX - 1, /* the CPU in place of a GPU; no GPU has this ordinal */
    KB_IMAGES_MAX = 16,
    KB_WORDS_MAX = 2048,
};

/* Parameters are handed over as 8-byte words: one each, or as many as its size needs. */
enum { KB_WORD_SIZE = 8, KB_PARAMETER_SIZE_MAX = 4096 };

/* The bytes of an image and the library that the driver made of them. Code is shared by content:
 * functions whose images have the same bytes hold one copy, which is loaded once. The bytes stay
 * after the code was loaded: a program that brings an image of the same digest is compared with
 * them, and another function of the same content finds them. */
typedef struct kb_code kb_code;

/* Holds the code of this content, made of a copy of `bytes` if it is new. NULL when there is no
 * memory. */
kb_code *kb_code_hold(const void *bytes, size_t size);

/* Ends a hold. The last one unloads the library and frees the code. */
void kb_code_drop(kb_code *code);

/* The copy, aligned as cubins must be, followed by a NUL. */
const void *kb_code_bytes(const kb_code *code);

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
    size_t n_holds;                 /* under the table's lock */
    size_t size;                    /* of this block of memory */
    uint8_t digest[KB_DIGEST_SIZE]; /* of all that follows down to `images` */
    const char *entry;
    uint32_t n_words;
    uint32_t n_sizes;      /* of parameters that are not all words; else 0 */
    const uint32_t *sizes; /* bytes of each parameter */
    uint32_t shared;       /* dynamic shared memory that `best_block` reckons with */
    uint32_t n_images;
    const kb_image *images;
    kb_code *codes[KB_IMAGES_MAX]; /* of the images; a description has none */
    pthread_mutex_t loading;       /* held while the driver loads or changes the function */
    kb_loaded loaded[KB_DEVICES_MAX];
} kb_function;

/* Holds the function of this digest, made of a copy of `from` if it is new. Loads nothing.
 * KB_ALREADY_EXISTS if the digest belongs to other content. */
kb_status kb_function_hold(const kb_function *from, kb_function **function, kb_error *err);

/* Ends a hold. The last one frees the function, which must not be in use. */
void kb_function_drop(kb_function *function);

/* Loads the function for the device of the current context, once, and gives its kernel. Others that
 * ask for it meanwhile wait; after a failure each tries again. `what` names the operation. */
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

/* What there is in this process. */
extern struct kb_function_stats {
    _Atomic(size_t) functions; /* that are held */
    _Atomic(size_t) loads;     /* kernels loaded so far, over all devices */
    _Atomic(size_t) images;    /* of different content */
    _Atomic(size_t) bytes;     /* of functions and images */
} kb_function_count;

/* Tests only: frees all functions, held or not. None may be in use. */
void kb_function_free_all(void);

/* The share of a multiprocessor's threads that blocks of `threads` threads fill, on GPU 0; with 0
 * threads, blocks of the size that fills most. Loads the image, and unloads it. */
kb_status kb_occupancy(const void *image, const char *entry, int threads, uint32_t shared,
                       double *share, kb_error *err);

#endif
