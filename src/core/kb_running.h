/* Which operation each thread runs, for the message about a fault in it. Any thread may enter. */
#ifndef KB_RUNNING_H
#define KB_RUNNING_H

#include "core/kb_kernel.h"

#include <stdint.h>

enum { KB_RUNNING_SLOTS = 64, KB_RUNNING_SHIFT = 64 - 6 };

/* A thread-local variable of a library that is loaded late costs a call. This is a table instead,
 * in which a thread that meets another one in its slot only loses the message. */
typedef struct kb_running {
    _Alignas(64) const kb_kernel *kernel; /* or NULL */
    uintptr_t check;                      /* the kernel and the thread, combined */
} kb_running;

extern kb_running kb_running_table[KB_RUNNING_SLOTS];

static inline uintptr_t kb_running_thread(void)
{
    uintptr_t thread;
#ifdef __x86_64__
    __asm__("mov %%fs:0, %0" : "=r"(thread));
#elif defined(__aarch64__)
    __asm__("mrs %0, tpidr_el0" : "=r"(thread));
#endif
    return thread;
}

static inline kb_running *kb_running_slot(uintptr_t thread)
{
    return &kb_running_table[thread * 0x9E3779B97F4A7C15u >> KB_RUNNING_SHIFT];
}

/* From now on, this thread runs a kernel. Give the result to kb_running_leave. */
static inline kb_running *kb_running_enter(const kb_kernel *kernel)
{
    uintptr_t thread = kb_running_thread();
    kb_running *slot = kb_running_slot(thread);
    __atomic_store_n(&slot->check, (uintptr_t)kernel ^ thread, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->kernel, kernel, __ATOMIC_RELAXED);
    return slot;
}

static inline void kb_running_leave(kb_running *slot)
{
    __atomic_store_n(&slot->kernel, NULL, __ATOMIC_RELAXED);
}

/* Lets a fault in a kernel print the operation before it goes on to who handled it so far. Called
 * again, it does so before those who have come since. Not for two threads at once. */
void kb_running_watch_faults(void);

#endif
