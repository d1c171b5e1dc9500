/* Proves that NVRTC takes no signals once it is told so, whether or not it is compiling then. */
#include "cuda/kb_nvrtc.h"
#include "kb_test.h"
#include "torture.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int n_pressed;

static void press(int number)
{
    n_pressed += number;
}

static void *handled(int number)
{
    struct sigaction now;
    void *address;
    CHECK_INT(sigaction(number, NULL, &now), 0);
    memcpy(&address, &now.sa_handler, sizeof address);
    return address;
}

static void *mine, *taken[2]; /* the handlers: of the test, and while a library compiled */

static void note(void)
{
    taken[0] = handled(SIGINT);
    taken[1] = handled(SIGTERM);
}

static void note_and_press(void)
{
    note();
    raise(SIGINT);
    raise(SIGTERM);
}

typedef void compiler(void (*during)(void));

static void *library; /* that was opened last */

static compiler *open_library(const char *path, const void **inside)
{
    compiler *opened = NULL;
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "fake_nvrtc_compile") : NULL;
    CHECK(found != NULL);
    memcpy(&opened, &found, sizeof found);
    *inside = found;
    return opened;
}

static compiler *before; /* compiled for somebody else before it was told to keep the signals */
static const void *inside_before;

/* It restores what it took before it was told. */
static void tell(void)
{
    note();
    kb_nvrtc_keep_signals(inside_before);
}

static void test_told_while_it_compiles(void)
{
    before = open_library(FAKE_NVRTC_BEFORE, &inside_before);
    before(note);
    CHECK(taken[0] != mine && taken[1] != mine);
    CHECK_PTR(taken[0], taken[1]);
    before(tell);
    CHECK(taken[0] != mine && taken[1] != mine);
    CHECK_PTR(handled(SIGINT), mine);
    CHECK_PTR(handled(SIGTERM), mine);
    before(note_and_press);
    CHECK(taken[0] == mine && taken[1] == mine);
}

static void test_ignored(void)
{
    signal(SIGINT, SIG_IGN);
    before(note_and_press);
    CHECK(handled(SIGINT) == taken[0] && taken[0] != mine && taken[1] == mine);
    signal(SIGINT, press);
}

/* What a function of the library that was opened last returns. */
static int ask(const char *name, int number)
{
    int (*function)(int) = NULL;
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    memcpy(&function, &found, sizeof found);
    return function(number);
}

/* The table of its calls is writable or not. */
static void test_takes_no_signal(const char *path)
{
    const void *inside;
    compiler *compile = open_library(path, &inside);
    compile(note);
    CHECK(taken[0] != mine && taken[1] != mine);
    torture_arm(TORTURE_MAPPING, 1, false); /* the page of its table cannot be opened */
    kb_nvrtc_keep_signals(inside);
    CHECK_TEXT(torture_disarm(), "mprotect");
    compile(note);
    CHECK(taken[0] != mine && taken[1] != mine);
    kb_nvrtc_keep_signals(inside);
    n_pressed = 0;
    compile(note_and_press);
    CHECK(taken[0] == mine && taken[1] == mine);
    CHECK_INT(n_pressed, SIGINT + SIGTERM);
    CHECK_PTR(handled(SIGINT), mine);
    CHECK_PTR(handled(SIGTERM), mine);
    CHECK(ask("fake_nvrtc_is_refused", 0) && ask("fake_nvrtc_is_refused", -1)); /* are none */
    CHECK_INT(ask("fake_nvrtc_group", 0), getpgrp()); /* its other calls are as they were */
}

static bool takes_signal(compiler *opened)
{
    opened(note);
    CHECK_PTR(handled(SIGINT), mine);
    return taken[0] != mine;
}

/* Libraries that others opened, by their names. */
static void test_usual_names(void)
{
    const void *inside;
    compiler *first = open_library(FAKE_NVRTC_FIRST, &inside);
    compiler *second = open_library(FAKE_NVRTC_SECOND, &inside);
    compiler *without = open_library(FAKE_NVRTC_OTHER, &inside);
    CHECK(takes_signal(first) && takes_signal(second));
    CHECK(dlopen(FAKE_NVRTC_DATA, RTLD_NOW | RTLD_LOCAL) != NULL);
    kb_nvrtc_keep_signals(&inside); /* which is in no library */
    CHECK(takes_signal(first) && takes_signal(second));
    kb_nvrtc_keep_signals(NULL);
    CHECK(!takes_signal(first) && !takes_signal(second));
    CHECK(takes_signal(without));
}

int main(void)
{
    signal(SIGINT, press);
    signal(SIGTERM, press);
    mine = handled(SIGINT);
    test_told_while_it_compiles();
    test_ignored();
    test_usual_names();
    test_takes_no_signal(FAKE_NVRTC_OTHER);
    test_takes_no_signal(FAKE_NVRTC_SEALED);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    return kb_test_end("test_nvrtc");
}
