/* Owns the handler of SIGINT during long launches: it counts, and calls the handler that was there,
 * such as Python's, which notes the signal. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* sigaction */
#endif
#include "hostcuda/kb_interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

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
