/* Proves what is said where there is no CUDA driver, an old one, one without a GPU, or one that
 * fails. The driver is opened once a process: each scene is this program again, with the scene's
 * name and an environment. */
#include "cuda/kb_driver.h"
#include "cuda/kb_function.h"
#include "fake_cuda.h"
#include "kb_test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const required[] = {
#define NAME(name, parameters) #name,
    KB_DRIVER_LIST(NAME)
#undef NAME
};

/* Twice the same reason, and the count of devices gives it too. */
static void refused(kb_status status, const char *text)
{
    kb_error err;
    for (int i = 0; i < 2; i++) {
        err.status = KB_OK;
        CHECK(kb_driver_get(&err) == NULL);
        CHECK_INT(err.status, status);
        CHECK_HAS(err.message, text);
    }
    err.status = KB_OK;
    CHECK_INT(kb_driver_device_count(&err), 0);
    CHECK_INT(err.status, status);
    CHECK_HAS(err.message, text);
}

static void scene_nowhere(void)
{
    refused(KB_NOT_FOUND, "no CUDA driver: /nowhere/libcuda.so: ");
    CHECK_INT(fake_cuda_calls("cuInit"), 0); /* though this program has one */
    kb_error err = {.status = KB_OK};
    double share;
    CHECK_INT(kb_occupancy("", "k", 32, 0, &share, &err), KB_NOT_FOUND);
    CHECK_HAS(err.message, "no CUDA driver: /nowhere/libcuda.so: ");
}

static void scene_default(void)
{
    refused(KB_NOT_FOUND, "no CUDA driver: libcuda.so.1: ");
}

static void scene_no_driver_at_all(void)
{
    refused(KB_FAILED_PRECONDITION,
            "the CUDA driver is older than CUDA 12.0, which kernbridge needs");
}

static void scene_missing(void)
{
    char text[128];
    snprintf(text, sizeof text, "the CUDA driver has no %s; kernbridge needs CUDA 12.0 or newer",
             getenv("FAKE_CUDA_MISSING"));
    refused(KB_FAILED_PRECONDITION, text);
    CHECK_INT(fake_cuda_calls("cuInit"), 0);
}

static void scene_optional(void)
{
    kb_error err;
    const kb_driver *cu = kb_driver_get(&err);
    if (CHECK(cu != NULL)) {
        CHECK(!cu->cuKernelGetParamInfo);
        CHECK(cu->cuMemcpyHtoDAsync != NULL);
    }
}

static void scene_init_fails(void)
{
    refused(KB_INTERNAL, "no GPU can be used: cuInit failed: CUDA_ERROR_UNKNOWN (unknown error, "
                         "code 999)");
    CHECK_INT(fake_cuda_calls("cuInit"), 1);
}

static void scene_no_device(void)
{
    refused(KB_INTERNAL, "no GPU can be used: cuInit failed: CUDA_ERROR_NO_DEVICE (no CUDA-capable "
                         "device is detected, code 100)");
}

static void *get(void *result)
{
    kb_error err;
    *(const kb_driver **)result = kb_driver_get(&err);
    return NULL;
}

static void check_threads(void)
{
    enum { N = 8 };
    pthread_t threads[N];
    const kb_driver *got[N];
    for (int i = 0; i < N; i++)
        pthread_create(&threads[i], NULL, get, &got[i]);
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < N; i++)
        CHECK(got[i] && got[i] == got[0]);
    CHECK_INT(fake_cuda_calls("cuInit"), 1);
}

static void expect_words(const kb_driver *cu, int code, const char *call, const char *words)
{
    kb_error err;
    CHECK_INT(kb_driver_fail(&err, cu, (kb_cu_result)code, call, "op: a launch"), KB_INTERNAL);
    CHECK_INT(err.status, KB_INTERNAL);
    CHECK_TEXT(err.message, words);
}

#define EARLIER                                                                                    \
    ". A kernel did this while it ran: possibly an earlier one, of this operation or of another. " \
    "The CUDA context is lost, and every later call fails: restart the process. "                  \
    "KERNBRIDGE_DEBUG=sync reports the launch"
#define LOST ". The CUDA context is lost: restart the process"

static void check_words(const kb_driver *cu)
{
    expect_words(cu, 1, "cuLaunchKernelEx",
                 "op: a launch: cuLaunchKernelEx failed: CUDA_ERROR_INVALID_VALUE (invalid "
                 "argument, code 1)");
    expect_words(cu, 700, "cuLaunchKernelEx",
                 "op: a launch: cuLaunchKernelEx failed: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal "
                 "memory access was encountered, code 700)" EARLIER);
    expect_words(cu, 700, "cuStreamSynchronize",
                 "op: a launch: cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal "
                 "memory access was encountered, code 700)" LOST);
    expect_words(cu, 12345, "cuCtxGetCurrent",
                 "op: a launch: cuCtxGetCurrent failed: an unknown error (no description, code "
                 "12345)");
    const int faults[] = {214, 700, 702, 710, 714, 715, 716, 717, 718, 719};
    const int others[] = {1, 2, 200, 201, 209, 400, 500, 701, 720, 900, 999};
    kb_error err;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        kb_driver_fail(&err, cu, (kb_cu_result)faults[i], "cuMemsetD8Async", "op");
        CHECK_HAS(err.message, EARLIER);
        kb_driver_fail(&err, cu, (kb_cu_result)faults[i], "cuStreamSynchronize", "op");
        CHECK_HAS(err.message, LOST);
        CHECK(!strstr(err.message, "earlier"));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        kb_driver_fail(&err, cu, (kb_cu_result)others[i], "cuLaunchKernelEx", "op");
        CHECK(!strstr(err.message, "lost"));
    }
}

