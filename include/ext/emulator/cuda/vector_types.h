/* CUDA's vector types, for CUDA C++ that is compiled for the CPU. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_VECTOR_TYPES_H
#define KERNBRIDGE_CUDA_ON_CPU_VECTOR_TYPES_H
/* CUDA's own headers, such as cuda_fp16.h, include those beside them, and look for these names. */
#define __VECTOR_TYPES_H__
#define __VECTOR_FUNCTIONS_H__
#define __VECTOR_FUNCTIONS_HPP__
#define __BUILTIN_TYPES_H__
#define __DEVICE_TYPES_H__
#define __DRIVER_TYPES_H__
#define __SURFACE_TYPES_H__
#define __TEXTURE_TYPES_H__
#define __CUDA_RUNTIME_API_H__
#define __DEVICE_LAUNCH_PARAMETERS_H__

#include "host_defines.h"

/* A vector, and the function that makes one of its elements. */
#define KB_VECTOR(name, attribute, members, parameters, ...)                                       \
    struct attribute name {                                                                        \
        members;                                                                                   \
    };                                                                                             \
    static inline name make_##name parameters                                                      \
    {                                                                                              \
        return name{__VA_ARGS__};                                                                  \
    }
#define KB_VECTOR_OF_4(T, name, align)                                                             \
    KB_VECTOR(name, __attribute__((aligned(align))), T x; T y; T z;                                \
              T w, (T x, T y, T z, T w), x, y, z, w)

/* Vectors of two and of four elements are aligned as in CUDA. */
#define KB_VECTORS(T, name, align2, align4)                                                        \
    KB_VECTOR(name##1, , T x, (T x), x)                                                            \
    KB_VECTOR(name##2, __attribute__((aligned(align2))), T x; T y, (T x, T y), x, y)               \
    KB_VECTOR(name##3, , T x; T y; T z, (T x, T y, T z), x, y, z)                                  \
    KB_VECTOR_OF_4(T, name##4, align4)
KB_VECTORS(signed char, char, 2, 4)
KB_VECTORS(unsigned char, uchar, 2, 4)
KB_VECTORS(short, short, 4, 8)
KB_VECTORS(unsigned short, ushort, 4, 8)
KB_VECTORS(int, int, 8, 16)
KB_VECTORS(unsigned, uint, 8, 16)
KB_VECTORS(float, float, 8, 16)

/* Names in CUDA 13 tell the alignment of four elements of 8 bytes. */
#define KB_VECTORS_OF_8(T, name)                                                                   \
    KB_VECTORS(T, name, 16, 16)                                                                    \
    KB_VECTOR_OF_4(T, name##4_16a, 16)                                                             \
    KB_VECTOR_OF_4(T, name##4_32a, 32)
KB_VECTORS_OF_8(long, long)
KB_VECTORS_OF_8(unsigned long, ulong)
KB_VECTORS_OF_8(long long, longlong)
KB_VECTORS_OF_8(unsigned long long, ulonglong)
KB_VECTORS_OF_8(double, double)
#undef KB_VECTORS_OF_8
#undef KB_VECTORS
#undef KB_VECTOR_OF_4
#undef KB_VECTOR

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
    {
    }
    constexpr operator uint3() const
    {
        return uint3{x, y, z};
    }
};

#endif
