/* Proves that a compilation hands NVRTC what it was given and returns what NVRTC made, that every
 * function of NVRTC may fail, which libraries are refused, and that NVRTC takes no signals. */
#include "allocation.h"
#include "cuda/kb_nvrtc.h"
#include "fake_nvrtc.h"
#include "torture.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

static const char *const options[] = {"arch", "O2", "unused"};
static const char *const headers[] = {"int a;", "int b;"};
static const char *const header_names[] = {"a.h", "b.h"};

static const kb_nvrtc_request sample = {
    .library = FAKE_NVRTC_LIBRARY,
    .source = "source",
    .file = "k.cu",
    .n_options = 2,
    .options = options,
    .n_headers = 2,
    .headers = headers,
    .header_names = header_names,
    .name = "a::k<float>",
};

static void reset(void)
{
    fake_nvrtc = (fake_nvrtc_state){.log = "careful", .cubin = "CUBIN", .ptx = ".version"};
}

static void test_results(void)
{
    kb_nvrtc_result r;
    kb_error err;
    reset();
    CHECK_INT(kb_nvrtc_compile(&sample, &r, &err), KB_OK);
    CHECK_TEXT(fake_nvrtc.given, "source k.cu <a.h>int a; <b.h>int b; -arch -O2");
    CHECK_TEXT(r.entry, "low:a::k<float>");
    CHECK_TEXT(r.cubin, "CUBIN");
    CHECK_INT(r.cubin_size, sizeof "CUBIN");
    CHECK_TEXT(r.ptx, ".version");
    CHECK_TEXT(r.log, "careful");
    CHECK_PTR(r.probe, NULL);
    CHECK_INT(fake_nvrtc.n_programs, 0);
    kb_nvrtc_free(&r);

    kb_nvrtc_request probing = sample;
    probing.probe = "a::probe";
    CHECK_INT(kb_nvrtc_compile(&probing, &r, &err), KB_OK);
    CHECK_TEXT(r.entry, "low:a::k<float>");
    CHECK_TEXT(r.probe, "low:a::probe");
    kb_nvrtc_free(&r);
}

/* A virtual architecture has no cubin, another compiler no log. */
static void test_nothing(void)
{
    kb_nvrtc_result r;
    kb_error err;
    reset();
    fake_nvrtc.cubin = fake_nvrtc.log = NULL;
    CHECK_INT(kb_nvrtc_compile(&sample, &r, &err), KB_OK);
    CHECK_PTR(r.cubin, NULL);
    CHECK_INT(r.cubin_size, 0);
    CHECK_PTR(r.log, NULL);
    CHECK_TEXT(r.ptx, ".version");
    kb_nvrtc_free(&r);
    reset();
    fake_nvrtc.ptx = NULL;
    CHECK_INT(kb_nvrtc_compile(&sample, &r, &err), KB_OK);
    CHECK_PTR(r.ptx, NULL);
    CHECK_TEXT(r.cubin, "CUBIN");
    kb_nvrtc_free(&r);
}

/* What comes back ends with a NUL, whether or not it did in NVRTC. */
static void test_ends(void)
{
    kb_nvrtc_result r;
    kb_error err;
    reset();
    fake_nvrtc.unended = true;
    CHECK_INT(kb_nvrtc_compile(&sample, &r, &err), KB_OK);
    CHECK_TEXT(r.cubin, "CUBIN");
    CHECK_INT(r.cubin_size, strlen("CUBIN"));
    CHECK_TEXT(r.ptx, ".version");
    CHECK_TEXT(r.log, "careful");
    kb_nvrtc_free(&r);
}

