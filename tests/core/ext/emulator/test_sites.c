/* Proves that places in checked CUDA C++ have numbers of their own, which become file, line and
 * text again: of lines, of code, and of code in headers of ours, whose caller is named instead. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "ext/emulator/kb_check.h"

#include "kb_test.h"
#include "kernbridge/module.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
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
    fprintf(file, "first\n \t second = 2;\n\n%s\n%.100s\n%.99s\n%100s\n%101s\nlast", line, line,
            line, "y", "y");
    fclose(file);
    static const char *const texts[] = {"\tfirst", "\tsecond = 2;", "", "\tx100", "\tx100",
                                        "\tx99",   "\ty",           "", "\tlast", ""};
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
#line 70 "x/include/ext/emulator/y.h"
static inline __attribute__((always_inline)) int of_header(volatile int *x) { return ++*x; }
#line 100 "sites_caller.cu"
static __attribute__((noinline)) int calls_header(volatile int *x) { return of_header(x) + 1; }
#line 71 "x/include/ext/emulator/y.h"
static __attribute__((noinline)) int of_header_alone(volatile int *x) { return of_header(x) + 2; }
#line 66 "test_sites.c"
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

/* Asks a program of ours in place of addr2line; NULL for none. */
static const char *text_from(const char *script, uint32_t site)
{
    char folder[] = "/tmp/kb_sites_XXXXXX", program[64], found[4096];
    char *before = strdup(getenv("PATH"));
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(program, sizeof program, "%s/addr2line", folder);
    (void)snprintf(found, sizeof found, "%s%s%s", folder, script ? ":" : "", script ? before : "");
    FILE *file = script ? fopen(program, "w") : NULL;
    if (file) {
        fprintf(file, "#!/bin/sh\n%s\n", script);
        fclose(file);
        CHECK_INT(chmod(program, S_IRWXU), 0);
    }
    setenv("PATH", found, 1);
    const char *text = kb_site_text(site, room);
    setenv("PATH", before, 1);
    free(before);
    (void)unlink(program);
    (void)rmdir(folder);
    return text;
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
    char expected[KB_SITE_TEXT];
    (void)snprintf(expected, sizeof expected, "%s:60000", strrchr(LIBRARY_SAMPLE, '/') + 1);
    CHECK_TEXT(text_from("readlink \"$3\" | sed 's/$/:60000/'", kb_site_of_code(scale + 1)),
               expected);
    (void)close(fd);
}

/* What is asked for, and answers of every sort. Without one the process goes on. */
static void test_what_is_asked(void)
{
    char expected[KB_SITE_TEXT];
    Dl_info about;
    const char *code = code_of(of_test);
    uint32_t site = kb_site_of_code(code);
    CHECK(dladdr(code, &about) != 0);
    (void)snprintf(expected, sizeof expected, "-i -e 0x%zx:5",
                   (size_t)(code - 1 - (const char *)about.dli_fbase));
    CHECK_TEXT(text_from("echo \"$1 $2 $4:5\"", site), expected);
    CHECK_TEXT(
        text_from("echo '??:0'; echo '?:3'; echo no_colon; echo d/a.cu:17; echo b.cu:18", site),
        "a.cu:17");
    CHECK_TEXT(text_from("echo a/include/ext/emulator/b.hpp:3", site), "");
    CHECK_TEXT(text_from("head -c 100000 /dev/zero | tr '\\0' x", site), "");
    CHECK_TEXT(
        text_from("for i in 1 2 3; do head -c 4000 /dev/zero | tr '\\0' x; sleep 0.05; done", site),
        "");
    CHECK_TEXT(text_from("printf d; sleep 0.02; printf /a.cu:; sleep 0.02; printf 1; sleep 0.02; "
                         "printf 7",
                         site),
               "a.cu:17");
    CHECK_TEXT(text_from("exit 1", site), "");
    CHECK_TEXT(text_from(NULL, site), "");
    struct rlimit limit, files;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &files), 0);
    limit = files;
    limit.rlim_cur = 0;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const char *text = kb_site_text(site, room);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &files), 0);
    CHECK_TEXT(text, "");
    CHECK_HAS(kb_site_text(site, room), "test_sites.c:");
}

/* Where the library can be read, and no program can be asked. */
static void test_no_pipes(void)
{
    uint32_t site = kb_site_of_code(code_of(of_test));
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    struct rlimit limit, files;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &files), 0);
    limit = files;
    limit.rlim_cur = (rlim_t)next + 1;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const char *text = kb_site_text(site, room);
    CHECK_TEXT(text, "");
    int again = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_INT(again, next); /* the library is closed */
    close(again);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/* What the program complains about is not shown, and it is not left behind. */
static void test_complaints(void)
{
    char complaints[] = "/tmp/kb_sites_XXXXXX";
    int fd = mkstemp(complaints), before = dup(STDERR_FILENO);
    (void)unlink(complaints);
    if (!CHECK(fd >= 0 && before >= 0))
        return;
    dup2(fd, STDERR_FILENO);
    const char *text =
        text_from("echo complaint >&2; echo a.cu:17", kb_site_of_code(code_of(of_test)));
    dup2(before, STDERR_FILENO);
    CHECK_TEXT(text, "a.cu:17");
    CHECK_INT(lseek(fd, 0, SEEK_END), 0);
    close(fd);
    close(before);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0); /* there are no children */
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
        CHECK(numbers[i] != 0 || i > 16000);
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
    test_what_is_asked();
    test_no_pipes();
    test_complaints();
    test_numbers();
    return kb_test_end("test_sites");
}
