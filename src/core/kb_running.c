/* Owns the message about a fault in a kernel. The fault itself is left to who was there before. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* sigaction */
#endif
#include "core/kb_running.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { N_SIGNALS = 4 };

static const struct {
    int number;
    const char *what;
} signals[N_SIGNALS] = {{SIGSEGV, "segmentation fault"},
                        {SIGBUS, "bus error"},
                        {SIGFPE, "arithmetic error, such as an integer division by zero,"},
                        {SIGILL, "illegal instruction"}};
static struct sigaction before[N_SIGNALS];

kb_running kb_running_table[KB_RUNNING_SLOTS];

static void print(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static void handle(int number, siginfo_t *info, void *context)
{
    (void)context;
    int error = errno, i = 0;
    while (signals[i].number != number)
        i++;
    uintptr_t thread = kb_running_thread();
    const kb_running *slot = kb_running_slot(thread);
    const kb_kernel *kernel = __atomic_load_n(&slot->kernel, __ATOMIC_RELAXED);
    if (kernel && ((uintptr_t)kernel ^ thread) == slot->check) {
        print("kernbridge: ");
        print(signals[i].what);
        print(" in ");
        print(kernel->name);
        print(*kernel->source ? ", defined at " : "");
        print(kernel->source);
        print("\n");
    }
    (void)sigaction(number, &before[i], NULL); /* and the instruction is executed again */
    if (info->si_code <= 0) /* there is none: raise() or kill() sent the signal */
        (void)raise(number);
    errno = error;
}

static void install(void)
{
    struct sigaction ours = {.sa_sigaction = handle,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    for (int i = 0; i < N_SIGNALS; i++)
        (void)sigaction(signals[i].number, &ours, &before[i]);
}

void kb_running_watch_faults(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, install);
}
