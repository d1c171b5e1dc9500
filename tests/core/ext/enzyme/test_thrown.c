/* Proves that code without unwinding fails with a text, and that what it has allocated is given
 * back once, whether it returns or fails. */
#include "abi/kb_numba.h"
#include "core/kb_error.h"
#include "core/kb_extension.h"
#include "kb_test.h"
#include "torture.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>
#include <wchar.h>

extern const kb_extension kb_enzyme;

/* What machine code finds by its name. */
static void (*kb_landing)(void *place);
static void (*kb_landed)(void);
static kb_numba_exception *(*kb_failure)(int32_t code);
static void (*kb_thrown)(const char *text);
static int (*kb_failed)(const void *call, int code, const char *format, ...);
static void *(*kb_new)(size_t bytes);
static void (*kb_delete)(void *memory);
static void *(*kb_resize)(void *memory, size_t bytes);
static void *(*kb_malloc_or_fail)(size_t bytes);
static void *(*kb_realloc_or_fail)(void *memory, size_t bytes);

static void find(const char *name, void *function)
{
    void *found = kb_symbol_find(kb_enzyme.symbols, name);
    CHECK(found != NULL);
    memcpy(function, &found, sizeof found);
}

/* The names of operator new and delete are of the same functions. */
static void find_all(void)
{
    find("kb_landing", &kb_landing);
    find("kb_landed", &kb_landed);
    find("kb_failure", &kb_failure);
    find("kb_thrown", &kb_thrown);
    find("kb_failed", &kb_failed);
    find("_Znwm", &kb_new);
    find("_ZdlPv", &kb_delete);
    find("kb_resize", &kb_resize);
    find("kb_malloc", &kb_malloc_or_fail);
    find("kb_realloc", &kb_realloc_or_fail);
    CHECK_PTR(kb_symbol_find(kb_enzyme.symbols, "_Znam"),
              kb_symbol_find(kb_enzyme.symbols, "_Znwm"));
    static const char *const deletes[] = {"_ZdaPv", "_ZdlPvm", "_ZdaPvm"};
    for (int i = 0; i < 3; i++)
        CHECK_PTR(kb_symbol_find(kb_enzyme.symbols, deletes[i]),
                  kb_symbol_find(kb_enzyme.symbols, "_ZdlPv"));
}

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

static char long_text[5000];

static int fail_at_length(void)
{
    return kb_failed(NULL, 1, "%s", long_text);
}

/* What ends with the room for it, or close to its end, or cannot be written at all. */
static void test_lengths(void)
{
    enum { ROOM = KB_ERROR_CAPACITY - 2 };
    for (int i = -3; i < 4; i++) {
        size_t n = (size_t)(ROOM + i), shown = i < 0 ? n : ROOM;
        memset(long_text, 'y', sizeof long_text - 1);
        (void)run(fail_at_length); /* what is left of it is not read */
        memset(long_text, 'x', n);
        long_text[n] = '\0';
        const char *text = run(fail_at_length);
        CHECK_INT(strlen(text), shown);
        CHECK(strspn(text, "x") == shown && text[shown + 1] == '\0');
    }
}

static int fail_unwritten(void)
{
    static const wchar_t none[] = {(wchar_t)0xD800, 0}; /* no character */
    return kb_failed(NULL, 1, "%ls", none);
}

static int need_most(void)
{
    (void)kb_new(SIZE_MAX - 32); /* with what stands before it, the most that there is */
    return 0;
}

/* Nobody waits for what is thrown but the landing, with any number but 0. */
static void test_landing(void)
{
    jmp_buf place;
    kb_landing(&place);
    volatile int code = -1;
    int got = setjmp(place);
    if (code < 0) {
        code = 0;
        kb_thrown("text\0");
    }
    CHECK_INT(got, 1);
    kb_landed();
}

static int resize_to_nothing(void)
{
    char *part = kb_realloc_or_fail(kb_malloc_or_fail(0), 0);
    CHECK(part != NULL);
    torture_free(part);
    return 0;
}

static int allocate_two(void)
{
    char *part = kb_new(3);
    memset(part, 5, 3);
    part = kb_resize(part, 2);
    part = kb_resize(part, 20);
    CHECK(part[0] == 5 && part[1] == 5);
    part = kb_resize(part, 19);
    return 0;
}

/* What is given back is no longer held. */
static void test_held(void)
{
    long before = torture_count().blocks;
    CHECK_PTR(run(allocate), NULL);
    CHECK_INT(torture_count().blocks, before);
    CHECK_PTR(run(allocate_two), NULL);
    CHECK_INT(torture_count().blocks, before);
    CHECK_TEXT(run(fail_with_text), "9 are too many");
    CHECK_INT(torture_count().blocks, before);
    CHECK_TEXT(run(throw_one), "std::domain_error: negative");
    CHECK_INT(torture_count().blocks, before);
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
    find_all();
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
    test_lengths();
    text = run(fail_unwritten);
    CHECK(text[1] == '\0'); /* the place is empty, whatever the text is */
    CHECK_PTR(run(resize_to_nothing), NULL);
    torture_arm(TORTURE_MEMORY, 1, false);
    CHECK_TEXT(run(need_most), "std::bad_alloc");
    CHECK_TEXT(torture_disarm(), "malloc"); /* it was asked for */
    test_landing();
    test_held();
    CHECK_TEXT(run(need_too_much), "std::bad_alloc");
    torture_fail_nth(2);
    CHECK_TEXT(run(allocate), "std::bad_alloc");
    torture_fail_nth(0);
    CHECK_PTR(run(allocate), NULL);
    return kb_test_end("test_thrown");
}