/* The program is destroyed, and no function after the one that fails is called. */
static void test_failures(void)
{
    static const struct {
        const char *function, *said; /* NULL: the same */
        bool has_log, has_entry, has_cubin;
    } cases[] = {
        {"nvrtcCreateProgram", NULL, false, false, false},
        {"nvrtcAddNameExpression", NULL, false, false, false},
        {"nvrtcCompileProgram", NULL, true, false, false},
        {"nvrtcGetProgramLogSize", "nvrtcGetProgramLog", false, false, false},
        {"nvrtcGetProgramLog", NULL, true, false, false},
        {"nvrtcGetLoweredName", NULL, true, false, false},
        {"nvrtcGetCUBINSize", "nvrtcGetCUBIN", true, true, false},
        {"nvrtcGetCUBIN", NULL, true, true, true},
        {"nvrtcGetPTXSize", "nvrtcGetPTX", true, true, true},
        {"nvrtcGetPTX", NULL, true, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int codes[] = {6, 5};
        for (int j = 0; j < 2; j++) {
            kb_nvrtc_result r;
            kb_error err;
            char text[64];
            reset();
            fake_nvrtc.fails = cases[i].function;
            fake_nvrtc.code = codes[j];
            snprintf(text, sizeof text, "%s: error %d",
                     cases[i].said ? cases[i].said : cases[i].function, codes[j]);
            CHECK_INT(kb_nvrtc_compile(&sample, &r, &err),
                      codes[j] == 6 ? KB_INVALID_ARGUMENT : KB_INTERNAL);
            CHECK_TEXT(err.message, text);
            CHECK_INT(fake_nvrtc.n_programs, 0);
            CHECK_INT(r.log != NULL, cases[i].has_log);
            CHECK_INT(r.entry != NULL, cases[i].has_entry);
            CHECK_INT(r.cubin != NULL, cases[i].has_cubin);
            kb_nvrtc_free(&r);
        }
    }
}

/* A failure of the compiler has the log; that a name is missing counts after it. */
static void test_refused_source(void)
{
    kb_nvrtc_result r;
    kb_error err;
    reset();
    fake_nvrtc.fails = "nvrtcCompileProgram";
    fake_nvrtc.code = 6;
    fake_nvrtc.log = "k.cu(1): error";
    CHECK_INT(kb_nvrtc_compile(&sample, &r, &err), KB_INVALID_ARGUMENT);
    CHECK_TEXT(r.log, "k.cu(1): error");
    kb_nvrtc_free(&r);
}

static bool compile(void)
{
    kb_nvrtc_request probing = sample;
    kb_nvrtc_result r;
    kb_error err;
    probing.probe = "probe";
    reset();
    bool ok = had_memory(kb_nvrtc_compile(&probing, &r, &err), &err);
    CHECK_INT(fake_nvrtc.n_programs, 0);
    kb_nvrtc_free(&r);
    return ok;
}

/* Lets a library refuse to make programs. */
static void close_to_programs(fake_nvrtc_state *state)
{
    state->fails = "nvrtcCreateProgram";
    state->code = 5;
}

/* Opens a library that makes no programs. */
static kb_status open_only(const char *library, kb_error *err)
{
    kb_nvrtc_request request = sample;
    kb_nvrtc_result r;
    request.library = library;
    kb_status s = kb_nvrtc_compile(&request, &r, err);
    return s == KB_INTERNAL && strcmp(err->message, "nvrtcCreateProgram: error 5") == 0 ? KB_OK : s;
}

static void refused(const char *library, kb_status status, const char *text)
{
    kb_nvrtc_request request = sample;
    kb_nvrtc_result r;
    kb_error err;
    request.library = library;
    for (int i = 0; i < 2; i++) {
        CHECK_INT(kb_nvrtc_compile(&request, &r, &err), status);
        CHECK_HAS(err.message, text);
        CHECK(!r.log && !r.entry && !r.probe && !r.cubin && !r.ptx);
    }
}

static void test_libraries(void)
{
    reset();
    refused("/nowhere/libnvrtc.so", KB_NOT_FOUND, "/nowhere/libnvrtc.so: cannot open");
    refused("libm.so.6", KB_NOT_FOUND, "libm.so.6 lacks functions of NVRTC 11.1");
    refused(FAKE_NVRTC_WITHOUT_CUBIN, KB_NOT_FOUND, "lacks functions of NVRTC 11.1");
    refused(FAKE_NVRTC_WITHOUT_WORDS, KB_NOT_FOUND, "lacks functions of NVRTC 11.1");
}

/* Two paths are two libraries, and each is opened once. */
static void test_opened_once(void)
{
    kb_nvrtc_request request = sample;
    kb_nvrtc_result r;
    kb_error err;
    reset();
    request.library = FAKE_NVRTC_OTHER;
    CHECK_INT(kb_nvrtc_compile(&request, &r, &err), KB_OK);
    kb_nvrtc_free(&r);
    close_to_programs(&fake_nvrtc);
    torture_arm(TORTURE_LIBRARY, 1, true);
    CHECK_INT(open_only(FAKE_NVRTC_LIBRARY, &err), KB_OK);
    CHECK_INT(kb_nvrtc_compile(&request, &r, &err), KB_OK); /* failures are each library's own */
    CHECK_PTR(torture_disarm(), NULL);
    kb_nvrtc_free(&r);
}

static void *open_it(void *unused)
{
    kb_error err;
    CHECK_INT(open_only(FAKE_NVRTC_LIBRARY, &err), KB_OK);
    return unused;
}

/* The first use, from several threads at once: one of them opens the library. */
static void test_threads(void)
{
    enum { N = 4 };
    pthread_t threads[N];
    close_to_programs(&fake_nvrtc);
    long blocks = torture_count().blocks;
    for (int i = 0; i < N; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, open_it, NULL), 0);
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(torture_count().blocks - blocks, 1);
}

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

/* A fake library that this test opens, and its compilation without the core. */
typedef struct other {
    void *library;
    fake_nvrtc_state *state;
    int (*compile)(void *program, int n, const char *const *options);
} other;

