/* The part of CUDA's driver interface that kernbridge uses, declared in our own words, so that
 * the build needs no CUDA. libcuda is opened at run time, see cuda/kb_driver.h.
 * tests/core/cuda_check.c asserts sizes, offsets, constants and signatures against cuda.h where the
 * toolkit is present. */
#ifndef KB_CUDA_H
#define KB_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef struct kb_cu_context_object *kb_cu_context;
typedef struct kb_cu_stream_object *kb_cu_stream; /* NULL: the default stream */
typedef struct kb_cu_library_object *kb_cu_library;
typedef struct kb_cu_kernel_object *kb_cu_kernel; /* of every context at once */
typedef struct kb_cu_function_object *kb_cu_function;
typedef struct kb_cu_graph_object *kb_cu_graph;
typedef struct kb_cu_graph_node_object *kb_cu_graph_node;
typedef uint64_t kb_cu_address; /* of device memory */
typedef int kb_cu_device;       /* ordinal */

typedef enum kb_cu_result {
    KB_CU_SUCCESS = 0,
    KB_CU_INVALID_VALUE = 1,
    /* What a kernel did wrong while it ran. Told by a later call; the context is lost. */
    KB_CU_ECC_UNCORRECTABLE = 214,
    KB_CU_ILLEGAL_ADDRESS = 700,
    KB_CU_LAUNCH_TIMEOUT = 702,
    KB_CU_ASSERT = 710,
    KB_CU_HARDWARE_STACK_ERROR = 714,
    KB_CU_ILLEGAL_INSTRUCTION = 715,
    KB_CU_MISALIGNED_ADDRESS = 716,
    KB_CU_INVALID_ADDRESS_SPACE = 717,
    KB_CU_INVALID_PC = 718,
    KB_CU_LAUNCH_FAILED = 719,
} kb_cu_result;

/* Attributes of a device. */
enum {
    KB_CU_DEVICE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    KB_CU_DEVICE_CC_MAJOR = 75,
    KB_CU_DEVICE_CC_MINOR = 76,
    KB_CU_DEVICE_MAX_SHARED_OPTIN = 97,
};

/* Attributes of a kernel. */
enum {
    KB_CU_KERNEL_STATIC_SHARED = 1,
    KB_CU_KERNEL_MAX_DYNAMIC_SHARED = 8,
};

/* Attributes of a launch. */
enum {
    KB_CU_LAUNCH_COOPERATIVE = 2,
    KB_CU_LAUNCH_CLUSTER = 4,
    KB_CU_LAUNCH_PROGRAMMATIC_STREAM = 6,
};

typedef struct kb_cu_launch_attribute {
    int32_t id;
    char padding[4];
    union {
        uint64_t size[8]; /* and alignment */
        int32_t cooperative;
        uint32_t cluster[3];
        int32_t programmatic_stream;
    } value;
} kb_cu_launch_attribute;

typedef struct kb_cu_launch {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared;
    kb_cu_stream stream;
    kb_cu_launch_attribute *attributes;
    uint32_t n_attributes;
} kb_cu_launch;

enum { KB_CU_CAPTURE_ACTIVE = 1 };
enum { KB_CU_CAPTURE_MODE_RELAXED = 2 };
enum { KB_CU_NODE_KERNEL = 0, KB_CU_NODE_GRAPH = 4 };

#endif
