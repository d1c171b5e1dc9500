/* What the extensions in src/ext add to the core. The core includes no header of an extension: each
 * defines a table, and the core goes through the tables of those that are built. Any thread may
 * enter. */
#ifndef KB_EXTENSION_H
#define KB_EXTENSION_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { KB_PLATFORM_CPU = 1u << 0, KB_PLATFORM_GPU = 1u << 1 };

/* A target with its stages, as it is registered with XLA. */
typedef struct kb_target {
    const char *name; /* NULL after the last */
    uint32_t platforms;
    kb_xla_handler *instantiate; /* or NULL */
    kb_xla_handler *prepare;     /* or NULL */
    kb_xla_handler *execute;
} kb_target;

/* A function that machine code may call by its name. */
typedef struct kb_symbol {
    const char *name; /* NULL after the last */
    void (*address)(void);
} kb_symbol;

#define KB_SYMBOL(name, function)                                                                  \
    {                                                                                              \
        name, (void (*)(void))(uintptr_t)(function)                                                \
    }

static inline void *kb_symbol_find(const kb_symbol *table, const char *name)
{
    for (; table && table->name; table++)
        if (strcmp(table->name, name) == 0)
            return (void *)(uintptr_t)table->address; // NOLINT(performance-no-int-to-ptr)
    return NULL;
}

/* A copy of code with variables, for one device. */
typedef struct kb_variables_copy {
    struct kb_variables_copy *next;
    int32_t device;
    ptrdiff_t offset;     /* from addresses in the first copy to those in this one */
    pthread_mutex_t lock; /* held by a call, which releases it */
} kb_variables_copy;

#define KB_MOVED(p, copy) ((p) ? (__typeof__(p))((uintptr_t)(p) + (uintptr_t)(copy)->offset) : NULL)

typedef struct kb_variables kb_variables; /* of some code; never freed */

struct kb_variables {
    /* The copy of the device of a frame, or of NULL, once no other call uses it; NULL after an
     * error. */
    kb_variables_copy *(*enter)(kb_variables *v, const kb_xla_frame *xla, kb_error *err);
};

/* Members may be NULL. */
typedef struct kb_extension {
    const kb_target *targets;
    const kb_symbol *symbols; /* for machine code of CPU kernels and of derivatives */
    void (*begin)(void);      /* the first thing that is called, before targets are registered */
    /* A library of a module was opened, which may ask for functions of the extension. */
    kb_status (*connect)(void *library, kb_error *err);
    /* The variables of the code at an address; NULL if it has none. */
    kb_variables *(*variables_of)(const void *code);
    /* In the handler of a fault, see kb_running.h: does not return if it ends the kernel. */
    void (*fault)(int number, int code, const void *at);
} kb_extension;

/* Those that are built, and NULL. */
extern const kb_extension *const kb_extensions[];

#endif
