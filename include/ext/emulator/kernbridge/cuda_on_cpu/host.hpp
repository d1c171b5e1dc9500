/* The CUDA runtime's functions on the CPU: everything is finished when it returns. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_HOST_HPP
#define KERNBRIDGE_CUDA_ON_CPU_HOST_HPP

#include "cuda/vector_types.h"

#include "kernbridge/cuda_on_cpu/math.hpp"

#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#define CUDART_VERSION 13000
#define CUDA_VERSION   13000

/* X(name, number, text) */
#define KB_CUDA_ERRORS(X)                                                                          \
    X(cudaSuccess, 0, "no error")                                                                  \
    X(cudaErrorInvalidValue, 1, "invalid argument")                                                \
    X(cudaErrorMemoryAllocation, 2, "out of memory")                                               \
    X(cudaErrorInitializationError, 3, "initialization error")                                     \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                          \
    X(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                         \
    X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                    \
    X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                               \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                       \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                              \
    X(cudaErrorNotReady, 600, "device not ready")                                                  \
    X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                    \
    X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")               \
    X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                      \
    X(cudaErrorAssert, 710, "device-side assert triggered")                                        \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                   \
    X(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")            \
    X(cudaErrorNotSupported, 801, "operation not supported")                                       \
    X(cudaErrorUnknown, 999, "unknown error")

enum cudaError {
#define KB_CUDA_ERROR(name, number, text) name = number,
    KB_CUDA_ERRORS(KB_CUDA_ERROR)
#undef KB_CUDA_ERROR
};
typedef cudaError cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef cudaStream_t CUstream;
typedef struct kb_cuda_event {
    struct timespec at;
} *cudaEvent_t;

