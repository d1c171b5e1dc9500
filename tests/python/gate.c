/* For gil.py: holds the GIL from the begin of an execution until its result is
 * ready. Two XLA handlers stand around the calls under test: `gate_open` waits until a thread of
 * Python, inside `gate_hold`, has the GIL; `gate_close` lets it go once the stream is through. */
#define _GNU_SOURCE

#include "abi/kb_cuda.h"
#include "abi/kb_xla.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

static atomic_int stage; /* 0 nobody, 1 execution begun, 2 GIL held, 3 result ready */

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

static bool answered_metadata(kb_xla_frame *frame)
{
    for (kb_xla_extension *e = frame->extension_start; e; e = e->next) {
        if (e->type != KB_XLA_EXTENSION_METADATA)
            continue;
        kb_xla_metadata *metadata = ((kb_xla_metadata_extension *)e)->metadata;
        metadata->api_version.major_version = 0;
        metadata->api_version.minor_version = 1;
        metadata->traits = 0;
        return true;
    }
    return false;
}

__attribute__((visibility("default"))) kb_xla_error *gate_open(kb_xla_frame *frame)
{
    if (answered_metadata(frame))
        return NULL;
    atomic_store(&stage, 1);
    while (atomic_load(&stage) != 2)
        pause_briefly();
    return NULL;
}

static void ready(void *unused)
{
    (void)unused;
    atomic_store(&stage, 3);
}

/* On a GPU the result is ready when the stream gets here; on a CPU it is now. */
__attribute__((visibility("default"))) kb_xla_error *gate_close(kb_xla_frame *frame)
{
    if (answered_metadata(frame))
        return NULL;
    kb_xla_stream_get get = {
        .struct_size = KB_XLA_SIZE(kb_xla_stream_get, stream),
        .context = frame->context,
    };
    kb_xla_error *refused = frame->api->stream_get(&get);
    if (refused) {
        kb_xla_error_destroy destroy = {
            .struct_size = KB_XLA_SIZE(kb_xla_error_destroy, error),
            .error = refused,
        };
        frame->api->error_destroy(&destroy);
        ready(NULL);
        return NULL;
    }
    kb_cu_result (*launch_host)(void *, void (*)(void *), void *);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&launch_host = dlsym(driver, "cuLaunchHostFunc");
    launch_host(get.stream, ready, NULL);
    return NULL;
}

/* Called through ctypes.CDLL, so without the GIL; waits for the execution. */
__attribute__((visibility("default"))) void gate_wait(void)
{
    while (atomic_load(&stage) != 1)
        pause_briefly();
}

/* Called through ctypes.PyDLL, so with the GIL, which it keeps. */
__attribute__((visibility("default"))) int gate_hold(void)
{
    atomic_store(&stage, 2);
    long rounds = 0;
    while (atomic_load(&stage) != 3 && rounds++ < 25000) /* at least 0.5 s: then it failed */
        pause_briefly();
    int reached = atomic_load(&stage) == 3;
    atomic_store(&stage, 0);
    return reached;
}
