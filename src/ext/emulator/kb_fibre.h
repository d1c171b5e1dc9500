/* Fibres: threads of execution that take turns on one thread of the system, each with a stack of
 * its own. A switch costs a few nanoseconds. */
#ifndef KB_FIBRE_H
#define KB_FIBRE_H

#include <stddef.h>

#if defined(__SANITIZE_THREAD__)
#define KB_FIBRE_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define KB_FIBRE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KB_FIBRE_TSAN 1
#elif __has_feature(address_sanitizer)
#define KB_FIBRE_ASAN 1
#endif
#endif

typedef struct kb_fibre {
    void *sp; /* while it does not run */
#ifdef KB_FIBRE_TSAN
    void *sanitizer;
#elif defined(KB_FIBRE_ASAN)
    const void *stack;
    size_t stack_size;
    void *fake_stack;
#endif
} kb_fibre;

typedef void kb_fibre_entry(void *data);

/* A fibre that will call entry(data) on this stack, and that nobody may let return. What it was
 * before is forgotten. `stack` is aligned to 64 bytes, and so is `size`. */
void kb_fibre_init(kb_fibre *fibre, void *stack, size_t size, kb_fibre_entry *entry, void *data);

/* Lets AddressSanitizer forget fibres that were left in the middle in memory that is used again. */
void kb_fibre_clean(void *memory, size_t size);

/* The fibre of the code that calls: for the first `from` of kb_fibre_switch. */
void kb_fibre_adopt(kb_fibre *fibre);

/* Goes on in `to`; returns when another fibre switches to `from`. */
void kb_fibre_switch(kb_fibre *from, kb_fibre *to);

/* To be called first in an entry, and after it nothing of a fibre's end: sanitizers want both. */
void kb_fibre_begun(kb_fibre *fibre);

/* Forgets what a sanitizer keeps of a fibre that never runs again. */
void kb_fibre_drop(kb_fibre *fibre);

#endif