#define cudaStreamLegacy               ((cudaStream_t)0x1)
#define cudaStreamPerThread            ((cudaStream_t)0x2)
#define cudaStreamDefault              0x00
#define cudaStreamNonBlocking          0x01
#define cudaEventDefault               0x00
#define cudaEventBlockingSync          0x01
#define cudaEventDisableTiming         0x02
#define cudaHostAllocDefault           0x00
#define cudaHostAllocPortable          0x01
#define cudaHostAllocMapped            0x02
#define cudaHostAllocWriteCombined     0x04
#define cudaHostRegisterDefault        0x00
#define cudaHostRegisterPortable       0x01
#define cudaHostRegisterMapped         0x02
#define cudaDeviceScheduleAuto         0x00
#define cudaDeviceScheduleSpin         0x01
#define cudaDeviceScheduleBlockingSync 0x04
#define cudaDeviceMapHost              0x08
#define cudaMemAttachGlobal            0x01
#define cudaOccupancyDefault           0x00
#define cudaCpuDeviceId                (-1)

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone,
    cudaStreamCaptureStatusActive,
    cudaStreamCaptureStatusInvalidated
};
enum cudaFuncCache {
    cudaFuncCachePreferNone,
    cudaFuncCachePreferShared,
    cudaFuncCachePreferL1,
    cudaFuncCachePreferEqual
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
/* Attributes of the device: X(name, number, value) */
#define KB_CUDA_ATTRIBUTES(X)                                                                      \
    X(cudaDevAttrMaxThreadsPerBlock, 1, THREADS_MAX)                                               \
    X(cudaDevAttrMaxBlockDimX, 2, THREADS_MAX)                                                     \
    X(cudaDevAttrMaxBlockDimY, 3, THREADS_MAX)                                                     \
    X(cudaDevAttrMaxBlockDimZ, 4, 64)                                                              \
    X(cudaDevAttrMaxGridDimX, 5, INT_MAX)                                                          \
    X(cudaDevAttrMaxGridDimY, 6, 65535)                                                            \
    X(cudaDevAttrMaxGridDimZ, 7, 65535)                                                            \
    X(cudaDevAttrMaxSharedMemoryPerBlock, 8, 48 * 1024)                                            \
    X(cudaDevAttrWarpSize, 10, 32)                                                                 \
    X(cudaDevAttrMaxRegistersPerBlock, 12, 65536)                                                  \
    X(cudaDevAttrClockRate, 13, 1000000)                                                           \
    X(cudaDevAttrMultiProcessorCount, 16, 1)                                                       \
    X(cudaDevAttrKernelExecTimeout, 17, 0)                                                         \
    X(cudaDevAttrIntegrated, 18, 1)                                                                \
    X(cudaDevAttrCanMapHostMemory, 19, 1)                                                          \
    X(cudaDevAttrComputeMode, 20, 0)                                                               \
    X(cudaDevAttrConcurrentKernels, 31, 0)                                                         \
    X(cudaDevAttrMemoryClockRate, 36, 1000000)                                                     \
    X(cudaDevAttrGlobalMemoryBusWidth, 37, 64)                                                     \
    X(cudaDevAttrL2CacheSize, 38, 1 << 20)                                                         \
    X(cudaDevAttrMaxThreadsPerMultiProcessor, 39, 2048)                                            \
    X(cudaDevAttrUnifiedAddressing, 41, 1)                                                         \
    X(cudaDevAttrComputeCapabilityMajor, 75, 9)                                                    \
    X(cudaDevAttrComputeCapabilityMinor, 76, 0)                                                    \
    X(cudaDevAttrMaxSharedMemoryPerMultiprocessor, 81, 228 * 1024)                                 \
    X(cudaDevAttrManagedMemory, 83, 1)                                                             \
    X(cudaDevAttrConcurrentManagedAccess, 89, 1)                                                   \
    X(cudaDevAttrCooperativeLaunch, 95, 1)                                                         \
    X(cudaDevAttrMaxSharedMemoryPerBlockOptin, 97, SHARED_MAX)

enum cudaDeviceAttr {
#define KB_CUDA_ATTRIBUTE(name, number, value) name = number,
    KB_CUDA_ATTRIBUTES(KB_CUDA_ATTRIBUTE)
#undef KB_CUDA_ATTRIBUTE
};

enum cudaComputeMode {
    cudaComputeModeDefault,
    cudaComputeModeExclusive,
    cudaComputeModeProhibited,
    cudaComputeModeExclusiveProcess
};

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor,
        totalConstMem;
    int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], major, minor,
        multiProcessorCount, maxThreadsPerMultiProcessor, cooperativeLaunch, concurrentKernels,
        l2CacheSize, canMapHostMemory, integrated, unifiedAddressing, managedMemory,
        concurrentManagedAccess, computeMode, clockRate, memoryClockRate, memoryBusWidth;
};
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, maxDynamicSharedSizeBytes;
};

enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore = 0,
    cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6,
    cudaLaunchAttributePriority = 8
};
union cudaLaunchAttributeValue {
    int cooperative, priority, programmaticStreamSerializationAllowed;
    struct {
        unsigned x, y, z;
    } clusterDim;
};
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};

namespace kernbridge::cuda_on_cpu
{

enum : int { SHARED_MAX = 227 * 1024, THREADS_MAX = 1024 };

/* Dynamic shared memory that launches may ask for: what some kernel was given the attribute for. */
static int dynamic_max = 48 * 1024;

static thread_local cudaError_t last_error = cudaSuccess;
static thread_local char refused_launch[384]; /* a description of the last one */
inline const char *about_error(cudaError_t error, bool is_name) /* or its text */
{
    switch (error) {
#define KB_CUDA_ERROR(name, number, text)                                                          \
    case name:                                                                                     \
        return is_name ? #name : text;
        KB_CUDA_ERRORS(KB_CUDA_ERROR)
#undef KB_CUDA_ERROR
    }
    return "unrecognized error code";
}
KB_IS(cudaError_t, set_error, (cudaError_t error),
      error == cudaSuccess ? error : last_error = error)
static void filled(void *at, size_t size); /* by the host */
inline cudaError_t allocate(void **pointer, size_t size)
{
    *pointer = size ? aligned_alloc(256, (size + 255) / 256 * 256) : nullptr;
    return *pointer || !size ? cudaSuccess : set_error(cudaErrorMemoryAllocation);
}

} // namespace kernbridge::cuda_on_cpu

