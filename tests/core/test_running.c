/* Proves that a fault in a kernel prints which operation it was in, and nothing for any other
 * fault, and that those who handled faults before and since come in their order. Each case ends a
 * process of its own. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* sigaction */
#endif
#include "core/kb_running.h"

#include "kb_test.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const kb_kernel first = {.name = "op7", .source = "net.py:31"};
static const kb_kernel second = {.name = "op8", .source = ""};
static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers };

static char said[1024]; /* by the process */

/* Runs a case until it ends; returns the signal that it ended with, or minus its exit status. */
static int run(void (*act)(void))
{
    int ends[2], status = 0;
    memset(said, 0, sizeof said);
    fflush(NULL);
    pid_t child = pipe(ends) == 0 ? fork() : -1;
    if (child == 0) {
        alarm(60);
        for (int i = 0; i < N_NUMBERS; i++) /* a sanitizer's handlers */
            signal(numbers[i], SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        act();
        _exit(99);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n < sizeof said - 1; n += (size_t)(got > 0 ? got : 0))
        got = read(ends[0], said + n, sizeof said - 1 - n);
    close(ends[0]);
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

/* A real fault, of an address where nothing is. */
static void fault(void)
{
    volatile uintptr_t nowhere = 16;
    *(volatile char *)nowhere = 1; // NOLINT(performance-no-int-to-ptr)
}

static void fault_in_first(void)
{
    kb_running_watch_faults();
    (void)kb_running_enter(&first);
    fault();
}

static void fault_in_second(void)
{
    kb_running_watch_faults();
    kb_running_leave(kb_running_enter(&first));
    (void)kb_running_enter(&second);
    fault();
}

static void fault_in_none(void)
{
    kb_running_watch_faults();
    kb_running_leave(kb_running_enter(&first));
    fault();
}

/* Another thread has met this one in its slot. */
static void fault_in_lost(void)
{
    kb_running_watch_faults();
    kb_running *slot = kb_running_enter(&first);
    slot->check ^= 64;
    fault();
}

static int sent;

static void be_sent(void)
{
    kb_running_watch_faults();
    (void)kb_running_enter(&first);
    kill(getpid(), sent);
}

static void raise_it(void)
{
    kb_running_watch_faults();
    (void)kb_running_enter(&first);
    raise(sent);
}

static void test_messages(void)
{
    CHECK_INT(run(fault_in_first), SIGSEGV);
    CHECK_TEXT(said, "kernbridge: segmentation fault in op7, defined at net.py:31\n");
    CHECK_INT(run(fault_in_second), SIGSEGV);
    CHECK_TEXT(said, "kernbridge: segmentation fault in op8\n");
    CHECK_INT(run(fault_in_none), SIGSEGV);
    CHECK_TEXT(said, "");
    CHECK_INT(run(fault_in_lost), SIGSEGV);
    CHECK_TEXT(said, "");
}

static void test_sent(void)
{
    static const char *const what[N_NUMBERS] = {
        "segmentation fault", "bus error", "arithmetic error, such as an integer division by zero,",
        "illegal instruction"};
    for (int i = 0; i < N_NUMBERS; i++) {
        char expected[200];
        sent = numbers[i];
        (void)snprintf(expected, sizeof expected, "kernbridge: %s in op7, defined at net.py:31\n",
                       what[i]);
        CHECK_INT(run(be_sent), sent);
        CHECK_TEXT(said, expected);
        CHECK_INT(run(raise_it), sent);
        CHECK_TEXT(said, expected);
    }
}

/* Handlers of others. The first of them ends the process, and each later one does what those of
 * other libraries do: it lets who was there before handle the same fault. */
enum { OTHERS = 6 };

static struct sigaction others[OTHERS];
static int wanted_errno, found_errno, found_code;

static void say(char letter)
{
    ssize_t ignored = write(STDERR_FILENO, &letter, 1);
    (void)ignored;
}

static void end(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    found_errno = errno;
    found_code = info->si_code;
    say('A');
    _exit(found_errno == wanted_errno && found_code == SEGV_MAPERR ? 5 : 6);
}

#define HAND_ON(i)                                                                                 \
    static void hand_on_##i(int number, siginfo_t *info, void *context)                            \
    {                                                                                              \
        (void)info, (void)context;                                                                 \
        say("ABCDEF"[i]);                                                                          \
        (void)sigaction(number, &others[i], NULL);                                                 \
    }
HAND_ON(1)
HAND_ON(2)
HAND_ON(3)
HAND_ON(4)
HAND_ON(5)

static void (*const handlers[OTHERS])(int, siginfo_t *, void *) = {end,       hand_on_1, hand_on_2,
                                                                   hand_on_3, hand_on_4, hand_on_5};
static int n_others, n_watches;

/* Each of the others comes, and then we watch again, as often as wanted. */
static void fault_among_others(void)
{
    for (int i = 0; i < n_others; i++) {
        struct sigaction mine = {.sa_sigaction = handlers[i], .sa_flags = SA_SIGINFO | SA_NODEFER};
        (void)sigaction(SIGSEGV, &mine, &others[i]);
        for (int k = 0; k < n_watches; k++)
            kb_running_watch_faults();
    }
    (void)kb_running_enter(&first);
#ifdef __SANITIZE_THREAD__
    wanted_errno = 99; /* which ThreadSanitizer sets for every handler */
#else
    wanted_errno = 77;
#endif
    errno = wanted_errno;
    fault();
}

/* The handler cannot say anything, which the code that has failed does not notice either. */
static void fault_without_output(void)
{
    close(STDERR_FILENO);
    fault_among_others();
}

static void test_others(void)
{
    const char message[] = "kernbridge: segmentation fault in op7, defined at net.py:31\nA";
    static const char *const before[] = {NULL, "", "B", "CB"};
    for (n_others = 1; n_others <= OTHERS; n_others++)
        for (n_watches = 1; n_watches < 4; n_watches++) {
            CHECK_INT(run(fault_among_others), -5);
            size_t n = n_others < 3 ? (size_t)n_others - 1 : 2; /* of more, the last are dropped */
            CHECK(strncmp(said, before[n + 1], n) == 0);
            CHECK_TEXT(said + n, message);
        }
    n_others = n_watches = 1;
    CHECK_INT(run(fault_without_output), -5);
}

/* A signal that was ignored stays so, of which nothing but the message comes. */
static void ignore(void)
{
    signal(SIGFPE, SIG_IGN);
    kb_running_watch_faults();
    (void)kb_running_enter(&first);
    errno = 77;
    kill(getpid(), SIGFPE);
    _exit(errno == 77 ? 7 : 8);
}

int main(void)
{
    test_messages();
    test_sent();
    test_others();
    CHECK_INT(run(ignore), -7);
    CHECK_HAS(said, "arithmetic error");
    return kb_test_end("test_running");
}
