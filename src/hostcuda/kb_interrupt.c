/* Owns the places at which a launch may be interrupted, and the handler of SIGINT during long ones:
 * it counts, and calls the handler that was there, such as Python's, which notes the signal. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* sigaction */
#endif
#include "hostcuda/kb_interrupt.h"

#include "hostcuda/kb_block.h"
#include "hostcuda/kb_check.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#ifndef CLOCK_MONOTONIC_COARSE
#define CLOCK_MONOTONIC_COARSE CLOCK_MONOTONIC
#endif

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

static int64_t milliseconds(void)
{
    enum { THOUSAND = 1000, MILLION = 1000 * 1000 };
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * THOUSAND + now.tv_nsec / MILLION;
}

void kb_block_look(kb_thread *t)
{
    enum { LONG = 100 /* ms: a short launch leaves the process's handler alone */ };
    kb_block *b = t->block;
    int64_t now = milliseconds();
    if (atomic_load(&kb_interrupts) != b->interrupts)
        kb_block_fail(t, "the launch was interrupted by SIGINT (Ctrl-C)");
    if (b->begun == 0)
        b->begun = now;
    else if (!b->watches && now - b->begun >= LONG) {
        b->watches = true;
        kb_interrupt_watch();
    }
}

void kb_poll(kb_thread *t, uint32_t again, uint32_t site)
{
    t->site = site;
    kb_block_pause(t);
    if (t->block->checks)
        kb_checks_poll(t, again);
    if (!again)
        return;
    t->state = KB_THREAD_POLLS;
    kb_block_wait(t);
}
