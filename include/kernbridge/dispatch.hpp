/* One body for several element types:
 *
 *     KB_DISPATCH_FLOATING(x.dtype(), scalar_t, {
 *         add<scalar_t><<<grid, block, 0, stream>>>(x.data_ptr<scalar_t>(), ...);
 *     });
 *
 * The body is compiled once for each type, for which the given name stands. It is the body of a
 * lambda, so `return` leaves the body and not the surrounding function. Other dtypes throw. */
#ifndef KERNBRIDGE_DISPATCH_HPP
#define KERNBRIDGE_DISPATCH_HPP

#include "kernbridge/check.hpp"

namespace kernbridge
{
namespace detail
{

[[noreturn]] inline void refuse_dtype(DType dtype, const char *expected)
{
    throw Error(Message() << "a tensor of " << dtype << ", expected one of " << expected,
                KB_INVALID_ARGUMENT);
}

} // namespace detail
} // namespace kernbridge

#define KB_DISPATCH_CASE(NAME, type, alias, ...)                                                   \
    case ::kernbridge::DType::NAME: {                                                              \
        using alias = type;                                                                        \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }

#define KB_CASES_FLOATING(alias, ...)                                                              \
    KB_DISPATCH_CASE(Float32, float, alias, __VA_ARGS__)                                           \
    KB_DISPATCH_CASE(Float64, double, alias, __VA_ARGS__)
#ifdef KB_HALF
#define KB_CASES_HALF(alias, ...)                                                                  \
    KB_DISPATCH_CASE(Float16, ::kernbridge::float16_t, alias, __VA_ARGS__)                         \
    KB_DISPATCH_CASE(BFloat16, ::kernbridge::bfloat16_t, alias, __VA_ARGS__)
#else
#define KB_CASES_HALF(alias, ...)
#endif
#define KB_CASES_SIGNED_INDEX(alias, ...)                                                          \
    KB_DISPATCH_CASE(Int32, int32_t, alias, __VA_ARGS__)                                           \
    KB_DISPATCH_CASE(Int64, int64_t, alias, __VA_ARGS__)
#define KB_CASES_INTEGRAL(alias, ...)                                                              \
    KB_DISPATCH_CASE(Bool, bool, alias, __VA_ARGS__)                                               \
    KB_DISPATCH_CASE(Int8, int8_t, alias, __VA_ARGS__)                                             \
    KB_DISPATCH_CASE(Int16, int16_t, alias, __VA_ARGS__)                                           \
    KB_CASES_SIGNED_INDEX(alias, __VA_ARGS__)                                                      \
    KB_DISPATCH_CASE(UInt8, uint8_t, alias, __VA_ARGS__)                                           \
    KB_DISPATCH_CASE(UInt16, uint16_t, alias, __VA_ARGS__)                                         \
    KB_DISPATCH_CASE(UInt32, uint32_t, alias, __VA_ARGS__)                                         \
    KB_DISPATCH_CASE(UInt64, uint64_t, alias, __VA_ARGS__)
#define KB_CASES_COMPLEX(alias, ...)                                                               \
    KB_DISPATCH_CASE(Complex64, ::kernbridge::complex64_t, alias, __VA_ARGS__)                     \
    KB_DISPATCH_CASE(Complex128, ::kernbridge::complex128_t, alias, __VA_ARGS__)

#define KB_DISPATCH_SWITCH(dtype, expected, cases)                                                 \
    [&](const ::kernbridge::DType kb_dispatched) -> void {                                         \
        switch (kb_dispatched) {                                                                   \
            cases default : ::kernbridge::detail::refuse_dtype(kb_dispatched, expected);           \
        }                                                                                          \
    }(dtype)

#define KB_DISPATCH_FLOATING(dtype, alias, ...)                                                    \
    KB_DISPATCH_SWITCH(dtype, "float32, float64", KB_CASES_FLOATING(alias, __VA_ARGS__))
#define KB_DISPATCH_FLOATING_AND_HALF(dtype, alias, ...)                                           \
    KB_DISPATCH_SWITCH(dtype, "float32, float64, float16, bfloat16",                               \
                       KB_CASES_FLOATING(alias, __VA_ARGS__) KB_CASES_HALF(alias, __VA_ARGS__))
#define KB_DISPATCH_INTEGRAL(dtype, alias, ...)                                                    \
    KB_DISPATCH_SWITCH(dtype, "bool, int8 to int64, uint8 to uint64",                              \
                       KB_CASES_INTEGRAL(alias, __VA_ARGS__))
#define KB_DISPATCH_SIGNED_INDEX(dtype, alias, ...)                                                \
    KB_DISPATCH_SWITCH(dtype, "int32, int64", KB_CASES_SIGNED_INDEX(alias, __VA_ARGS__))
#define KB_DISPATCH_CSR_INDPTR(dtype, alias, ...)                                                  \
    KB_DISPATCH_SIGNED_INDEX(dtype, alias, __VA_ARGS__)
#define KB_DISPATCH_COMPLEX(dtype, alias, ...)                                                     \
    KB_DISPATCH_SWITCH(dtype, "complex64, complex128", KB_CASES_COMPLEX(alias, __VA_ARGS__))
#define KB_DISPATCH_ALL_TYPES(dtype, alias, ...)                                                   \
    KB_DISPATCH_SWITCH(dtype, "float32, float64, bool, int8 to int64, uint8 to uint64",            \
                       KB_CASES_FLOATING(alias, __VA_ARGS__)                                       \
                           KB_CASES_INTEGRAL(alias, __VA_ARGS__))
#define KB_DISPATCH_ALL(dtype, alias, ...)                                                         \
    KB_DISPATCH_SWITCH(dtype, "bool, integers, floating point and complex numbers",                \
                       KB_CASES_FLOATING(alias, __VA_ARGS__) KB_CASES_HALF(alias, __VA_ARGS__)     \
                           KB_CASES_INTEGRAL(alias, __VA_ARGS__)                                   \
                               KB_CASES_COMPLEX(alias, __VA_ARGS__))

/* Dispatches over two index types; both dtypes come before both names:
 * KB_DISPATCH_SIGNED_INDEX_PAIR(indices.dtype(), offsets.dtype(), index_t, offset_t, {...}). */
#define KB_DISPATCH_SIGNED_INDEX_PAIR(index_dtype, offset_dtype, index, offset, ...)               \
    KB_DISPATCH_SIGNED_INDEX(index_dtype, index,                                                   \
                             KB_DISPATCH_SIGNED_INDEX(offset_dtype, offset, __VA_ARGS__))

#define KB_CHECK_CSR_INDICES_INT32(tensor)                                                         \
    KB_CHECK((tensor).dtype() == ::kernbridge::DType::Int32)                                       \
        << "CSR indices must be int32, and are " << (tensor).dtype()

#endif
