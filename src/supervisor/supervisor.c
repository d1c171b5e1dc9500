/* Owns the program that runs compilers and other tools for kernbridge. It has one thread.
 *
 *     kernbridge-supervisor PARENT MILLISECONDS BYTES COMMAND...
 *
 * The command, and all that it starts, is killed when the process PARENT has ended for whatever
 * reason, when the time has passed, and when this program is told to end (SIGTERM). Each of its
 * processes may have so many bytes of data. A limit of 0 is none.
 *
 * This program ends as the command did: with its status, or by its signal. SIGALRM ends it when the
 * time has passed, and SIGUSR2 if the command cannot be started, whose errno it prints before.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define KB_CPU_SECONDS_MORE                                                                        \
    60 // the limit of processor time matters only if this program was killed
#define KB_PARENT_ENDED SIGUSR1

extern char **environ;

// Limits are inherited; one that is lower already stays.
static void lower(int what, rlim_t most)
{
    struct rlimit now;
    if (getrlimit(what, &now) != 0)
        return;
    if (now.rlim_cur > most)
        now.rlim_cur = most;
    if (now.rlim_max > most)
        now.rlim_max = most;
    setrlimit(what, &now);
}

// Kills the children with all that they started, which become children of this process when those
// that started them end. Unless all are meant, one that left the process group, as a daemon does,
// stays.
static void kill_children(bool all)
{
    for (bool found = true; found;) {
        found = false;
        FILE *children = fopen("/proc/thread-self/children", "re");
        if (children == NULL) {
            if (all)
                kill(0, SIGKILL); // the group, and this process with it
            return;
        }
        int pid;
        while (fscanf(children, "%d", &pid) == 1) {
            if (!all && getpgid(pid) != getpgrp())
                continue;
            found = true;
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        fclose(children);
    }
}

_Noreturn static void end_by(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    signal(number, SIG_DFL);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    _exit(128 + number);
}

_Noreturn static void end_as(int status)
{
    kill_children(false);
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    int number = WTERMSIG(status);
    if (number == SIGALRM || number == SIGUSR2)
        _exit(128 + number); // these say something else of this program
    end_by(number);
}

static pid_t start(char **command, const sigset_t *signals)
{
    posix_spawnattr_t how;
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&how, signals);
    pid_t child;
    int refused = posix_spawnp(&child, command[0], NULL, &how, command, environ);
    if (refused != 0) {
        printf("%d", refused);
        fflush(stdout);
        end_by(SIGUSR2);
    }
    return child;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: %s PARENT MILLISECONDS BYTES COMMAND...\n", argv[0]);
        return 2;
    }
    pid_t parent = (pid_t)strtol(argv[1], NULL, 10);
    long long milliseconds = strtoll(argv[2], NULL, 10);
    unsigned long long bytes = strtoull(argv[3], NULL, 10);

    (void)personality(ADDR_NO_RANDOMIZE); // what a program makes is the same each time
    sigset_t heard, before;
    sigemptyset(&heard);
    int numbers[] = {SIGCHLD, SIGALRM, SIGTERM, SIGHUP, SIGINT, KB_PARENT_ENDED};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&heard, numbers[i]);
    sigprocmask(SIG_BLOCK, &heard, &before);
    signal(SIGCHLD, SIG_DFL); // where it is ignored, children cannot be waited for

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, KB_PARENT_ENDED);
    if (getppid() != parent)
        return 1;
    lower(RLIMIT_CORE, 0);
    if (milliseconds > 0)
        lower(RLIMIT_CPU, (rlim_t)(milliseconds / 1000 + KB_CPU_SECONDS_MORE));
    if (bytes > 0)
        lower(RLIMIT_DATA, bytes);

    const struct itimerval time = {.it_value = {milliseconds / 1000, milliseconds % 1000 * 1000}};
    setitimer(ITIMER_REAL, &time, NULL); // a time of 0 sets none, and the command inherits none
    pid_t child = start(argv + 4, &before);
    for (;;) {
        int number = sigwaitinfo(&heard, NULL);
        if (number == SIGALRM) {
            kill_children(true);
            end_by(SIGALRM);
        }
        // The signal comes for the thread that started this process, too.
        bool told =
            number > 0 && number != SIGCHLD && (number != KB_PARENT_ENDED || getppid() != parent);
        if (told) {
            kill_children(true);
            return 1;
        }
        int status;
        for (pid_t ended; number == SIGCHLD && (ended = waitpid(-1, &status, WNOHANG)) > 0;)
            if (ended == child)
                end_as(status);
    }
}
