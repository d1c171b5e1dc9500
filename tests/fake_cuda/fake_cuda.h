/* What CUDA's driver is to kernbridge, without a GPU: a shared library that plays libcuda.so.1.
 * "Device" memory is host memory; a launch is logged, and executes the kernel's code for the CPU,
 * or runs a twin, where a test gave one.
 *
 *     KERNBRIDGE_LIBCUDA=.../libfake_cuda.so
 *
 * Read from the environment when it is loaded:
 *     FAKE_CUDA_DEVICES     how many (2); with 0 cuInit fails as it does without a GPU
 *     FAKE_CUDA_ACTIVE      of how many the primary context is active: opened by XLA, say (0)
 *     FAKE_CUDA_CC          compute capability, 10 * major + minor; a list gives one a device (90)
 *     FAKE_CUDA_BEST_BLOCK  what occupancy answers (256)
 *     FAKE_CUDA_FAIL        "function:nth:code", a list: see fake_cuda_fail
 *     FAKE_CUDA_MISSING     functions that it has not, a list
 *     FAKE_CUDA_IS_QUIET    if set, a function that it has not is NULL, without an error
 *
 * An image is a cubin, of which the entries and the layout of their parameters are read, or text,
 * for which a line "FAKE <entry> <parameters>" declares a kernel; further numbers are the size of
 * a parameter (8), the distance from one to the next, and static shared memory (0). What the driver
 * would find wrong fails with its code; what it would not, and would crash on, aborts with a
 * message.
 *
 * As on an H200, which was asked all that the fake checks, but for this:
 * cuStreamGetCtx finds the default stream of device 0 where no context is current, an image is
 * looked at when it is loaded and not later, and loading is refused while a stream captures, as by
 * a driver that loads eagerly.
 *
 * Any thread may enter. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "core/kb_error.h"

#include <stddef.h>
#include <stdint.h>

#define FAKE_CUDA_EXPORT __attribute__((visibility("default")))

enum { FAKE_CUDA_WORDS = 256, FAKE_CUDA_NAME = 256, FAKE_CUDA_DIGEST = 64 };

/* What a launch does: none is known, a twin, or code for the CPU. */
enum { FAKE_CUDA_NOTHING, FAKE_CUDA_TWIN, FAKE_CUDA_CODE };

/* One call of cuLaunchKernelEx that succeeded. */
typedef struct fake_cuda_launch {
    char entry[FAKE_CUDA_NAME]; /* cut at that */
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared;
    uint32_t cooperative;
    uint32_t cluster[3]; /* 0 without */
    uint32_t overlaps;   /* programmatic dependent launch */
    uint32_t n_words;    /* all of them, also where `words` holds the first only */
    uint64_t words[FAKE_CUDA_WORDS];
    void *stream;
    int32_t device;
    uint32_t captured; /* into a graph instead of run */
    uint32_t does;     /* FAKE_CUDA_NOTHING or another */
} fake_cuda_launch;

/* What a kernel does, on this thread, while its launch is called or its graph replayed. */
typedef void fake_cuda_twin(void *data, const char *entry, const uint32_t grid[3],
                            const uint32_t block[3], uint32_t shared, uint32_t n_words,
                            const uint64_t *words);

struct kb_xla_frame;

/* Runs code for the CPU: kb_hostcuda_launch, which is not linked here. KB_INTERNAL is a fault. */
typedef kb_status fake_cuda_execute(const char digest[FAKE_CUDA_DIGEST], const uint32_t sizes[6],
                                    uint32_t shared, void *const *parameters,
                                    const struct kb_xla_frame *xla, kb_error *err);

/* Forgets calls, launches, failures, faults, twins and captures. Libraries, contexts, streams and
 * code stay valid. */
FAKE_CUDA_EXPORT void fake_cuda_reset(void);

/* Calls of a function of the driver so far, failed ones included. */
FAKE_CUDA_EXPORT long fake_cuda_calls(const char *function);

/* Launches so far, and the i-th; only the first 16384 are kept, NULL for others. Valid until the
 * reset. */
