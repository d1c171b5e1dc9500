/* Owns the runs of a scenario. */
#include "scenario.h"

#include "kb_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What a run leaves in its exit status. */
enum { FAILED_AND_REPORTED = 40, FAILED_AND_SURVIVED, NOTHING_FAILED };

enum { REQUESTS_MAX = 5000, SECONDS = 60, SETTLE_MS = 5000 };

static torture_taken expected; /* what is held after two runs without a failure */

kb_status scenario_answer(kb_xla_error *error, kb_error *err)
{
    if (!error)
        return KB_OK;
    kb_status s = kb_error_set(err, (kb_status)error->code, "%s", error->message);
    fake_error_destroy(error);
    return s;
}

static bool is_among(const char *word, const char *words)
{
    size_t size = strlen(word);
    for (const char *at = words; at && (at = strstr(at, word)); at += size)
        if ((at == words || at[-1] == ' ') && (!at[size] || at[size] == ' '))
            return true;
    return false;
}

/* What a message says that names this cause. A function of the driver is named itself, or the one
 * that was called after it, if all fail. */
static const char *words_of(const char *function)
{
    if (torture_lasts() && strncmp(function, "cu", 2) == 0)
        return "CUDA_ERROR_OUT_OF_MEMORY";
    static const char *const words[][2] = {
        {"malloc", "no memory"},
        {"calloc", "no memory"},
        {"aligned_alloc", "no memory"},
        {"tsearch", "no memory"},
        {"pthread_mutex_init", "no memory"},
        {"mmap", "no memory"},
        {"mprotect", "mprotect failed"},
        {"memfd_create", "memfd_create failed: Too many open files"},
        {"write", "Input/output error"},
        {"fopen", "Too many open files"},
        {"fseek", "Input/output error"},
        {"ftell", "Input/output error"},
        {"fread", "Input/output error"},
        {"dlopen", "/torture/missing.so"},
        {"stream_get", "no CUDA stream"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i][0], function) == 0)
            return words[i][1];
    return function;
}

static void check_error(const scenario *s, kb_status status, const kb_error *err,
                        const char *function)
{
    CHECK_INT(err->status, status);
    bool named =
        strstr(err->message, words_of(function)) || (s->words && strstr(err->message, s->words));
    if (!CHECK(named))
        fprintf(stderr, "%s: %s failed, and the message is \"%s\"\n", s->name, function,
                err->message);
}

/* Threads that the core has started give back what they hold when they end. */
static bool holds_as_expected(void)
{
    struct timespec pause = {0, 1000000};
    torture_taken now = torture_count();
    for (int i = 0; i < SETTLE_MS && memcmp(&now, &expected, sizeof now) != 0; i++) {
        nanosleep(&pause, NULL);
        now = torture_count();
    }
    return memcmp(&now, &expected, sizeof now) == 0;
}

static void check_held(const char *name, const char *function)
{
    if (CHECK(holds_as_expected()))
        return;
    torture_taken now = torture_count();
    fprintf(stderr,
            "%s, after %s: %ld blocks, %ld mappings, %ld files, %ld locks; expected %ld, %ld, "
            "%ld, %ld\n",
            name, function, now.blocks, now.mappings, now.files, now.locks, expected.blocks,
            expected.mappings, expected.files, expected.locks);
}

static int run_with(const scenario *s, torture_kind kind, int n, bool lasting)
{
    kb_error err = {0}, again = {0};
    torture_arm(kind, n, lasting);
    kb_status status = s->run(&err);
    fake_pool_join();
    const char *function = torture_disarm();
    if (!function) {
        CHECK_INT(status, KB_OK);
        check_held(s->name, "nothing");
        return NOTHING_FAILED;
    }
    if (status != KB_OK)
        check_error(s, status, &err, function);
    else if (!CHECK(is_among(function, s->survives)))
        fprintf(stderr, "%s: %s failed, and nobody noticed\n", s->name, function);
    kb_status next = s->run(&again);
    fake_pool_join();
    if (s->lasting && status != KB_OK) {
        CHECK_INT(next, status);
        CHECK_TEXT(again.message, err.message);
    } else {
        if (!CHECK_INT(next, KB_OK))
            fprintf(stderr, "%s, after %s: %s\n", s->name, function, again.message);
        check_held(s->name, function);
    }
    CHECK_INT(fake_errors_alive(), 0);
    return status == KB_OK ? FAILED_AND_SURVIVED : FAILED_AND_REPORTED;
}

