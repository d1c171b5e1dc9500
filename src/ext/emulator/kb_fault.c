/* Owns the end of a block in CUDA C++ by a fault, and a stack for the handler in every thread. */
#include "ext/emulator/kb_block.h"

#include "core/kb_running.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

enum { STACK_SIZE = 32 * 1024 };

static _Thread_local kb_block *running;
static _Thread_local bool is_prepared;
static _Thread_local char stack[STACK_SIZE]; /* that which overflows has no room for a handler */

/* aarch64 divides by zero by SIGTRAP. */
void kb_fault_end(int number, int code, const void *at)
{
    kb_block *b = running;
    uintptr_t below = b ? (uintptr_t)b->stacks - (uintptr_t)at : 0;
    const char *what = NULL;
    if (b && number == SIGSEGV && below > 0 && below <= KB_FAULT_GUARD)
        what = "needs more than its stack: a device function calls itself too often, or its arrays "
               "are large";
    else if (b && (number == SIGTRAP || (number == SIGFPE && code == FPE_INTDIV)))
        what = "divides an integer by zero, or the lowest one by -1: test the divisor";
    if (!what)
        return;
    (void)snprintf(b->fault, sizeof b->fault, "block (%u, %u, %u): a thread %s", b->at[0], b->at[1],
                   b->at[2], what);
    b->faulted = true;
    kb_fibre ended;
    kb_fibre_switch(&ended, &b->caller);
}

void kb_fault_watch(kb_block *block)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    running = block && block->code->loop ? block : NULL;
    if (!running || is_prepared)
        return;
    stack_t now;
    is_prepared = true;
    (void)pthread_once(&once, kb_running_watch_faults);
    if (sigaltstack(NULL, &now) == 0 && now.ss_flags & SS_DISABLE)
        (void)sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = STACK_SIZE}, NULL);
}
