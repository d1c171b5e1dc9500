/* Owns the handler of SIGINT during long launches: it counts, and calls the handler that was there,
 * such as Python's, which notes the signal. */
#include "ext/emulator/kb_interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

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