/* Runs in a process of its own; -1 if that process did not end as it should. Its exit runs the leak
 * checker of AddressSanitizer, which changes the status. */
static int run_in_child(const scenario *s, torture_kind kind, int n, bool lasting)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        atomic_store(&kb_test_failures, 0); /* those of the parent are not ours */
        int result = run_with(s, kind, n, lasting);
        exit(atomic_load(&kb_test_failures) ? KB_TEST_FAIL : result);
    }
    if (!CHECK(child > 0 && waitpid(child, &status, 0) == child))
        return -1;
    int result = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (!CHECK(result >= FAILED_AND_REPORTED && result <= NOTHING_FAILED)) {
        fprintf(stderr, "%s: with %s request %d%s failing the process ended with status %#x\n",
                s->name, torture_names[kind], n, lasting ? " and all later ones" : "",
                (unsigned)status);
        return -1;
    }
    return result;
}

/* What the scenario holds in the end, from a process where it ran twice: it must not grow. */
static bool measure(const scenario *s)
{
    int ends[2];
    fflush(NULL);
    pid_t child = pipe(ends) == 0 ? fork() : -1;
    if (child == 0) {
        kb_error err;
        alarm(SECONDS);
        atomic_store(&kb_test_failures, 0);
        for (int i = 0; i < 2; i++) {
            if (!CHECK_INT(s->run(&err), KB_OK))
                fprintf(stderr, "%s: %s\n", s->name, err.message);
            fake_pool_join();
            if (i == 0)
                expected = torture_count();
        }
        check_held(s->name, "nothing, but a second time");
        bool written = write(ends[1], &expected, sizeof expected) == sizeof expected;
        exit(atomic_load(&kb_test_failures) || !written);
    }
    int status = 0;
    CHECK(child > 0 && read(ends[0], &expected, sizeof expected) == sizeof expected);
    CHECK(waitpid(child, &status, 0) == child);
    close(ends[0]);
    close(ends[1]);
    return CHECK_INT(status, 0);
}

/* With a sanitizer a process costs twenty times as much: only every so many-th request fails then,
 * unless KB_TORTURE=all is in the environment. */
static int stride(void)
{
    const char *how_many = getenv("KB_TORTURE");
    bool all = how_many && strcmp(how_many, "all") == 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return all ? 1 : 16;
#else
    (void)all;
    return 1;
#endif
}

void scenario_torture(const scenario *s)
{
    int n_failed[TORTURE_KINDS] = {0}, n_survived = 0, n_all = 0;
    if (!measure(s))
        return;
    for (torture_kind kind = TORTURE_MEMORY; kind < TORTURE_KINDS; kind++)
        for (int lasting = 0; lasting < 2; lasting++)
            for (int n = 1; n < REQUESTS_MAX; n += stride()) {
                int result = run_in_child(s, kind, n, lasting);
                if (result < 0)
                    return;
                if (result == NOTHING_FAILED)
                    break;
                n_failed[kind]++;
                n_survived += result == FAILED_AND_SURVIVED;
            }
    printf("%s:", s->name);
    for (int kind = 0; kind < TORTURE_KINDS; kind++) {
        int least = (2 * s->at_least[kind] + stride() - 1) / stride();
        if (!CHECK(n_failed[kind] >= least))
            fprintf(stderr, "%s: %d requests of the kind %s failed, expected %d or more\n", s->name,
                    n_failed[kind], torture_names[kind], least);
        printf(" %s %d", torture_names[kind], n_failed[kind]);
        n_all += n_failed[kind];
    }
    printf("; %d failures, %d of them survived\n", n_all, n_survived);
}
