/* Element types for C++: their numbers, their C++ types, and classes for types that C++ lacks. */
#ifndef KERNBRIDGE_DTYPE_HPP
#define KERNBRIDGE_DTYPE_HPP

#include "kernbridge/kernbridge.h"

#include <string.h>

#ifdef __CUDACC__
#define KB_HOST_DEVICE __host__ __device__
#else
#define KB_HOST_DEVICE
#endif

#if defined(__CUDACC__) &&                                                                         \
    defined(KB_HALF) /* 0.4 s of nvcc's time; defined where a source names it */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace kernbridge
{

enum class DType : int32_t {
    Float16 = 0,
    Float32 = 1,
    Float64 = 2,
    BFloat16 = 3,
    Int8 = 4,
    Int16 = 5,
    Int32 = 6,
    Int64 = 7,
    UInt8 = 8,
    UInt16 = 9,
    UInt32 = 10,
    UInt64 = 11,
    Bool = 12,
    Complex64 = 13,
    Complex128 = 14,
    /* For other types, use the number of kb_type: static_cast<DType>(KB_TYPE_INT4). */
    Invalid = 255
};

/* Bytes of one element; 0 if it has less than one, or is invalid. */
KB_HOST_DEVICE inline size_t dtype_size(DType dtype)
{
    switch (static_cast<int32_t>(dtype)) {
#define KB_DTYPE_SIZE(NAME, number, name, bits)                                                    \
    case number:                                                                                   \
        return (bits) / 8;
        KB_TYPE_LIST(KB_DTYPE_SIZE)
#undef KB_DTYPE_SIZE
    default:
        return 0;
    }
}

/* "float32"; NumPy's name. */
KB_HOST_DEVICE inline const char *dtype_name(DType dtype)
{
    switch (static_cast<int32_t>(dtype)) {
#define KB_DTYPE_NAME(NAME, number, name, bits)                                                    \
    case number:                                                                                   \
        return name;
        KB_TYPE_LIST(KB_DTYPE_NAME)
#undef KB_DTYPE_NAME
    default:
        return "invalid";
    }
}

/* A complex number with NumPy's layout. Converts from and to every type that has real() and imag(),
 * such as std::complex and thrust::complex. */
template <typename T> struct alignas(2 * sizeof(T)) complex {
    T x = 0, y = 0;

    complex() = default;
    KB_HOST_DEVICE complex(T re, T im = 0) : x(re), y(im)
    {
    }
    template <typename C, typename = decltype(static_cast<const C *>(nullptr)->real())>
    KB_HOST_DEVICE complex(const C &other) : x(T(other.real())), y(T(other.imag()))
    {
    }
    template <typename C, typename = decltype(C(T(), T()).imag())> KB_HOST_DEVICE operator C() const
    {
        return C(x, y);
    }

    KB_HOST_DEVICE T real() const
    {
        return x;
    }
    KB_HOST_DEVICE T imag() const
    {
        return y;
    }
};

#define KB_COMPLEX_OPERATOR(op, re, im)                                                            \
    template <typename T>                                                                          \
    KB_HOST_DEVICE inline complex<T> operator op(const complex<T> &a, const complex<T> &b)         \
    {                                                                                              \
        return {re, im};                                                                           \
    }                                                                                              \
    template <typename T> KB_HOST_DEVICE inline complex<T> operator op(const complex<T> &a, T b)   \
    {                                                                                              \
        return a op complex<T>(b);                                                                 \
    }                                                                                              \
    template <typename T> KB_HOST_DEVICE inline complex<T> operator op(T a, const complex<T> &b)   \
    {                                                                                              \
        return complex<T>(a) op b;                                                                 \
    }                                                                                              \
    template <typename T>                                                                          \
    KB_HOST_DEVICE inline complex<T> &operator op##=(complex<T> &a, const complex<T> &b)           \
    {                                                                                              \
        return a = a op b;                                                                         \
    }
KB_COMPLEX_OPERATOR(+, a.x + b.x, a.y + b.y)
KB_COMPLEX_OPERATOR(-, a.x - b.x, a.y - b.y)
KB_COMPLEX_OPERATOR(*, a.x *b.x - a.y * b.y, a.x *b.y + a.y * b.x)
#undef KB_COMPLEX_OPERATOR

template <typename T> KB_HOST_DEVICE inline complex<T> operator-(const complex<T> &a)
{
    return {-a.x, -a.y};
}

/* Divides by the larger part first (Smith 1962, doi:10.1145/368637.368661). */
template <typename T>
KB_HOST_DEVICE inline complex<T> operator/(const complex<T> &a, const complex<T> &b)
{
    if ((b.x < 0 ? -b.x : b.x) >= (b.y < 0 ? -b.y : b.y)) {
        T r = b.y / b.x, d = b.x + r * b.y;
        return {(a.x + r * a.y) / d, (a.y - r * a.x) / d};
    }
    T r = b.x / b.y, d = b.y + r * b.x;
    return {(r * a.x + a.y) / d, (r * a.y - a.x) / d};
}

template <typename T>
KB_HOST_DEVICE inline bool operator==(const complex<T> &a, const complex<T> &b)
{
    return a.x == b.x && a.y == b.y;
}

template <typename T>
KB_HOST_DEVICE inline bool operator!=(const complex<T> &a, const complex<T> &b)
{
    return !(a == b);
}

template <typename T> KB_HOST_DEVICE inline complex<T> conj(const complex<T> &a)
{
    return {a.x, -a.y};
}

using complex64_t = complex<float>;
using complex128_t = complex<double>;

#if defined(__CUDACC__) && defined(KB_HALF)
using float16_t = __half;
using bfloat16_t = __nv_bfloat16;
#elif !defined(__CUDACC__)

namespace detail
{

inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754 binary16, rounded to nearest even. */
inline uint16_t half_of(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return static_cast<uint16_t>(sign | 0x7e00u); /* not a number */
    if (magnitude >= 0x477ff000u)
        return static_cast<uint16_t>(sign | 0x7c00u); /* infinite, or rounds to it */
    if (magnitude < 0x38800000u) {                    /* subnormal: let the adder round */
        uint32_t rounded = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
        return static_cast<uint16_t>(sign | rounded);
    }
    uint32_t odd = magnitude >> 13 & 1u;
    return static_cast<uint16_t>(sign | (magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

inline float half_to_float(uint16_t half)
{
    uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u)
        return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x400u)
        return float_of(sign | ((rest << 13) + 0x38000000u));
    float magnitude = static_cast<float>(rest) * 5.9604644775390625e-8f; /* 2 ** -24 */
    return float_of(sign | bits_of(magnitude));
}

/* The upper half of a float32, rounded to nearest even. */
inline uint16_t bfloat_of(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return static_cast<uint16_t>(bits >> 16 | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline float bfloat_to_float(uint16_t bits)
{
    return float_of(static_cast<uint32_t>(bits) << 16);
}

/* Converts from and to float, which is used for its arithmetic. */
template <uint16_t of_float(float), float to_float(uint16_t)> struct Half {
    uint16_t bits = 0;

    Half() = default;
    Half(float value) : bits(of_float(value))
    {
    }
    operator float() const
    {
        return to_float(bits);
    }
};

} // namespace detail

using float16_t = detail::Half<detail::half_of, detail::half_to_float>;
using bfloat16_t = detail::Half<detail::bfloat_of, detail::bfloat_to_float>;

#define KB_HALF 1
#endif

namespace detail
{

/* The kb_type of a C++ type; -1 if it is not an element type. */
template <typename T> struct type_of {
    enum { number = -1 };
};
template <typename T> struct type_of<const T> : type_of<T> {
};
#define KB_TYPE_OF(type, value)                                                                    \
    template <> struct type_of<type> {                                                             \
        enum { number = value };                                                                   \
    };
KB_TYPE_OF(float, KB_TYPE_FLOAT32)
KB_TYPE_OF(double, KB_TYPE_FLOAT64)
KB_TYPE_OF(signed char, KB_TYPE_INT8)
KB_TYPE_OF(short, KB_TYPE_INT16)
KB_TYPE_OF(int, KB_TYPE_INT32)
KB_TYPE_OF(long, sizeof(long) == 8 ? KB_TYPE_INT64 : KB_TYPE_INT32)
KB_TYPE_OF(long long, KB_TYPE_INT64)
KB_TYPE_OF(unsigned char, KB_TYPE_UINT8)
KB_TYPE_OF(unsigned short, KB_TYPE_UINT16)
KB_TYPE_OF(unsigned, KB_TYPE_UINT32)
KB_TYPE_OF(unsigned long, sizeof(long) == 8 ? KB_TYPE_UINT64 : KB_TYPE_UINT32)
KB_TYPE_OF(unsigned long long, KB_TYPE_UINT64)
KB_TYPE_OF(bool, KB_TYPE_BOOL)
KB_TYPE_OF(complex64_t, KB_TYPE_COMPLEX64)
KB_TYPE_OF(complex128_t, KB_TYPE_COMPLEX128)
#ifdef KB_HALF
KB_TYPE_OF(float16_t, KB_TYPE_FLOAT16)
KB_TYPE_OF(bfloat16_t, KB_TYPE_BFLOAT16)
#endif
#undef KB_TYPE_OF

KB_HOST_DEVICE inline bool is_integer(int32_t type)
{
    return (type >= KB_TYPE_INT8 && type <= KB_TYPE_BOOL) ||
           (type >= KB_TYPE_INT1 && type <= KB_TYPE_UINT4);
}

/* Whether an array of type `given` may be read as type `asked`: if the types are equal, if both are
 * integers or bool of the same width, or if `asked` is an unsigned integer for the bits of a type
 * that C++ lacks. */
KB_HOST_DEVICE inline bool reads_as(int32_t given, int32_t asked)
{
    if (given == asked)
        return true;
    if (dtype_size(static_cast<DType>(given)) != dtype_size(static_cast<DType>(asked)) ||
        !is_integer(asked))
        return false;
    bool lacks = given == KB_TYPE_FLOAT16 || given == KB_TYPE_BFLOAT16 || given >= KB_TYPE_INT1;
    return is_integer(given) || lacks;
}

} // namespace detail

} // namespace kernbridge

#endif