KB_IS(cudaError_t, cudaGetLastError, (),
      std::exchange(kernbridge::cuda_on_cpu::last_error, cudaSuccess))
KB_IS(cudaError_t, cudaPeekAtLastError, (), kernbridge::cuda_on_cpu::last_error)
KB_IS(const char *, cudaGetErrorName, (cudaError_t error),
      kernbridge::cuda_on_cpu::about_error(error, true))
KB_IS(const char *, cudaGetErrorString, (cudaError_t error),
      error == cudaErrorInvalidConfiguration && *kernbridge::cuda_on_cpu::refused_launch
          ? kernbridge::cuda_on_cpu::refused_launch
          : kernbridge::cuda_on_cpu::about_error(error, false))

/* Functions that always succeed. Most have nothing to do here, or one value to give. */
#define KB_SUCCEEDS(name, parameters, action)                                                      \
    static inline cudaError_t name parameters                                                      \
    {                                                                                              \
        action;                                                                                    \
        return cudaSuccess;                                                                        \
    }
KB_SUCCEEDS(cudaDeviceSynchronize, (), )
KB_SUCCEEDS(cudaDeviceReset, (), )
KB_SUCCEEDS(cudaSetDevice, (int), )
KB_SUCCEEDS(cudaStreamSynchronize, (cudaStream_t), )
KB_SUCCEEDS(cudaStreamQuery, (cudaStream_t), )
KB_SUCCEEDS(cudaStreamDestroy, (cudaStream_t), )
KB_SUCCEEDS(cudaStreamWaitEvent, (cudaStream_t, cudaEvent_t, unsigned = 0), )
KB_SUCCEEDS(cudaEventSynchronize, (cudaEvent_t), )
KB_SUCCEEDS(cudaEventQuery, (cudaEvent_t), )
KB_SUCCEEDS(cudaMemPrefetchAsync, (const void *, size_t, int, cudaStream_t = nullptr), )
KB_SUCCEEDS(cudaDeviceSetCacheConfig, (cudaFuncCache), )
KB_SUCCEEDS(cudaSetDeviceFlags, (unsigned), )
KB_SUCCEEDS(cudaProfilerStart, (), )
KB_SUCCEEDS(cudaProfilerStop, (), )
KB_SUCCEEDS(cudaHostRegister, (void *, size_t, unsigned), )
KB_SUCCEEDS(cudaHostUnregister, (void *), )
KB_SUCCEEDS(cudaStreamAttachMemAsync, (cudaStream_t, const void *, size_t = 0, unsigned = 0), )
template <typename F> KB_SUCCEEDS(cudaFuncSetCacheConfig, (F, cudaFuncCache), )
KB_SUCCEEDS(cudaGetDevice, (int *device), *device = 0)
KB_SUCCEEDS(cudaGetDeviceCount, (int *count), *count = 1)
KB_SUCCEEDS(cudaRuntimeGetVersion, (int *version), *version = CUDART_VERSION)
KB_SUCCEEDS(cudaDriverGetVersion, (int *version), *version = CUDART_VERSION)
KB_SUCCEEDS(cudaStreamCreate, (cudaStream_t *stream), *stream = nullptr)
KB_SUCCEEDS(cudaStreamCreateWithFlags, (cudaStream_t *stream, unsigned), *stream = nullptr)
KB_SUCCEEDS(cudaStreamCreateWithPriority, (cudaStream_t *stream, unsigned, int), *stream = nullptr)
KB_SUCCEEDS(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest), *least = *greatest = 0)
KB_SUCCEEDS(cudaStreamIsCapturing, (cudaStream_t, cudaStreamCaptureStatus *status),
            *status = cudaStreamCaptureStatusNone)
