/* Owns the handler of faults: an extension may end its kernel with an error, and the message about
 * a fault in any other kernel is printed. The fault itself is left to who was there before. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* sigaction */
#endif
#include "core/kb_running.h"

#include "core/kb_extension.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static const struct {
    int number;
    const char *what;
} signals[] = {
    {SIGSEGV, "segmentation fault"},
    {SIGBUS, "bus error"},
    {SIGFPE, "arithmetic error, such as an integer division by zero,"},
    {SIGILL, "illegal instruction"},
#ifdef __aarch64__
    {SIGTRAP, "trap, such as an integer division by zero,"},
#endif
};

enum { N_SIGNALS = sizeof signals / sizeof *signals, LEVELS = 4 };

/* Others may have put handlers on top of ours: then ours is on top of theirs, too. */
static struct sigaction before[N_SIGNALS][LEVELS];
static int n_levels[N_SIGNALS];

kb_running kb_running_table[KB_RUNNING_SLOTS];

static void print(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static void print_operation(const char *what)
{
    uintptr_t thread = kb_running_thread();
    const kb_running *slot = kb_running_slot(thread);
    const kb_kernel *kernel = __atomic_load_n(&slot->kernel, __ATOMIC_RELAXED);
    if (!kernel || ((uintptr_t)kernel ^ thread) != slot->check)
        return;
    print("kernbridge: ");
    print(what);
    print(" in ");
    print(kernel->name);
    print(*kernel->source ? ", defined at " : "");
    print(kernel->source);
    print("\n");
}

static void handle(int number, siginfo_t *info, void *context)
{
    (void)context;
    for (const kb_extension *const *e = kb_extensions; *e; e++)
        if ((*e)->fault)
            (*e)->fault(number, info->si_code, info->si_addr);
    int error = errno, i = 0;
    while (signals[i].number != number)
        i++;
    int level = n_levels[i] - 1;
    if (level > 0)
        n_levels[i] = level; /* the one before us may come to us again, who then print */
    else
        print_operation(signals[i].what);
    (void)sigaction(number, &before[i][level], NULL); /* and the instruction is executed again */
    if (info->si_code <= 0) /* there is none: raise() or kill() sent the signal */
        (void)raise(number);
    errno = error;
}

void kb_running_watch_faults(void)
{
    const struct sigaction ours = {.sa_sigaction = handle,
                                   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    for (int i = 0; i < N_SIGNALS; i++) {
        struct sigaction *was = &before[i][n_levels[i]];
        (void)sigaction(signals[i].number, &ours, was);
        if (was->sa_sigaction != handle && n_levels[i] < LEVELS - 1)
            n_levels[i]++;
    }
}