static kb_cu_result text_refused(kb_cu_result code, const char **text)
{
    *text = code ? "of another code" : "";
    return 1;
}

static kb_cu_result text_missing(kb_cu_result code, const char **text)
{
    (void)code;
    *text = NULL;
    return KB_CU_SUCCESS;
}

/* What a driver does not describe has words all the same. */
static void check_without_words(const kb_driver *cu)
{
    kb_driver mute = *cu;
    mute.cuGetErrorString = text_refused;
    expect_words(&mute, 1, "cuInit",
                 "op: a launch: cuInit failed: CUDA_ERROR_INVALID_VALUE (no description, code 1)");
    mute.cuGetErrorName = text_refused;
    mute.cuGetErrorString = text_missing;
    expect_words(&mute, 1, "cuInit",
                 "op: a launch: cuInit failed: an unknown error (no description, code 1)");
    mute.cuGetErrorName = text_missing;
    expect_words(&mute, 1, "cuInit",
                 "op: a launch: cuInit failed: an unknown error (no description, code 1)");
}

static kb_cu_result count_none(int *n)
{
    *n = 0;
    return KB_CU_SUCCESS;
}

/* A driver that works and has nothing to work on. */
static void check_without_devices(const kb_driver *cu)
{
    kb_driver *driver = (kb_driver *)(uintptr_t)cu, real = *cu;
    kb_error err;
    driver->cuDeviceGetCount = count_none;
    CHECK_INT(kb_driver_device_count(&err), 0);
    CHECK_INT(err.status, KB_NOT_FOUND);
    CHECK_TEXT(err.message, "the CUDA driver shows no GPU");
    *driver = real;
}

static void scene_works(void)
{
    check_threads();
    kb_error err;
    const kb_driver *cu = kb_driver_get(&err);
    CHECK_INT(kb_driver_device_count(&err), 3);
    check_words(cu);
    check_without_words(cu);
    check_without_devices(cu);
    fake_cuda_fail("cuDeviceGetCount", 1, 999);
    CHECK_INT(kb_driver_device_count(&err), 0);
    CHECK_HAS(err.message, "no GPU can be used: cuDeviceGetCount failed: CUDA_ERROR_UNKNOWN");
    CHECK_INT(kb_driver_device_count(&err), 3);
}

typedef struct scene {
    const char *name;
    void (*play)(void);
    const char *library;
    const char *variable, *value;
} scene;

static const scene scenes[] = {
    {"nowhere", scene_nowhere, "/nowhere/libcuda.so", NULL, NULL},
    {"default", scene_default, "", NULL, NULL},
    {"unset", scene_default, NULL, NULL, NULL},
    {"no driver at all", scene_no_driver_at_all, "libm.so.6", NULL, NULL},
    {"optional", scene_optional, FAKE_CUDA_LIBRARY, "FAKE_CUDA_MISSING", "cuKernelGetParamInfo"},
    {"cuInit fails", scene_init_fails, FAKE_CUDA_LIBRARY, "FAKE_CUDA_FAIL", "cuInit:1:999"},
    {"no device", scene_no_device, FAKE_CUDA_LIBRARY, "FAKE_CUDA_DEVICES", "0"},
    {"works", scene_works, FAKE_CUDA_LIBRARY, "FAKE_CUDA_DEVICES", "3"},
    {"missing", scene_missing, FAKE_CUDA_LIBRARY, NULL, NULL}, /* the last: once a function */
};

enum { SCENES = sizeof scenes / sizeof *scenes };

static void play_in_child(const scene *s, const char *variable, const char *value)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        if (s->library)
            setenv("KERNBRIDGE_LIBCUDA", s->library, 1);
        else
            unsetenv("KERNBRIDGE_LIBCUDA");
        if (variable)
            setenv(variable, value, 1);
        execl("/proc/self/exe", "test_driver", s->name, (char *)NULL);
        _exit(2);
    }
    if (!CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
               WEXITSTATUS(status) == KB_TEST_PASS))
        fprintf(stderr, "scene \"%s\" %s\n", s->name, value ? value : "");
}

int main(int argc, char **argv)
{
    for (int i = 0; argc > 1 && i < SCENES; i++)
        if (strcmp(argv[1], scenes[i].name) == 0) {
            scenes[i].play();
            return atomic_load(&kb_test_failures) ? KB_TEST_FAIL : KB_TEST_PASS;
        }
    void *real = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < SCENES - 1; i++)
        if (!real || scenes[i].play != scene_default)
            play_in_child(&scenes[i], scenes[i].variable, scenes[i].value);
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        play_in_child(&scenes[SCENES - 1], "FAKE_CUDA_MISSING", required[i]);
    setenv("FAKE_CUDA_IS_QUIET", "1", 1);
    play_in_child(&scenes[SCENES - 1], "FAKE_CUDA_MISSING", required[1]);
    if (real)
        dlclose(real);
    return kb_test_end("test_driver");
}
