/* Proves that places in checked CUDA C++ have numbers of their own, which become file, line and
 * text again: of lines, of code, and of code in headers of ours, whose caller is named instead. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "hostcuda/kb_sites.h"

#include "kb_test.h"
#include "kernbridge/module.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/kb_sites_XXXXXX", room[KB_SITE_TEXT];

static const char *text_of_line(uint32_t line)
{
    return kb_site_text(kb_site_of_line(path, line), room);
}

static void test_lines(void)
{
    char expected[KB_SITE_TEXT], line[400];
    const char *name = strrchr(path, '/') + 1;
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!CHECK(file != NULL))
        return;
    fprintf(file, "first\n \t second = 2;\n\n%s\n%.100s\n%.99s\nlast", line, line, line);
    fclose(file);
    static const char *const texts[] = {"\tfirst", "\tsecond = 2;", "",       "\tx100",
                                        "\tx100",  "\tx99",         "\tlast", ""};
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = texts[i];
        bool is_long = strncmp(text, "\tx", 2) == 0;
        int shown = is_long ? atoi(text + 2) : 0;
        (void)snprintf(expected, sizeof expected, "%s:%u%s%.*s", name, i + 1, is_long ? "\t" : text,
                       shown, line);
        CHECK_TEXT(text_of_line(i + 1), expected);
    }
    (void)unlink(path);
    (void)snprintf(expected, sizeof expected, "%s:2", name);
    CHECK_TEXT(text_of_line(2), expected);
    CHECK_TEXT(kb_site_text(kb_site_of_line("k.cu", 65535), room), "k.cu:65535");
    CHECK_TEXT(kb_site_text(kb_site_of_line("/", 3), room), ":3");
}

/* Functions whose lines are known. */
// clang-format off
static __attribute__((noinline)) int of_test(volatile int *x) { return ++*x; } enum { OF_TEST = __LINE__ };
#line 70 "x/cuda_on_cpu/y.h"
static inline __attribute__((always_inline)) int of_header(volatile int *x) { return ++*x; }
#line 100 "sites_caller.cu"
static __attribute__((noinline)) int calls_header(volatile int *x) { return of_header(x) + 1; }
#line 71 "x/cuda_on_cpu/y.h"
static __attribute__((noinline)) int of_header_alone(volatile int *x) { return of_header(x) + 2; }
#line 62 "test_sites.c"
// clang-format on

typedef int a_function(volatile int *x);

/* An address within the first instruction of a function, as one is that follows a call. */
static const char *code_of(a_function *function)
{
    const char *at;
    memcpy(&at, &function, sizeof at);
    return at + 1;
}

static const char *text_of_code(const char *code)
{
    return kb_site_text(kb_site_of_code(code), room);
}

static void test_code(void)
{
    char expected[KB_SITE_TEXT];
    volatile int x = 0;
    (void)snprintf(expected, sizeof expected, "test_sites.c:%d", OF_TEST);
    CHECK_HAS(text_of_code(code_of(of_test)), expected);
    CHECK_TEXT(text_of_code(code_of(calls_header)), "sites_caller.cu:100");
    CHECK_TEXT(text_of_code(code_of(of_header_alone)), "");
    CHECK_INT(of_test(&x) + calls_header(&x) + of_header_alone(&x), 1 + 3 + 5);
    CHECK_TEXT(text_of_code((const char *)1), "");
    CHECK_TEXT(text_of_code(room), "");
}

/* A library that only this process has under its name. */
static void test_library(void)
{
    char own[64];
    int fd = open(LIBRARY_SAMPLE, O_RDONLY | O_CLOEXEC);
    (void)snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    void *library = dlopen(own, RTLD_NOW | RTLD_LOCAL);
    const kb_module *module = library ? dlsym(library, "kb_module_description") : NULL;
    const char *scale;
    if (!CHECK(module != NULL))
        return;
    memcpy(&scale, &module->exports[0].run, sizeof scale);
    CHECK_HAS(text_of_code(scale + 1), "library_sample.c:");
    CHECK_HAS(room, "\t");
    (void)close(fd);
}

/* Without addr2line no line is known, and the process goes on. */
static void test_nothing_to_ask(void)
{
    uint32_t site = kb_site_of_code(code_of(of_test));
    char *before = strdup(getenv("PATH"));
    setenv("PATH", "/kb_there_is_no_such_folder", 1);
    CHECK_TEXT(kb_site_text(site, room), "");
    setenv("PATH", before, 1);
    free(before);
    CHECK_HAS(kb_site_text(site, room), "test_sites.c:");
}

/* The last test, which fills the table. */
static void test_numbers(void)
{
    enum { MANY = 60000 };
    static uint32_t numbers[MANY];
    static const char file[] = "many.cu";
    uint32_t n_none = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        numbers[i] = kb_site_of_line(file, i + 1);
        n_none += numbers[i] == 0;
        CHECK(numbers[i] < 1 << 15);
    }
    CHECK(n_none > MANY / 3 && n_none < MANY / 2);
    for (uint32_t i = 0; i < MANY; i += 999) {
        char expected[32];
        CHECK_INT(kb_site_of_line(file, i + 1), numbers[i]);
        (void)snprintf(expected, sizeof expected, "many.cu:%u", i + 1);
        CHECK_TEXT(kb_site_text(numbers[i], room), numbers[i] ? expected : "");
    }
    CHECK_TEXT(kb_site_text(1 << 15, room), "");
    CHECK_TEXT(kb_site_text(UINT32_MAX, room), "");
}

int main(void)
{
    test_lines();
    test_code();
    test_library();
    test_nothing_to_ask();
    test_numbers();
    return kb_test_end("test_sites");
}