static other open_other(const char *path)
{
    other o = {.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    CHECK(o.library != NULL);
    o.state = dlsym(o.library, "fake_nvrtc");
    void *found = dlsym(o.library, "nvrtcCompileProgram");
    memcpy(&o.compile, &found, sizeof found);
    return o;
}

static bool open_for_memory(void)
{
    kb_error err;
    close_to_programs(open_other(FAKE_NVRTC_THIRD).state);
    return had_memory(open_only(FAKE_NVRTC_THIRD, &err), &err);
}

/* The fake compiles once; its program is memory that it writes to. */
static void compile_in(const other *o, void (*during)(void))
{
    char program[4096] = {0};
    o->state->during = during;
    CHECK_INT(o->compile(program, 0, NULL), 0);
    o->state->during = NULL;
}

static void test_without_the_core(void)
{
    const other o = open_other(FAKE_NVRTC_BEFORE);
    compile_in(&o, note);
    CHECK(taken[0] != mine && taken[1] != mine);
    CHECK_PTR(taken[0], taken[1]);
    CHECK_PTR(handled(SIGINT), mine);
    CHECK_PTR(handled(SIGTERM), mine);
}

/* The core opens a library while it compiles for somebody else: it restores what it took. */
static void open_before(void)
{
    fake_nvrtc_state *state = open_other(FAKE_NVRTC_BEFORE).state;
    kb_error err;
    note();
    close_to_programs(state);
    CHECK_INT(open_only(FAKE_NVRTC_BEFORE, &err), KB_OK);
    state->fails = NULL;
}

static void test_taken_before(void)
{
    const other o = open_other(FAKE_NVRTC_BEFORE);
    compile_in(&o, open_before);
    CHECK(taken[0] != mine && taken[1] != mine);
    CHECK_PTR(handled(SIGINT), mine);
    CHECK_PTR(handled(SIGTERM), mine);
    compile_in(&o, note_and_press);
    CHECK(taken[0] == mine && taken[1] == mine);
}

static void test_ignored(void)
{
    signal(SIGINT, SIG_IGN);
    const other o = open_other(FAKE_NVRTC_BEFORE);
    compile_in(&o, note_and_press);
    CHECK(handled(SIGINT) == taken[0] && taken[0] != mine && taken[1] == mine);
    signal(SIGINT, press);
}

static void test_compilation_takes_no_signal(const char *library, fake_nvrtc_state *state)
{
    kb_nvrtc_request request = sample;
    kb_nvrtc_result r;
    kb_error err;
    request.library = library;
    taken[0] = taken[1] = NULL;
    n_pressed = 0;
    *state = (fake_nvrtc_state){.during = note_and_press, .ptx = ".version"};
    CHECK_INT(kb_nvrtc_compile(&request, &r, &err), KB_OK);
    kb_nvrtc_free(&r);
    state->during = NULL;
    CHECK(taken[0] == mine && taken[1] == mine);
    CHECK_INT(n_pressed, SIGINT + SIGTERM);
    CHECK_PTR(handled(SIGINT), mine);
    CHECK_PTR(handled(SIGTERM), mine);
}

typedef void bare(void (*during)(void));

static bare *open_bare(const char *path)
{
    bare *opened = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "compile_bare") : NULL;
    CHECK(found != NULL);
    memcpy(&opened, &found, sizeof found);
    return opened;
}

static bool takes_signal(bare *opened)
{
    opened(note);
    CHECK_PTR(handled(SIGINT), mine);
    return taken[0] != mine;
}

/* Libraries that others opened, by their names. */
static void test_usual_names(void)
{
    bare *first = open_bare(BARE_FIRST), *second = open_bare(BARE_SECOND);
    bare *without = open_bare(BARE_OTHER);
    CHECK(takes_signal(first) && takes_signal(second));
    CHECK(dlopen(BARE_BUILTINS, RTLD_NOW | RTLD_LOCAL) != NULL);
    kb_nvrtc_keep_signals(NULL);
    CHECK(!takes_signal(first) && !takes_signal(second));
    CHECK(takes_signal(without));
}

static void test_signals(void)
{
    signal(SIGINT, press);
    signal(SIGTERM, press);
    mine = handled(SIGINT);
    test_without_the_core();
    test_taken_before();
    test_ignored();
    test_usual_names();
    test_compilation_takes_no_signal(FAKE_NVRTC_LIBRARY, &fake_nvrtc);
    test_compilation_takes_no_signal(FAKE_NVRTC_SEALED, open_other(FAKE_NVRTC_SEALED).state);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

int main(void)
{
    test_threads();
    test_results();
    test_nothing();
    test_ends();
    test_failures();
    test_refused_source();
    test_libraries();
    test_opened_once();
    test_signals();
    each_allocation("compilation", compile, 5);
    each_allocation("library", open_for_memory, 1);
    return kb_test_end("test_nvrtc");
}
