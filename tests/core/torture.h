/* Makes what the core asks of the system fail: the n-th request of a kind, or every one from then
 * on. The build of the tests renames the core's calls of the C library to the functions of
 * torture.c, which hand on what does not fail; calls of the tests themselves are not touched.
 *
 * A request may come from any thread; one thread arms and disarms. */
#ifndef TORTURE_H
#define TORTURE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum torture_kind {
    TORTURE_MEMORY,  /* malloc, calloc, aligned_alloc, tsearch */
    TORTURE_MAPPING, /* mmap, mprotect */
    TORTURE_FILE,    /* fopen, fseek, ftell, fread, memfd_create, write */
    TORTURE_LIBRARY, /* dlopen, dlsym */
    TORTURE_THREAD,  /* pthread_create, pthread_mutex_init, pthread_cond_init */
    TORTURE_DRIVER,  /* every function of the fake CUDA driver */
    TORTURE_XLA,     /* functions of the fake XLA */
    TORTURE_KINDS
} torture_kind;

extern const char *const torture_names[TORTURE_KINDS];

/* The n-th request of the kind fails (1 is the next), with `lasting` all that follow it, too. */
void torture_arm(torture_kind kind, long n, bool lasting);

/* Only the n-th request for memory from now on fails (1 is the next); 0 switches it off. */
void torture_fail_nth(long n);

/* The core's calls for memory. */
void *torture_malloc(size_t size);
void *torture_calloc(size_t count, size_t size);
void *torture_aligned_alloc(size_t alignment, size_t size);
void torture_free(void *memory);

/* Whether it was armed with `lasting`. */
bool torture_lasts(void);

/* From now on nothing fails. Returns the function that failed first, or NULL if none did. */
const char *torture_disarm(void);

/* Whether from now on a file takes no byte, of which it says nothing. */
void torture_fill_files(bool full);

/* What another thread does just before the next request for memory, once. */
void torture_meanwhile(void (*act)(void));

/* For fakes: whether this request must fail. */
bool torture_fails(torture_kind kind, const char *function);

/* What the core has taken and not given back: blocks of memory, mappings, files, mutexes and
 * conditions, and how many of its mutexes are locked. */
typedef struct torture_taken {
    long blocks, mappings, files, locks, held;
} torture_taken;

torture_taken torture_count(void);

#endif
