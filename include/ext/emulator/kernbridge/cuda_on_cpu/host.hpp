/* The CUDA runtime's functions on the CPU: everything is finished when it returns. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_HOST_HPP
#define KERNBRIDGE_CUDA_ON_CPU_HOST_HPP

#include "cuda/vector_types.h"

#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>

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
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxBlockDimX = 2,
    cudaDevAttrMaxBlockDimY = 3,
    cudaDevAttrMaxBlockDimZ = 4,
    cudaDevAttrMaxGridDimX = 5,
    cudaDevAttrMaxGridDimY = 6,
    cudaDevAttrMaxGridDimZ = 7,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMaxRegistersPerBlock = 12,
    cudaDevAttrClockRate = 13,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrKernelExecTimeout = 17,
    cudaDevAttrIntegrated = 18,
    cudaDevAttrCanMapHostMemory = 19,
    cudaDevAttrComputeMode = 20,
    cudaDevAttrConcurrentKernels = 31,
    cudaDevAttrMemoryClockRate = 36,
    cudaDevAttrGlobalMemoryBusWidth = 37,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrUnifiedAddressing = 41,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrManagedMemory = 83,
    cudaDevAttrConcurrentManagedAccess = 89,
    cudaDevAttrCooperativeLaunch = 95,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
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

namespace kernbridge
{
namespace cuda_on_cpu
{

enum : int { SHARED_MAX = 227 * 1024, THREADS_MAX = 1024 };

/* Dynamic shared memory that launches may ask for: what some kernel was given the attribute for. */
static int dynamic_max = 48 * 1024;

inline cudaError_t &last_error()
{
    static thread_local cudaError_t error = cudaSuccess;
    return error;
}
inline char *refused_launch() /* a description of the last one */
{
    static thread_local char text[384];
    return text;
}
inline cudaError_t set_error(cudaError_t error)
{
    return error == cudaSuccess ? error : last_error() = error;
}
static void filled(void *at, size_t size); /* by the host */
inline cudaError_t allocate(void **pointer, size_t size)
{
    *pointer = size ? aligned_alloc(256, (size + 255) / 256 * 256) : nullptr;
    return *pointer || !size ? cudaSuccess : set_error(cudaErrorMemoryAllocation);
}

} // namespace cuda_on_cpu
} // namespace kernbridge

static inline cudaError_t cudaGetLastError()
{
    cudaError_t error = kernbridge::cuda_on_cpu::last_error();
    kernbridge::cuda_on_cpu::last_error() = cudaSuccess;
    return error;
}
static inline cudaError_t cudaPeekAtLastError()
{
    return kernbridge::cuda_on_cpu::last_error();
}
static inline const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define KB_CUDA_ERROR(name, number, text)                                                          \
    case name:                                                                                     \
        return #name;
        KB_CUDA_ERRORS(KB_CUDA_ERROR)
#undef KB_CUDA_ERROR
    }
    return "unrecognized error code";
}
static inline const char *cudaGetErrorString(cudaError_t error)
{
    if (error == cudaErrorInvalidConfiguration && *kernbridge::cuda_on_cpu::refused_launch())
        return kernbridge::cuda_on_cpu::refused_launch();
    switch (error) {
#define KB_CUDA_ERROR(name, number, text)                                                          \
    case name:                                                                                     \
        return text;
        KB_CUDA_ERRORS(KB_CUDA_ERROR)
#undef KB_CUDA_ERROR
    }
    return "unrecognized error code";
}

/* Functions that have nothing to do here. */
#define KB_CUDA_NOTHING(name, ...)                                                                 \
    static inline cudaError_t name(__VA_ARGS__)                                                    \
    {                                                                                              \
        return cudaSuccess;                                                                        \
    }
