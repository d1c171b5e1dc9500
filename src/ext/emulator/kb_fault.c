/* Owns what signals do to blocks: the handler of SIGINT, the end of a block in CUDA C++ by a fault,
 * and a stack for the handler of faults in every thread. */
#include "ext/emulator/kb_block.h"

#include "core/kb_running.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

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
    running = block && (block->code->loop || block->code->is_whole) ? block : NULL;
    if (!running || is_prepared)
        return;
    stack_t now;
    is_prepared = true;
    (void)pthread_once(&once, kb_running_watch_faults);
    if (sigaltstack(NULL, &now) == 0 && now.ss_flags & SS_DISABLE)
        (void)sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = STACK_SIZE}, NULL);
}

/* Of SIGINT during long launches: the handler counts, and calls the handler that was there, such as
 * Python's, which notes the signal. */
_Atomic(uint32_t) kb_interrupts;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t n_watching;    /* under the lock, and */
static struct sigaction heard; /* the handler that was there */

static void note(int number, siginfo_t *info, void *context)
{
    atomic_fetch_add(&kb_interrupts, 1);
    if (heard.sa_flags & SA_SIGINFO)
        heard.sa_sigaction(number, info, context);
    else
        heard.sa_handler(number);
}

static bool is_ours(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == note;
}

void kb_interrupt_watch(void)
{
    struct sigaction now;
    pthread_mutex_lock(&lock);
    bool begins = n_watching++ == 0 && sigaction(SIGINT, NULL, &now) == 0 && !is_ours(&now);
    if (begins && now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN) {
        heard = now;
        now.sa_flags |= SA_SIGINFO;
        now.sa_sigaction = note;
        (void)sigaction(SIGINT, &now, NULL);
    }
    pthread_mutex_unlock(&lock);
}

/* Another handler may have taken the place meanwhile: it stays. */
void kb_interrupt_unwatch(void)
{
    struct sigaction now;
    pthread_mutex_lock(&lock);
    if (--n_watching == 0 && sigaction(SIGINT, NULL, &now) == 0 && is_ours(&now))
        (void)sigaction(SIGINT, &heard, NULL);
    pthread_mutex_unlock(&lock);
}

bool kb_watch_look(kb_watch *watch)
{
    enum { THOUSAND = 1000, MILLION = 1000 * 1000 };
    enum { LONG = 100 /* ms: a short launch leaves the process's handler alone */ };
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    int64_t ms = (int64_t)now.tv_sec * THOUSAND + now.tv_nsec / MILLION;
    if (watch->begun == 0)
        watch->begun = ms;
    else if (!watch->watches && ms - watch->begun >= LONG) {
        watch->watches = true;
        kb_interrupt_watch();
    }
    return atomic_load(&kb_interrupts) != watch->interrupts;
}
