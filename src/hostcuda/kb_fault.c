/* Owns the handlers of SIGSEGV, SIGFPE and SIGTRAP (which aarch64 divides by zero with) while
 * kernels run, which hand everything else to those that were there, and a stack for them in every
 * thread. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* sigaction, sigaltstack, MAP_ANONYMOUS */
#endif
#include "hostcuda/kb_fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK_SIZE = 64 * 1024, N_SIGNALS = 3 };

static const int signals[N_SIGNALS] = {SIGSEGV, SIGFPE, SIGTRAP};
static struct sigaction before[N_SIGNALS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t stack_of_thread;
static _Thread_local kb_block *running;
static _Thread_local bool is_prepared;

static void pass_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction *other = &before[number == SIGSEGV ? 0 : number == SIGFPE ? 1 : 2];
    if (other->sa_flags & SA_SIGINFO)
        other->sa_sigaction(number, info, context);
    else if (other->sa_handler != SIG_DFL && other->sa_handler != SIG_IGN)
        other->sa_handler(number);
    else
        (void)sigaction(number, other, NULL); /* and the instruction is executed again */
}

static void handle(int number, siginfo_t *info, void *context)
{
    kb_block *b = running;
    uintptr_t below = b ? (uintptr_t)b->stacks - (uintptr_t)info->si_addr : 0;
    bool overflows = number == SIGSEGV && below > 0 && below <= KB_FAULT_GUARD;
    bool divides = number == SIGTRAP || (number == SIGFPE && info->si_code == FPE_INTDIV);
    if (!b || !(overflows || divides)) {
        pass_on(number, info, context);
        return;
    }
    (void)snprintf(b->fault, sizeof b->fault, "block (%u, %u, %u): a thread ", b->at[0], b->at[1],
                   b->at[2]);
    size_t n = strlen(b->fault);
    if (overflows)
        (void)snprintf(b->fault + n, sizeof b->fault - n,
                       "needs more than the %zu bytes of its stack: a device function calls itself "
                       "too often, or has large arrays",
                       b->stack);
    else
        (void)snprintf(b->fault + n, sizeof b->fault - n,
                       "divides an integer by zero, or the lowest one by -1, which C++ leaves "
                       "undefined: test the divisor");
    b->faulted = true;
    kb_fibre ended;
    kb_fibre_switch(&ended, &b->caller);
}

static void drop_stack(void *stack)
{
    (void)sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    (void)munmap(stack, STACK_SIZE);
}

static void install(void)
{
    struct sigaction ours = {.sa_sigaction = handle,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    (void)pthread_key_create(&stack_of_thread, drop_stack);
    for (int i = 0; i < N_SIGNALS; i++)
        (void)sigaction(signals[i], &ours, &before[i]);
}

/* The stack that overflows has no room for a handler. */
static void prepare(void)
{
    stack_t now;
    is_prepared = true;
    (void)pthread_once(&once, install);
    if (sigaltstack(NULL, &now) != 0 || !(now.ss_flags & SS_DISABLE))
        return;
    void *stack =
        mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        return;
    (void)pthread_setspecific(stack_of_thread, stack);
    (void)sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = STACK_SIZE}, NULL);
}

void kb_fault_watch(kb_block *block)
{
    running = block && block->code->loop ? block : NULL;
    if (running && !is_prepared)
        prepare();
}
