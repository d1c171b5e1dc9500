/* Checks for the programs of tests/core. A check records and prints a failure and nothing else: it
 * never returns, jumps or exits, and its value tells whether it held. Any thread may check.
 *
 * A program calls its test functions from main in order, and ends with
 * `return kb_test_end("test_x")`: 0 passed, 1 failed, 77 skipped. */
#ifndef KB_TEST_H
#define KB_TEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { KB_TEST_PASS = 0, KB_TEST_FAIL = 1, KB_TEST_SKIP = 77 };

/* Of the whole program, whichever of its sources include this. */
__attribute__((weak)) atomic_long kb_test_checks;
__attribute__((weak)) atomic_long kb_test_failures;

static inline bool kb_test_record(bool ok)
{
    atomic_fetch_add_explicit(&kb_test_checks, 1, memory_order_relaxed);
    if (!ok)
        atomic_fetch_add_explicit(&kb_test_failures, 1, memory_order_relaxed);
    return ok;
}

static inline bool kb_test_true(const char *file, int line, const char *expression, bool ok)
{
    if (!ok)
        fprintf(stderr, "%s:%d: %s is false\n", file, line, expression);
    return kb_test_record(ok);
}

static inline bool kb_test_int(const char *file, int line, const char *expression, long long got,
                               long long expected)
{
    if (got != expected)
        fprintf(stderr, "%s:%d: %s: got %lld, expected %lld\n", file, line, expression, got,
                expected);
    return kb_test_record(got == expected);
}

static inline bool kb_test_pointer(const char *file, int line, const char *expression,
                                   const void *got, const void *expected)
{
    if (got != expected)
        fprintf(stderr, "%s:%d: %s: got %p, expected %p\n", file, line, expression, got, expected);
    return kb_test_record(got == expected);
}

static inline bool kb_test_text(const char *file, int line, const char *expression, const char *got,
                                const char *expected)
{
    bool ok = got && strcmp(got, expected) == 0;
    if (!ok)
        fprintf(stderr, "%s:%d: %s: got \"%s\", expected \"%s\"\n", file, line, expression,
                got ? got : "(NULL)", expected);
    return kb_test_record(ok);
}

static inline bool kb_test_has(const char *file, int line, const char *expression, const char *got,
                               const char *part)
{
    bool ok = got && strstr(got, part);
    if (!ok)
        fprintf(stderr, "%s:%d: %s: got \"%s\", expected \"%s\" in it\n", file, line, expression,
                got ? got : "(NULL)", part);
    return kb_test_record(ok);
}

#define CHECK(expression)     kb_test_true(__FILE__, __LINE__, #expression, (expression))
#define CHECK_INT(got, want)  kb_test_int(__FILE__, __LINE__, #got, (long long)(got), (want))
#define CHECK_PTR(got, want)  kb_test_pointer(__FILE__, __LINE__, #got, (got), (want))
#define CHECK_TEXT(got, want) kb_test_text(__FILE__, __LINE__, #got, (got), (want))
#define CHECK_HAS(got, part)  kb_test_has(__FILE__, __LINE__, #got, (got), (part))

static inline int kb_test_end(const char *program)
{
    long checks = atomic_load(&kb_test_checks), failures = atomic_load(&kb_test_failures);
    printf("%s: %ld checks, %ld failed\n", program, checks, failures);
    return failures || !checks ? KB_TEST_FAIL : KB_TEST_PASS;
}

#endif
