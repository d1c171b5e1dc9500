/* Owns the handler of SIGSEGV, SIGFPE and SIGTRAP (by which aarch64 divides by zero) while kernels
 * in CUDA C++ run, and a stack for it in every thread. All else is left to who was there before. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* sigaction, sigaltstack */
#endif
#include "ext/emulator/kb_block.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

enum { STACK_SIZE = 32 * 1024, N_SIGNALS = 3 };

static const int signals[N_SIGNALS] = {SIGSEGV, SIGFPE, SIGTRAP};
static struct sigaction before[N_SIGNALS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local kb_block *running;
static _Thread_local bool is_prepared;
static _Thread_local char stack[STACK_SIZE]; /* that which overflows has no room for a handler */

static void handle(int number, siginfo_t *info, void *context)
{
    (void)context;
    kb_block *b = running;
    uintptr_t below = b ? (uintptr_t)b->stacks - (uintptr_t)info->si_addr : 0;
    const char *what = NULL;
    if (b && number == SIGSEGV && below > 0 && below <= KB_FAULT_GUARD)
        what = "needs more than its stack: a device function calls itself too often, or its arrays "
               "are large";
    else if (b && (number == SIGTRAP || (number == SIGFPE && info->si_code == FPE_INTDIV)))
        what = "divides an integer by zero, or the lowest one by -1: test the divisor";
    if (!what) { /* the instruction is executed again */
        for (int i = 0; i < N_SIGNALS; i++)
            if (signals[i] == number)
                (void)sigaction(number, &before[i], NULL);
        return;
    }
    (void)snprintf(b->fault, sizeof b->fault, "block (%u, %u, %u): a thread %s", b->at[0], b->at[1],
                   b->at[2], what);
    b->faulted = true;
    kb_fibre ended;
    kb_fibre_switch(&ended, &b->caller);
}

static void install(void)
{
    struct sigaction ours = {.sa_sigaction = handle,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    for (int i = 0; i < N_SIGNALS; i++)
        (void)sigaction(signals[i], &ours, &before[i]);
}

void kb_fault_watch(kb_block *block)
{
    running = block && block->code->loop ? block : NULL;
    if (!running || is_prepared)
        return;
    stack_t now;
    is_prepared = true;
    (void)pthread_once(&once, install);
    if (sigaltstack(NULL, &now) == 0 && now.ss_flags & SS_DISABLE)
        (void)sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = STACK_SIZE}, NULL);
}