KB_SUCCEEDS(cudaEventCreate, (cudaEvent_t *event), *event = new kb_cuda_event())
KB_SUCCEEDS(cudaEventCreateWithFlags, (cudaEvent_t *event, unsigned), *event = new kb_cuda_event())
KB_SUCCEEDS(cudaEventDestroy, (cudaEvent_t event), delete event)
KB_SUCCEEDS(cudaEventRecord, (cudaEvent_t event, cudaStream_t = nullptr),
            clock_gettime(CLOCK_MONOTONIC, &event->at))
KB_SUCCEEDS(cudaEventElapsedTime, (float *ms, cudaEvent_t from, cudaEvent_t to),
            *ms = static_cast<float>(1e3 * static_cast<double>(to->at.tv_sec - from->at.tv_sec) +
                                     1e-6 * static_cast<double>(to->at.tv_nsec - from->at.tv_nsec)))

/* Memory. Everything is memory of the host. */
#define KB_ALLOCATES(name, parameters)                                                             \
    template <typename T>                                                                          \
    KB_IS(cudaError_t, name, parameters,                                                           \
          kernbridge::cuda_on_cpu::allocate(reinterpret_cast<void **>(pointer), size))
KB_ALLOCATES(cudaMalloc, (T **pointer, size_t size))
KB_ALLOCATES(cudaMallocAsync, (T **pointer, size_t size, cudaStream_t = nullptr))
KB_ALLOCATES(cudaMallocManaged, (T **pointer, size_t size, unsigned = 1))
KB_ALLOCATES(cudaMallocHost, (T **pointer, size_t size, unsigned = 0))
KB_ALLOCATES(cudaHostAlloc, (T **pointer, size_t size, unsigned))
#undef KB_ALLOCATES
KB_SUCCEEDS(cudaFree, (void *pointer), free(pointer))
KB_SUCCEEDS(cudaFreeAsync, (void *pointer, cudaStream_t = nullptr), free(pointer))
KB_SUCCEEDS(cudaFreeHost, (void *pointer), free(pointer))
KB_SUCCEEDS(cudaMemGetInfo, (size_t *free_bytes, size_t *total),
            *free_bytes = *total = static_cast<size_t>(1) << 34)
template <typename T>
KB_SUCCEEDS(cudaHostGetDevicePointer, (T **pointer, void *of_host, unsigned),
            *pointer = static_cast<T *>(of_host))
/* The forms with a stream do the same. */
#define cudaMemcpyAsync           cudaMemcpy
#define cudaMemsetAsync           cudaMemset
#define cudaMemcpy2DAsync         cudaMemcpy2D
#define cudaMemcpyToSymbolAsync   cudaMemcpyToSymbol
#define cudaMemcpyFromSymbolAsync cudaMemcpyFromSymbol
KB_SUCCEEDS(cudaMemcpy,
            (void *to, const void *from, size_t size, cudaMemcpyKind = cudaMemcpyDefault,
             cudaStream_t = nullptr),
            if (size)
                memmove(to, from, size);
            kernbridge::cuda_on_cpu::filled(to, size))
KB_SUCCEEDS(cudaMemset, (void *to, int value, size_t size, cudaStream_t = nullptr),
            if (size)
                memset(to, value, size);
            kernbridge::cuda_on_cpu::filled(to, size))
KB_SUCCEEDS(cudaMemcpy2D,
            (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
             size_t height, cudaMemcpyKind = cudaMemcpyDefault, cudaStream_t = nullptr),
            for (size_t row = 0; row < height; row++)
                cudaMemcpy(static_cast<char *>(to) + row * to_pitch,
                           static_cast<const char *>(from) + row * from_pitch, width))
KB_SUCCEEDS(cudaMemset2DAsync,
            (void *to, size_t pitch, int value, size_t width, size_t height,
             cudaStream_t = nullptr),
            for (size_t row = 0; row < height; row++)
                cudaMemset(static_cast<char *>(to) + row * pitch, value, width))

/* Symbols: variables with __device__ or __constant__. */
template <typename T>
KB_SUCCEEDS(cudaGetSymbolAddress, (void **pointer, const T &symbol),
            *pointer = const_cast<void *>(static_cast<const void *>(&symbol)))