FAKE_CUDA_EXPORT int fake_cuda_n_launches(void);
FAKE_CUDA_EXPORT const fake_cuda_launch *fake_cuda_get_launch(int i);

/* The nth call from now (1 is the next) of a function fails with `code` and does nothing, once. A
 * fault, 700 to 719 but for 701, is from then on the answer of every function that needs the GPU;
 * those that ask for errors, devices and contexts, and that load an image, go on. */
FAKE_CUDA_EXPORT void fake_cuda_fail(const char *function, int nth, int code);

/* The nth call from now of whatever function fails so, with `lasting` all that follow it, too; a
 * reset does not end it, a `code` of 0 does. The words of errors can always be asked for. And the
 * function that failed first since, or NULL. */
FAKE_CUDA_EXPORT void fake_cuda_fail_any(int nth, int code, int lasting);
FAKE_CUDA_EXPORT const char *fake_cuda_failed(void);

/* The next launch of this entry ("": of any) succeeds, and then is the fault `code` there: as when
 * a kernel goes wrong while it runs. */
FAKE_CUDA_EXPORT void fake_cuda_fault(const char *entry, int code);

/* Gives a kernel its twin; entry "" is for every kernel that has none of its own. NULL takes it
 * away. */
FAKE_CUDA_EXPORT void fake_cuda_set_twin(const char *entry, fake_cuda_twin *fn, void *data);

/* From when this cubin is loaded, launches of its entry, whose parameters are words, execute the
 * code with this digest; a twin of the entry's own goes first. A fault of the code is
 * CUDA_ERROR_LAUNCH_FAILED from then on. */
FAKE_CUDA_EXPORT void fake_cuda_set_code(const void *cubin, size_t size, const char *entry,
                                         const char *digest, fake_cuda_execute *execute);

/* What the last fault of executed code was; "" before. Valid until the next. */
FAKE_CUDA_EXPORT const char *fake_cuda_fault_text(void);

/* 10 * major + minor. Kernels that were loaded stay so. */
FAKE_CUDA_EXPORT void fake_cuda_set_cc(int device, int cc);
FAKE_CUDA_EXPORT void fake_cuda_set_best_block(int threads);

/* The device's one context, and a new stream in it, which lives as long as the process. */
FAKE_CUDA_EXPORT void *fake_cuda_context(int device);
FAKE_CUDA_EXPORT void *fake_cuda_stream_create(int device);

/* Until the reset the NULL stream is this one: calls on XLA's CPU platform come without a stream,
 * and the default one cannot be captured. Where no context is current, it is that stream's. */
FAKE_CUDA_EXPORT void fake_cuda_stand_in(void *stream);

/* Whether the device's primary context is active, as if somebody had retained it; FAKE_CUDA_ACTIVE
 * devices are at the begin. And how many retain it now. */
FAKE_CUDA_EXPORT void fake_cuda_set_active(int device, int active);
FAKE_CUDA_EXPORT int fake_cuda_primary_users(int device);

/* This thread's, see cuThreadExchangeStreamCaptureMode: 0 global, 1 of the thread, 2 relaxed. */
FAKE_CUDA_EXPORT int fake_cuda_capture_mode(void);

/* Libraries that are loaded now, and contexts on this thread's stack. */
FAKE_CUDA_EXPORT int fake_cuda_n_libraries(void);
FAKE_CUDA_EXPORT int fake_cuda_n_contexts(void);

/* Captures what is enqueued on a stream into a graph: the result of the driver's function. As on
 * hardware nothing can be loaded meanwhile by a thread whose capture mode is not relaxed, and
 * waiting for the stream spoils the capture. The graph of the last capture that ended is replayed,
 * as often as wanted, up to a launch that faults, whose code is the result; launches in it are not
 * logged again. */
FAKE_CUDA_EXPORT int fake_cuda_capture_begin(void *stream);
FAKE_CUDA_EXPORT int fake_cuda_capture_end(void *stream);
FAKE_CUDA_EXPORT int fake_cuda_capture_replay(void *stream);

#endif
