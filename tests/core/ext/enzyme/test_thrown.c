/* Proves that code without unwinding fails with a text, and that what it has allocated is given
 * back once, whether it returns or fails. */
#include "ext/enzyme/kb_thrown.h"
#include "kb_test.h"
#include "torture.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>

/* As the entry of a derivative calls its function; returns the text of a failure, or NULL. */
static const char *run(int (*function)(void))
{
    jmp_buf place;
    kb_landing(&place);
    int code = 0;
    if (setjmp(place) == 0) {
        code = function();
        if (code == 0) {
            kb_landed();
            return NULL;
        }
    }
    return kb_failure(code)->pickle;
}

static int allocate(void)
{
    char *parts[5];
    for (int i = 0; i < 5; i++)
        memset(parts[i] = kb_new((size_t)i), i, (size_t)i);
    kb_delete(parts[2]);
    kb_delete(parts[4]);
    kb_delete(parts[0]);
    kb_delete(NULL);
    parts[3] = kb_resize(parts[3], 100);
    for (int i = 0; i < 3; i++)
        CHECK_INT(parts[3][i], 3);
    memset(parts[3], 1, 100); /* all of it: AddressSanitizer watches */
    kb_delete(kb_resize(NULL, 7));
    parts[3] = kb_resize(parts[3], 2);
    CHECK_INT(parts[3][1], 1);
    return 0; /* two parts are left */
}

static int throw_one(void)
{
    (void)kb_new(10);
    kb_thrown("std::domain_error: negative\0at x.cpp:3");
    return 0;
}

static int fail_with_text(void)
{
    (void)kb_new(10);
    return kb_failed(NULL, 3, "%d are too many", 9);
}

static int fail_without(void)
{
    return 5;
}

static int fail_at_length(void)
{
    char text[5000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    return kb_failed(NULL, 1, "%s", text);
}

static int need_too_much(void)
{
    (void)kb_new(SIZE_MAX - 3);
    return 0;
}

static int keep_values(void)
{
    char *values = kb_realloc_or_fail(kb_malloc_or_fail(0), 100);
    memset(values, 1, 100); /* all of it: AddressSanitizer watches */
    torture_free(values);
    torture_fail_nth(1);
    (void)kb_malloc_or_fail(8);
    return 0;
}

/* What a failure left behind would be lost with the thread: AddressSanitizer looks for it. */
static void *fail_in_thread(void *unused)
{
    CHECK_TEXT(run(fail_with_text), "9 are too many");
    return unused;
}

int main(void)
{
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, fail_in_thread, NULL), 0);
    CHECK_INT(pthread_join(thread, NULL), 0);
    CHECK_HAS(run(keep_values), "MemoryError: no memory");
    CHECK_PTR(run(allocate), NULL);
    const char *text = run(throw_one);
    CHECK_TEXT(text, "std::domain_error: negative");
    CHECK_TEXT(text + strlen(text) + 1, "at x.cpp:3");
    text = run(fail_with_text);
    CHECK_TEXT(text, "9 are too many");
    CHECK_TEXT(text + strlen(text) + 1, "");
    CHECK_TEXT(run(fail_without), "the function returned 5");
    text = run(fail_at_length);
    CHECK(strlen(text) > 1000 && text[strlen(text) + 1] == '\0');
    CHECK_TEXT(run(need_too_much), "std::bad_alloc");
    torture_fail_nth(2);
    CHECK_TEXT(run(allocate), "std::bad_alloc");
    torture_fail_nth(0);
    CHECK_PTR(run(allocate), NULL);
    return kb_test_end("test_thrown");
}