template <typename T>
KB_SUCCEEDS(cudaGetSymbolSize, (size_t *size, const T &symbol), *size = sizeof symbol)
#define KB_COPIES(name, parameters, to, from)                                                       \
    template <typename T> static inline cudaError_t name parameters                                \
    {                                                                                              \
        if (offset > sizeof symbol || size > sizeof symbol - offset)                               \
            return kernbridge::cuda_on_cpu::set_error(cudaErrorInvalidValue);                      \
        const void *at = reinterpret_cast<const char *>(&symbol) + offset;                         \
        return cudaMemcpy(to, from, size);                                                         \
    }
KB_COPIES(cudaMemcpyToSymbol,
          (const T &symbol, const void *from, size_t size, size_t offset = 0,
           cudaMemcpyKind = cudaMemcpyHostToDevice, cudaStream_t = nullptr),
          const_cast<void *>(at), from)
KB_COPIES(cudaMemcpyFromSymbol,
          (void *to, const T &symbol, size_t size, size_t offset = 0,
           cudaMemcpyKind = cudaMemcpyDeviceToHost, cudaStream_t = nullptr),
          to, at)
#undef KB_COPIES

/* What the device is like. */
KB_SUCCEEDS(cudaGetDeviceProperties, (cudaDeviceProp * p, int),
            (*p = {"CPU", static_cast<size_t>(1) << 34, 48 * 1024,
                   kernbridge::cuda_on_cpu::SHARED_MAX, 228 * 1024, 64 * 1024, 65536, 32,
                   kernbridge::cuda_on_cpu::THREADS_MAX, {1024, 1024, 64},
                   {INT_MAX, 65535, 65535}, 9, 0, 1, 2048, 1, 0, 1 << 20, 1, 1, 1, 1, 1,
                   cudaComputeModeDefault, 1000000, 1000000, 64}))
static inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int)
{
    using namespace kernbridge::cuda_on_cpu;
    switch (attribute) {
#define KB_CUDA_ATTRIBUTE(name, number, of_device)                                                 \
    case name:                                                                                     \
        *value = of_device;                                                                        \
        return cudaSuccess;
        KB_CUDA_ATTRIBUTES(KB_CUDA_ATTRIBUTE)
#undef KB_CUDA_ATTRIBUTE
    }
    return set_error(cudaErrorInvalidValue);
}
template <typename F>
static inline cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute attribute, int value)
{
    using namespace kernbridge::cuda_on_cpu;
    bool is_size = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize;
    bool fits = !is_size || (value >= 0 && value <= SHARED_MAX);
    if (fits && is_size && value > __atomic_load_n(&dynamic_max, __ATOMIC_RELAXED))
        __atomic_store_n(&dynamic_max, value, __ATOMIC_RELAXED);
    return fits ? cudaSuccess : set_error(cudaErrorInvalidValue);
}
template <typename F>
KB_SUCCEEDS(cudaFuncGetAttributes, (cudaFuncAttributes * attributes, F),
            (*attributes = {0, 0, 0, 1024, 32, 90, 90, kernbridge::cuda_on_cpu::SHARED_MAX}))
template <typename F>
KB_SUCCEEDS(cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *n, F, int threads, size_t),
            *n = threads > 0 && threads <= 1024 ? 2048 / threads : 0)
template <typename F>
KB_SUCCEEDS(cudaOccupancyMaxPotentialBlockSize,
            (int *grid, int *block, F, size_t = 0, int limit = 0),
            (*grid = 1, *block = limit > 0 && limit < 256 ? limit : 256))
#undef KB_SUCCEEDS
template <typename F, typename S>
KB_IS(cudaError_t, cudaOccupancyMaxPotentialBlockSizeVariableSMem,
      (int *grid, int *block, F f, S, int limit = 0),
      cudaOccupancyMaxPotentialBlockSize(grid, block, f, 0, limit))

#endif