KB_CUDA_NOTHING(cudaDeviceSynchronize)
KB_CUDA_NOTHING(cudaDeviceReset)
KB_CUDA_NOTHING(cudaSetDevice, int)
KB_CUDA_NOTHING(cudaStreamSynchronize, cudaStream_t)
KB_CUDA_NOTHING(cudaStreamQuery, cudaStream_t)
KB_CUDA_NOTHING(cudaStreamDestroy, cudaStream_t)
KB_CUDA_NOTHING(cudaStreamWaitEvent, cudaStream_t, cudaEvent_t, unsigned = 0)
KB_CUDA_NOTHING(cudaEventSynchronize, cudaEvent_t)
KB_CUDA_NOTHING(cudaEventQuery, cudaEvent_t)
KB_CUDA_NOTHING(cudaMemPrefetchAsync, const void *, size_t, int, cudaStream_t = nullptr)
KB_CUDA_NOTHING(cudaDeviceSetCacheConfig, cudaFuncCache)
KB_CUDA_NOTHING(cudaSetDeviceFlags, unsigned)
KB_CUDA_NOTHING(cudaProfilerStart)
KB_CUDA_NOTHING(cudaProfilerStop)
KB_CUDA_NOTHING(cudaHostRegister, void *, size_t, unsigned)
KB_CUDA_NOTHING(cudaHostUnregister, void *)
KB_CUDA_NOTHING(cudaStreamAttachMemAsync, cudaStream_t, const void *, size_t = 0, unsigned = 0)
#undef KB_CUDA_NOTHING

static inline cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}
static inline cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}
static inline cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
static inline cudaError_t cudaDriverGetVersion(int *version)
{
    return cudaRuntimeGetVersion(version);
}
static inline cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    *stream = nullptr;
    return cudaSuccess;
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    return cudaStreamCreate(stream);
}
static inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int)
{
    return cudaStreamCreate(stream);
}
static inline cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return cudaSuccess;
}
static inline cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus *status)
{
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

static inline cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = new kb_cuda_event();
    return cudaSuccess;
}
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    return cudaEventCreate(event);
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}
static inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t = nullptr)
{
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    return cudaSuccess;
}
static inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = static_cast<float>(1e3 * static_cast<double>(to->at.tv_sec - from->at.tv_sec) +
                             1e-6 * static_cast<double>(to->at.tv_nsec - from->at.tv_nsec));
    return cudaSuccess;
}

/* Memory. Everything is memory of the host. */
template <typename T> static inline cudaError_t cudaMalloc(T **pointer, size_t size)
{
    return kernbridge::cuda_on_cpu::allocate(reinterpret_cast<void **>(pointer), size);
}
template <typename T>
static inline cudaError_t cudaMallocAsync(T **pointer, size_t size, cudaStream_t = nullptr)
{
    return cudaMalloc(pointer, size);
}
template <typename T>
static inline cudaError_t cudaMallocManaged(T **pointer, size_t size, unsigned = 1)
{
    return cudaMalloc(pointer, size);
}
template <typename T> static inline cudaError_t cudaMallocHost(T **pointer, size_t size, unsigned = 0)
{
    return cudaMalloc(pointer, size);
}
template <typename T> static inline cudaError_t cudaHostAlloc(T **pointer, size_t size, unsigned)
{
    return cudaMalloc(pointer, size);
}
template <typename T>
static inline cudaError_t cudaHostGetDevicePointer(T **pointer, void *of_host, unsigned)
{
    *pointer = static_cast<T *>(of_host);
    return cudaSuccess;
}
static inline cudaError_t cudaFree(void *pointer)
{
    free(pointer);
    return cudaSuccess;
}
static inline cudaError_t cudaFreeAsync(void *pointer, cudaStream_t = nullptr)
{
    return cudaFree(pointer);
}
static inline cudaError_t cudaFreeHost(void *pointer)
{
    return cudaFree(pointer);
}
/* The forms with a stream do the same. */
#define cudaMemcpyAsync           cudaMemcpy
#define cudaMemsetAsync           cudaMemset
#define cudaMemcpy2DAsync         cudaMemcpy2D
#define cudaMemcpyToSymbolAsync   cudaMemcpyToSymbol
#define cudaMemcpyFromSymbolAsync cudaMemcpyFromSymbol
static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t size,
                                     cudaMemcpyKind = cudaMemcpyDefault, cudaStream_t = nullptr)
{
    if (size)
        memmove(to, from, size);
    kernbridge::cuda_on_cpu::filled(to, size);
    return cudaSuccess;
}
static inline cudaError_t cudaMemset(void *to, int value, size_t size, cudaStream_t = nullptr)
{
    if (size)
        memset(to, value, size);
    kernbridge::cuda_on_cpu::filled(to, size);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from,
                                       size_t from_pitch, size_t width, size_t height,
                                       cudaMemcpyKind = cudaMemcpyDefault,
                                       cudaStream_t = nullptr)
{
    for (size_t row = 0; row < height; row++)
        cudaMemcpy(static_cast<char *>(to) + row * to_pitch,
                   static_cast<const char *>(from) + row * from_pitch, width);
    return cudaSuccess;
}
static inline cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width,
                                            size_t height, cudaStream_t = nullptr)
{
    for (size_t row = 0; row < height; row++)
        cudaMemset(static_cast<char *>(to) + row * pitch, value, width);
    return cudaSuccess;
}
static inline cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *free_bytes = *total = static_cast<size_t>(1) << 34;
    return cudaSuccess;
}

