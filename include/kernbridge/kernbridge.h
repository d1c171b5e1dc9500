/* The interface between a call and a kernel written in C, C++ or CUDA: tensors, attributes, the
 * stream, and a few services.
 *
 * A kernel is a function
 *
 *     int name(const kb_call *call);
 *
 * that returns 0, or a nonzero code after it has reported an error with kb_fail. Everything that a
 * call points to belongs to kernbridge and is valid until the kernel returns. Inputs are read-only,
 * unless the caller aliased them to an output. A kernel may be called from any thread, and from
 * several threads at the same time.
 *
 * New fields are added only at the end of structures; `struct_size` is their size in bytes. */
#ifndef KERNBRIDGE_H
#define KERNBRIDGE_H

#include <stddef.h>
#include <stdint.h>

#define KB_ABI 1

/* X(NAME, number, NumPy / ml_dtypes name, bits of one element). Up to 14 the numbers are those of
 * BE::DType. */
#define KB_TYPE_LIST(X)                                                                            \
    X(FLOAT16, 0, "float16", 16)                                                                   \
    X(FLOAT32, 1, "float32", 32)                                                                   \
    X(FLOAT64, 2, "float64", 64)                                                                   \
    X(BFLOAT16, 3, "bfloat16", 16)                                                                 \
    X(INT8, 4, "int8", 8)                                                                          \
    X(INT16, 5, "int16", 16)                                                                       \
    X(INT32, 6, "int32", 32)                                                                       \
    X(INT64, 7, "int64", 64)                                                                       \
    X(UINT8, 8, "uint8", 8)                                                                        \
    X(UINT16, 9, "uint16", 16)                                                                     \
    X(UINT32, 10, "uint32", 32)                                                                    \
    X(UINT64, 11, "uint64", 64)                                                                    \
    X(BOOL, 12, "bool", 8)                                                                         \
    X(COMPLEX64, 13, "complex64", 64)                                                              \
    X(COMPLEX128, 14, "complex128", 128)                                                           \
    X(INT1, 32, "int1", 1)                                                                         \
    X(INT2, 33, "int2", 2)                                                                         \
    X(INT4, 34, "int4", 4)                                                                         \
    X(UINT1, 35, "uint1", 1)                                                                       \
    X(UINT2, 36, "uint2", 2)                                                                       \
    X(UINT4, 37, "uint4", 4)                                                                       \
    X(FLOAT8_E5M2, 40, "float8_e5m2", 8)                                                           \
    X(FLOAT8_E3M4, 41, "float8_e3m4", 8)                                                           \
    X(FLOAT8_E4M3, 42, "float8_e4m3", 8)                                                           \
    X(FLOAT8_E4M3FN, 43, "float8_e4m3fn", 8)                                                       \
    X(FLOAT8_E4M3B11FNUZ, 44, "float8_e4m3b11fnuz", 8)                                             \
    X(FLOAT8_E5M2FNUZ, 45, "float8_e5m2fnuz", 8)                                                   \
    X(FLOAT8_E4M3FNUZ, 46, "float8_e4m3fnuz", 8)                                                   \
    X(FLOAT8_E8M0FNU, 47, "float8_e8m0fnu", 8)                                                     \
    X(FLOAT4_E2M1FN, 48, "float4_e2m1fn", 4)

typedef enum kb_type {
#define KB_TYPE_ENTRY(NAME, number, name, bits) KB_TYPE_##NAME = (number),
    KB_TYPE_LIST(KB_TYPE_ENTRY)
#undef KB_TYPE_ENTRY
        KB_TYPE_INVALID = 255
} kb_type;

/* Device types of DLPack. */
enum { KB_DEVICE_CPU = 1, KB_DEVICE_CUDA = 2 };

/* A row-major, compact array. It begins with the fields of DLPack's DLTensor, byte for byte, so it
 * can be passed to functions that take a DLTensor. */
typedef struct kb_tensor {
    void *data;
    struct {
        int32_t type;
        int32_t ordinal;
    } device;
    int32_t ndim;
    struct {
        uint8_t code; /* as in DLPack */
        uint8_t bits;
        uint16_t lanes;
    } dl_dtype;
    int64_t *shape;
    int64_t *strides;     /* in elements */
    uint64_t byte_offset; /* 0 */
    int32_t type;         /* a kb_type */
    int32_t reserved;
    int64_t size; /* elements */
} kb_tensor;

typedef struct kb_call kb_call;

/* One part of a parallel_for: the indices from `begin` to `end`, excluding `end`. */
typedef void kb_range_function(void *data, int64_t begin, int64_t end);

typedef struct kb_services {
    uint32_t struct_size;
    uint32_t abi;
    /* Reports why the kernel fails, and returns `code`. The text may contain any bytes. */
    int (*fail)(const kb_call *call, int code, const char *format, ...)
#ifdef __GNUC__
        __attribute__((format(printf, 3, 4)))
#endif
        ;
    /* Returns host memory that is valid until the kernel returns, aligned to 64 bytes, or NULL if
     * there is none. It is uninitialised; with KERNBRIDGE_DEBUG=poison all bytes are 0xFF (NaN). */
    void *(*scratch)(const kb_call *call, size_t bytes);
    /* Calls `function` for parts of 0..count on XLA's threads and on this one, and returns when all
     * parts are done. In a call on a GPU, it uses only this thread. */
    void (*parallel_for)(const kb_call *call, int64_t count, kb_range_function *function,
                         void *data);
} kb_services;

struct kb_call {
    uint32_t struct_size;
    uint32_t abi; /* KB_ABI */
    const kb_services *services;
    void *context; /* for kernbridge's own use */
    void *stream;  /* a CUstream; NULL on the CPU */
    int32_t device;
    int32_t n_inputs;
    int32_t n_outputs;
    int32_t n_attributes;
    const kb_tensor *inputs;
    const kb_tensor *outputs;
    const void *const *attributes; /* values, in the order of the annotation */
};

/* Error codes. Names and numbers are those of XLA (and absl), so that a status is passed on
 * unchanged. */
#define KB_STATUS_LIST(X)                                                                          \
    X(OK, 0)                                                                                       \
    X(INVALID_ARGUMENT, 3)                                                                         \
    X(NOT_FOUND, 5)                                                                                \
    X(ALREADY_EXISTS, 6)                                                                           \
    X(RESOURCE_EXHAUSTED, 8)                                                                       \
    X(FAILED_PRECONDITION, 9)                                                                      \
    X(UNIMPLEMENTED, 12)                                                                           \
    X(INTERNAL, 13)

typedef enum kb_status {
#define KB_STATUS_ENTRY(name, number) KB_##name = (number),
    KB_STATUS_LIST(KB_STATUS_ENTRY)
#undef KB_STATUS_ENTRY
} kb_status;

/* Shorthands for C; C++ code uses kernbridge.hpp.
 *
 *     return kb_fail(call, KB_INVALID_ARGUMENT, "expected %d elements", n); */
#define kb_fail(call, ...)                ((call)->services->fail((call), __VA_ARGS__))
#define kb_scratch(call, bytes)           ((call)->services->scratch((call), (bytes)))
#define kb_parallel_for(call, n, f, data) ((call)->services->parallel_for((call), (n), (f), (data)))

#endif
