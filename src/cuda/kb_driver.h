/* CUDA's driver, opened at run time. The table is filled once and never changes; any thread may
 * enter. */
#ifndef KB_DRIVER_H
#define KB_DRIVER_H

#include "abi/kb_cuda.h"
#include "core/kb_error.h"

#include <stdbool.h>

/* X(name, parameters). All have been there since CUDA 12.0, and are asked for in that form. */
#define KB_DRIVER_LIST(X)                                                                          \
    X(cuInit, (unsigned int flags))                                                                \
    X(cuDriverGetVersion, (int *version))                                                          \
    X(cuGetErrorName, (kb_cu_result code, const char **name))                                      \
    X(cuGetErrorString, (kb_cu_result code, const char **text))                                    \
    X(cuDeviceGetCount, (int *n))                                                                  \
    X(cuDeviceGetAttribute, (int *value, int attribute, kb_cu_device device))                      \
    X(cuDevicePrimaryCtxGetState, (kb_cu_device device, unsigned int *flags, int *active))         \
    X(cuDevicePrimaryCtxRetain, (kb_cu_context * context, kb_cu_device device))                    \
    X(cuDevicePrimaryCtxRelease, (kb_cu_device device))                                            \
    X(cuCtxGetCurrent, (kb_cu_context * context))                                                  \
    X(cuCtxPushCurrent, (kb_cu_context context))                                                   \
    X(cuCtxPopCurrent, (kb_cu_context * context))                                                  \
    X(cuCtxGetDevice, (kb_cu_device * device))                                                     \
    X(cuStreamGetCtx, (kb_cu_stream stream, kb_cu_context * context))                              \
    X(cuStreamIsCapturing, (kb_cu_stream stream, int *status))                                     \
    X(cuThreadExchangeStreamCaptureMode, (int *mode))                                              \
    X(cuStreamGetCaptureInfo, (kb_cu_stream stream, int *status, uint64_t *id, kb_cu_graph *graph, \
                               const kb_cu_graph_node **dependencies, size_t *n_dependencies))     \
    X(cuStreamSynchronize, (kb_cu_stream stream))                                                  \
    X(cuGraphGetNodes, (kb_cu_graph graph, kb_cu_graph_node * nodes, size_t * n_nodes))            \
    X(cuGraphNodeGetType, (kb_cu_graph_node node, int *type))                                      \
    X(cuLibraryLoadData,                                                                           \
      (kb_cu_library * library, const void *image, void *jit_options, void **jit_values,           \
       unsigned int n_jit, void *options, void **values, unsigned int n_options))                  \
    X(cuLibraryUnload, (kb_cu_library library))                                                    \
    X(cuLibraryGetKernel, (kb_cu_kernel * kernel, kb_cu_library library, const char *name))        \
    X(cuKernelGetFunction, (kb_cu_function * function, kb_cu_kernel kernel))                       \
    X(cuKernelGetAttribute, (int *value, int attribute, kb_cu_kernel kernel, kb_cu_device device)) \
    X(cuKernelSetAttribute, (int attribute, int value, kb_cu_kernel kernel, kb_cu_device device))  \
    X(cuLaunchKernelEx,                                                                            \
      (const kb_cu_launch *how, kb_cu_function function, void **parameters, void **extra))         \
    X(cuOccupancyMaxPotentialBlockSize,                                                            \
      (int *min_grid, int *block, kb_cu_function function, size_t (*shared_of_block)(int),         \
       size_t shared, int limit))                                                                  \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                 \
      (int *n_blocks, kb_cu_function function, int block, size_t shared))                          \
    X(cuMemsetD8Async, (kb_cu_address to, unsigned char value, size_t n, kb_cu_stream stream))     \
    X(cuMemsetD16Async, (kb_cu_address to, unsigned short value, size_t n, kb_cu_stream stream))   \
    X(cuMemsetD32Async, (kb_cu_address to, unsigned int value, size_t n, kb_cu_stream stream))     \
    X(cuMemsetD2D32Async, (kb_cu_address to, size_t pitch, unsigned int value, size_t width,       \
                           size_t height, kb_cu_stream stream))                                    \
    X(cuMemcpyDtoDAsync, (kb_cu_address to, kb_cu_address from, size_t size, kb_cu_stream stream)) \
    X(cuMemcpyDtoHAsync, (void *to, kb_cu_address from, size_t size, kb_cu_stream stream))         \
    X(cuMemcpyHtoDAsync, (kb_cu_address to, const void *from, size_t size, kb_cu_stream stream))

/* Newer ones: NULL where the driver has none. X(name, version, parameters). */
#define KB_DRIVER_OPTIONAL_LIST(X)                                                                 \
    X(cuKernelGetParamInfo, 12040,                                                                 \
      (kb_cu_kernel kernel, size_t index, size_t * offset, size_t * size))

/* NOLINTBEGIN(bugprone-macro-parentheses): no declarator can have them */
typedef struct kb_driver {
#define KB_DRIVER_FIELD(name, parameters)                   kb_cu_result(*name) parameters;
#define KB_DRIVER_OPTIONAL_FIELD(name, version, parameters) kb_cu_result(*name) parameters;
    KB_DRIVER_LIST(KB_DRIVER_FIELD)
    KB_DRIVER_OPTIONAL_LIST(KB_DRIVER_OPTIONAL_FIELD)
#undef KB_DRIVER_FIELD
#undef KB_DRIVER_OPTIONAL_FIELD
} kb_driver;
/* NOLINTEND(bugprone-macro-parentheses) */

/* The driver, opened at the first call: libcuda.so.1, or the library that the environment variable
 * KERNBRIDGE_LIBCUDA names. NULL, with the reason in `err`, where there is none or it fails. */
const kb_driver *kb_driver_get(kb_error *err);

/* Number of GPUs that the driver shows; 0, with the reason in `err`, where it shows none. */
int kb_driver_device_count(kb_error *err);

/* Sets "<what>: <call> failed: <CUDA_ERROR_NAME> (<the driver's words>)". For a code
 * that reports a fault of a running kernel, a sentence is added: the fault may belong to an
 * earlier launch, and the context is lost. */
KB_COLD kb_status kb_driver_fail(kb_error *err, const kb_driver *driver, kb_cu_result code,
                                 const char *call, const char *what);

#endif