/* Symbols: variables with __device__ or __constant__. */
template <typename T> static inline cudaError_t cudaGetSymbolAddress(void **pointer, const T &symbol)
{
    *pointer = const_cast<void *>(static_cast<const void *>(&symbol));
    return cudaSuccess;
}
template <typename T> static inline cudaError_t cudaGetSymbolSize(size_t *size, const T &symbol)
{
    *size = sizeof symbol;
    return cudaSuccess;
}
template <typename T>
static inline cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t size,
                                             size_t offset = 0,
                                             cudaMemcpyKind = cudaMemcpyHostToDevice,
                                             cudaStream_t = nullptr)
{
    if (offset > sizeof symbol || size > sizeof symbol - offset)
        return kernbridge::cuda_on_cpu::set_error(cudaErrorInvalidValue);
    void *at = const_cast<void *>(static_cast<const void *>(&symbol));
    return cudaMemcpy(static_cast<char *>(at) + offset, from, size);
}
template <typename T>
static inline cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t size,
                                               size_t offset = 0,
                                               cudaMemcpyKind = cudaMemcpyDeviceToHost,
                                               cudaStream_t = nullptr)
{
    if (offset > sizeof symbol || size > sizeof symbol - offset)
        return kernbridge::cuda_on_cpu::set_error(cudaErrorInvalidValue);
    return cudaMemcpy(to, reinterpret_cast<const char *>(&symbol) + offset, size);
}

/* What the device is like. */
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
    *p = {"CPU", static_cast<size_t>(1) << 34, 48 * 1024, kernbridge::cuda_on_cpu::SHARED_MAX,
          228 * 1024, 64 * 1024, 65536, 32, kernbridge::cuda_on_cpu::THREADS_MAX, {1024, 1024, 64},
          {INT_MAX, 65535, 65535}, 9, 0, 1, 2048, 1, 0, 1 << 20,
          1, 1, 1, 1, 1, cudaComputeModeDefault, 1000000, 1000000, 64};
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int)
{
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
        *value = kernbridge::cuda_on_cpu::THREADS_MAX;
        break;
    case cudaDevAttrMaxBlockDimZ:
        *value = 64;
        break;
    case cudaDevAttrMaxGridDimX:
        *value = INT_MAX;
        break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
        *value = 65535;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = 48 * 1024;
        break;
    case cudaDevAttrWarpSize:
        *value = 32;
        break;
    case cudaDevAttrMultiProcessorCount:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrIntegrated:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
        *value = 1;
        break;
    case cudaDevAttrKernelExecTimeout:
    case cudaDevAttrComputeMode:
    case cudaDevAttrConcurrentKernels:
        *value = 0;
        break;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
        *value = 1000000;
        break;
    case cudaDevAttrGlobalMemoryBusWidth:
        *value = 64;
        break;
    case cudaDevAttrL2CacheSize:
        *value = 1 << 20;
        break;
    case cudaDevAttrMaxRegistersPerBlock:
        *value = 65536;
        break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = 2048;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = 228 * 1024;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = kernbridge::cuda_on_cpu::SHARED_MAX;
        break;
    default:
        return kernbridge::cuda_on_cpu::set_error(cudaErrorInvalidValue);
    }
    return cudaSuccess;
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
template <typename F> static inline cudaError_t cudaFuncSetCacheConfig(F, cudaFuncCache)
{
    return cudaSuccess;
}
template <typename F>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, F)
{
    *attributes = {0, 0, 0, 1024, 32, 90, 90, kernbridge::cuda_on_cpu::SHARED_MAX};
    return cudaSuccess;
}
template <typename F>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, F, int threads,
                                                                        size_t)
{
    *n = threads > 0 && threads <= 1024 ? 2048 / threads : 0;
    return cudaSuccess;
}
template <typename F>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int *grid, int *block, F, size_t = 0,
                                                             int limit = 0)
{
    *grid = 1;
    *block = limit > 0 && limit < 256 ? limit : 256;
    return cudaSuccess;
}
template <typename F, typename S>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *grid, int *block, F f,
                                                                         S, int limit = 0)
{
    return cudaOccupancyMaxPotentialBlockSize(grid, block, f, 0, limit);
}

#endif
