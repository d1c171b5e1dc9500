/* Proves, by compiling, that src/abi/kb_cuda.h and the table of src/cuda/kb_driver.h declare what
 * the toolkit's own headers do: every size, offset and constant, and every function in the form
 * that the driver is asked for. */
#include "../fake_cuda/fake_constants.h"
#include "cuda/kb_driver.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <stdio.h>

/* cuda.h renames these to their newest forms. */
#undef cuCtxGetDevice
#undef cuCtxPopCurrent
#undef cuCtxPushCurrent
#undef cuDevicePrimaryCtxRelease
#undef cuMemcpyDtoDAsync
#undef cuMemcpyDtoHAsync
#undef cuMemcpyHtoDAsync
#undef cuStreamGetCaptureInfo
#undef cuStreamGetCtx

#define SAME(ours, theirs, what) _Static_assert((long long)(ours) == (long long)(theirs), what)

#define SIZE(our_type, their_type)                                                                 \
    SAME(sizeof(our_type), sizeof(their_type), "size of " #our_type);                              \
    SAME(_Alignof(our_type), _Alignof(their_type), "alignment of " #our_type)

/* A field of ours lies where theirs does, and is as wide. */
#define FIELD(our_type, our_field, their_type, their_field)                                        \
    SAME(offsetof(our_type, our_field), offsetof(their_type, their_field),                         \
         "offset of " #our_type "." #our_field);                                                   \
    SAME(sizeof(((our_type *)0)->our_field), sizeof(((their_type *)0)->their_field),               \
         "size of " #our_type "." #our_field)

/* Types that stand for each other below, as values or behind pointers. */
SIZE(kb_cu_result, CUresult);
SIZE(kb_cu_context, CUcontext);
SIZE(kb_cu_stream, CUstream);
SIZE(kb_cu_library, CUlibrary);
SIZE(kb_cu_kernel, CUkernel);
SIZE(kb_cu_function, CUfunction);
SIZE(kb_cu_graph, CUgraph);
SIZE(kb_cu_graph_node, CUgraphNode);
SIZE(kb_cu_address, CUdeviceptr);
SIZE(kb_cu_device, CUdevice);
SIZE(uint64_t, cuuint64_t);
SIZE(int, CUdevice_attribute);
SIZE(int, CUfunction_attribute);
SIZE(int, CUstreamCaptureStatus);
SIZE(int, CUstreamCaptureMode);
SIZE(int, CUgraphNodeType);
SIZE(size_t (*)(int), CUoccupancyB2DSize);

SAME(KB_CU_SUCCESS, CUDA_SUCCESS, "code");
SAME(KB_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, "code");
SAME(KB_CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED, "code");
SAME(KB_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE, "code");
SAME(KB_CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, "code");
SAME(KB_CU_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE, "code");
SAME(KB_CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS, "code");
SAME(KB_CU_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT, "code");
SAME(KB_CU_ASSERT, CUDA_ERROR_ASSERT, "code");
SAME(KB_CU_HARDWARE_STACK_ERROR, CUDA_ERROR_HARDWARE_STACK_ERROR, "code");
SAME(KB_CU_ILLEGAL_INSTRUCTION, CUDA_ERROR_ILLEGAL_INSTRUCTION, "code");
SAME(KB_CU_MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS, "code");
SAME(KB_CU_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_ADDRESS_SPACE, "code");
SAME(KB_CU_INVALID_PC, CUDA_ERROR_INVALID_PC, "code");
SAME(KB_CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED, "code");

SAME(KB_CU_DEVICE_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "attribute");
SAME(KB_CU_DEVICE_MAX_THREADS_PER_MULTIPROCESSOR,
     CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, "attribute");
SAME(KB_CU_DEVICE_CC_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "attribute");
SAME(KB_CU_DEVICE_CC_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "attribute");
SAME(KB_CU_DEVICE_COOPERATIVE_LAUNCH, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, "attribute");
SAME(KB_CU_DEVICE_MAX_SHARED_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
     "attribute");
SAME(KB_CU_KERNEL_MAX_THREADS, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "attribute");
SAME(KB_CU_KERNEL_STATIC_SHARED, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, "attribute");
SAME(KB_CU_KERNEL_LOCAL, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, "attribute");
SAME(KB_CU_KERNEL_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS, "attribute");
SAME(KB_CU_KERNEL_MAX_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, "attribute");
SAME(KB_CU_KERNEL_NON_PORTABLE_CLUSTER, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
     "attribute");
SAME(KB_CU_LAUNCH_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, "attribute");
SAME(KB_CU_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, "attribute");
SAME(KB_CU_LAUNCH_PROGRAMMATIC_STREAM, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
     "attribute");
SAME(KB_CU_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE, "capture");
SAME(KB_CU_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED, "capture");
SAME(KB_CU_NODE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL, "node");
SAME(KB_CU_NODE_GRAPH, CU_GRAPH_NODE_TYPE_GRAPH, "node");

SIZE(kb_cu_launch_attribute, CUlaunchAttribute);
FIELD(kb_cu_launch_attribute, id, CUlaunchAttribute, id);
FIELD(kb_cu_launch_attribute, value, CUlaunchAttribute, value);
FIELD(kb_cu_launch_attribute, value.cooperative, CUlaunchAttribute, value.cooperative);
FIELD(kb_cu_launch_attribute, value.cluster, CUlaunchAttribute, value.clusterDim);
SAME(offsetof(CUlaunchAttribute, value.clusterDim.z) - offsetof(CUlaunchAttribute, value),
     2 * sizeof(uint32_t), "order of a cluster's axes");
FIELD(kb_cu_launch_attribute, value.programmatic_stream, CUlaunchAttribute,
      value.programmaticStreamSerializationAllowed);

SIZE(kb_cu_launch, CUlaunchConfig);
FIELD(kb_cu_launch, grid[0], CUlaunchConfig, gridDimX);
FIELD(kb_cu_launch, grid[1], CUlaunchConfig, gridDimY);
FIELD(kb_cu_launch, grid[2], CUlaunchConfig, gridDimZ);
FIELD(kb_cu_launch, block[0], CUlaunchConfig, blockDimX);
FIELD(kb_cu_launch, block[1], CUlaunchConfig, blockDimY);
FIELD(kb_cu_launch, block[2], CUlaunchConfig, blockDimZ);
FIELD(kb_cu_launch, shared, CUlaunchConfig, sharedMemBytes);
FIELD(kb_cu_launch, stream, CUlaunchConfig, hStream);
FIELD(kb_cu_launch, attributes, CUlaunchConfig, attrs);
FIELD(kb_cu_launch, n_attributes, CUlaunchConfig, numAttrs);

/* A function of our table has our parameters, the toolkit's has theirs, one for one and as wide.
 * `version`: of the form, the newest up to the one that we ask for. */
#define LIST(...) __VA_ARGS__
#define CALL(name, version, ours, theirs)                                                          \
    _Static_assert(                                                                                \
        __builtin_types_compatible_p(__typeof__(((kb_driver *)0)->name), kb_cu_result(*)(ours)),   \
        "ours: " #name);                                                                           \
    _Static_assert(                                                                                \
        __builtin_types_compatible_p(PFN_##name##_v##version, CUresult(CUDAAPI *)(theirs)),        \
        "theirs: " #name);                                                                         \
    enum { CHECKED_##name = version }
#define CALL1(name, version, o1, t1)                                                               \
    CALL(name, version, LIST(o1), LIST(t1));                                                       \
    SAME(sizeof(o1), sizeof(t1), "parameter 1 of " #name)
#define CALL2(name, version, o1, t1, o2, t2)                                                       \
    CALL(name, version, LIST(o1, o2), LIST(t1, t2));                                               \
    SAME(sizeof(o1), sizeof(t1), "parameter 1 of " #name);                                         \
    SAME(sizeof(o2), sizeof(t2), "parameter 2 of " #name)
#define CALL3(name, version, o1, t1, o2, t2, o3, t3)                                               \
    CALL(name, version, LIST(o1, o2, o3), LIST(t1, t2, t3));                                       \
    SAME(sizeof(o1), sizeof(t1), "parameter 1 of " #name);                                         \
    SAME(sizeof(o2), sizeof(t2), "parameter 2 of " #name);                                         \
    SAME(sizeof(o3), sizeof(t3), "parameter 3 of " #name)
#define CALL4(name, version, o1, t1, o2, t2, o3, t3, o4, t4)                                       \
    CALL(name, version, LIST(o1, o2, o3, o4), LIST(t1, t2, t3, t4));                               \
    SAME(sizeof(o1), sizeof(t1), "parameter 1 of " #name);                                         \
    SAME(sizeof(o2), sizeof(t2), "parameter 2 of " #name);                                         \
    SAME(sizeof(o3), sizeof(t3), "parameter 3 of " #name);                                         \
    SAME(sizeof(o4), sizeof(t4), "parameter 4 of " #name)

CALL1(cuInit, 2000, unsigned int, unsigned int);
CALL1(cuDriverGetVersion, 2020, int *, int *);
CALL2(cuGetErrorName, 6000, kb_cu_result, CUresult, const char **, const char **);
CALL2(cuGetErrorString, 6000, kb_cu_result, CUresult, const char **, const char **);
CALL1(cuDeviceGetCount, 2000, int *, int *);
CALL3(cuDeviceGetAttribute, 2000, int *, int *, int, CUdevice_attribute, kb_cu_device, CUdevice);
CALL3(cuDevicePrimaryCtxGetState, 7000, kb_cu_device, CUdevice, unsigned int *, unsigned int *,
      int *, int *);
CALL2(cuDevicePrimaryCtxRetain, 7000, kb_cu_context *, CUcontext *, kb_cu_device, CUdevice);
CALL1(cuDevicePrimaryCtxRelease, 11000, kb_cu_device, CUdevice);
CALL1(cuCtxGetCurrent, 4000, kb_cu_context *, CUcontext *);
CALL1(cuCtxPushCurrent, 4000, kb_cu_context, CUcontext);
CALL1(cuCtxPopCurrent, 4000, kb_cu_context *, CUcontext *);
CALL1(cuCtxGetDevice, 2000, kb_cu_device *, CUdevice *);
CALL2(cuStreamGetCtx, 9020, kb_cu_stream, CUstream, kb_cu_context *, CUcontext *);
CALL2(cuStreamIsCapturing, 10000, kb_cu_stream, CUstream, int *, CUstreamCaptureStatus *);
CALL1(cuThreadExchangeStreamCaptureMode, 10010, int *, CUstreamCaptureMode *);
CALL(cuStreamGetCaptureInfo, 11030,
     LIST(kb_cu_stream, int *, uint64_t *, kb_cu_graph *, const kb_cu_graph_node **, size_t *),
     LIST(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **,
          size_t *));
CALL1(cuStreamSynchronize, 2000, kb_cu_stream, CUstream);
CALL3(cuGraphGetNodes, 10000, kb_cu_graph, CUgraph, kb_cu_graph_node *, CUgraphNode *, size_t *,
      size_t *);
CALL2(cuGraphNodeGetType, 10000, kb_cu_graph_node, CUgraphNode, int *, CUgraphNodeType *);
CALL(cuLibraryLoadData, 12000,
     LIST(kb_cu_library *, const void *, void *, void **, unsigned int, void *, void **,
          unsigned int),
     LIST(CUlibrary *, const void *, CUjit_option *, void **, unsigned int, CUlibraryOption *,
          void **, unsigned int));
CALL1(cuLibraryUnload, 12000, kb_cu_library, CUlibrary);
CALL3(cuLibraryGetKernel, 12000, kb_cu_kernel *, CUkernel *, kb_cu_library, CUlibrary, const char *,
      const char *);
CALL2(cuKernelGetFunction, 12000, kb_cu_function *, CUfunction *, kb_cu_kernel, CUkernel);
CALL4(cuKernelGetAttribute, 12000, int *, int *, int, CUfunction_attribute, kb_cu_kernel, CUkernel,
      kb_cu_device, CUdevice);
CALL4(cuKernelSetAttribute, 12000, int, CUfunction_attribute, int, int, kb_cu_kernel, CUkernel,
      kb_cu_device, CUdevice);
CALL4(cuLaunchKernelEx, 11060, const kb_cu_launch *, const CUlaunchConfig *, kb_cu_function,
      CUfunction, void **, void **, void **, void **);
CALL(cuOccupancyMaxPotentialBlockSize, 6050,
     LIST(int *, int *, kb_cu_function, size_t (*)(int), size_t, int),
     LIST(int *, int *, CUfunction, CUoccupancyB2DSize, size_t, int));
CALL4(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, int *, int *, kb_cu_function, CUfunction,
      int, int, size_t, size_t);
CALL4(cuMemsetD8Async, 3020, kb_cu_address, CUdeviceptr, unsigned char, unsigned char, size_t,
      size_t, kb_cu_stream, CUstream);
CALL4(cuMemsetD16Async, 3020, kb_cu_address, CUdeviceptr, unsigned short, unsigned short, size_t,
      size_t, kb_cu_stream, CUstream);
CALL4(cuMemsetD32Async, 3020, kb_cu_address, CUdeviceptr, unsigned int, unsigned int, size_t,
      size_t, kb_cu_stream, CUstream);
CALL(cuMemsetD2D32Async, 3020,
     LIST(kb_cu_address, size_t, unsigned int, size_t, size_t, kb_cu_stream),
     LIST(CUdeviceptr, size_t, unsigned int, size_t, size_t, CUstream));
CALL4(cuMemcpyDtoDAsync, 3020, kb_cu_address, CUdeviceptr, kb_cu_address, CUdeviceptr, size_t,
      size_t, kb_cu_stream, CUstream);
CALL4(cuMemcpyDtoHAsync, 3020, void *, void *, kb_cu_address, CUdeviceptr, size_t, size_t,
      kb_cu_stream, CUstream);
CALL4(cuMemcpyHtoDAsync, 3020, kb_cu_address, CUdeviceptr, const void *, const void *, size_t,
      size_t, kb_cu_stream, CUstream);
CALL4(cuKernelGetParamInfo, 12040, kb_cu_kernel, CUkernel, size_t, size_t, size_t *, size_t *,
      size_t *, size_t *);

/* None is left out, and none is newer than what we ask for. */
#define REQUIRED(name, parameters)          _Static_assert(CHECKED_##name <= 12000, #name);
#define OPTIONAL(name, version, parameters) SAME(CHECKED_##name, version, #name);
KB_DRIVER_LIST(REQUIRED)
KB_DRIVER_OPTIONAL_LIST(OPTIONAL)

int main(void)
{
    printf("cuda_check: compiled against CUDA %d.%d\n", CUDA_VERSION / 1000,
           CUDA_VERSION % 1000 / 10);
    return 0;
}
