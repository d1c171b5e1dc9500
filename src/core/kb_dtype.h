/* Every element type that XLA can hand over: its code, its width, its name. One list. */
#ifndef KB_DTYPE_H
#define KB_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

/* X(NAME, code in XLA's FFI, bits of one element, NumPy / ml_dtypes name, ours in kernbridge.h,
 * code in DLPack, number as a PJRT_Buffer_Type): first the types whose elements are whole bytes. */
#define KB_DTYPE_WHOLE_LIST(X)                                                                     \
    X(PRED, 1, 8, "bool", BOOL, 6, 1)                                                              \
    X(S8, 2, 8, "int8", INT8, 0, 2)                                                                \
    X(S16, 3, 16, "int16", INT16, 0, 3)                                                            \
    X(S32, 4, 32, "int32", INT32, 0, 4)                                                            \
    X(S64, 5, 64, "int64", INT64, 0, 5)                                                            \
    X(U8, 6, 8, "uint8", UINT8, 1, 6)                                                              \
    X(U16, 7, 16, "uint16", UINT16, 1, 7)                                                          \
    X(U32, 8, 32, "uint32", UINT32, 1, 8)                                                          \
    X(U64, 9, 64, "uint64", UINT64, 1, 9)                                                          \
    X(F16, 10, 16, "float16", FLOAT16, 2, 10)                                                      \
    X(F32, 11, 32, "float32", FLOAT32, 2, 11)                                                      \
    X(F64, 12, 64, "float64", FLOAT64, 2, 12)                                                      \
    X(BF16, 16, 16, "bfloat16", BFLOAT16, 4, 13)                                                   \
    X(C64, 15, 64, "complex64", COMPLEX64, 5, 14)                                                  \
    X(C128, 18, 128, "complex128", COMPLEX128, 5, 15)                                              \
    X(F8E5M2, 19, 8, "float8_e5m2", FLOAT8_E5M2, 12, 16)                                           \
    X(F8E3M4, 29, 8, "float8_e3m4", FLOAT8_E3M4, 7, 27)                                            \
    X(F8E4M3, 28, 8, "float8_e4m3", FLOAT8_E4M3, 8, 26)                                            \
    X(F8E4M3FN, 20, 8, "float8_e4m3fn", FLOAT8_E4M3FN, 10, 17)                                     \
    X(F8E4M3B11FNUZ, 23, 8, "float8_e4m3b11fnuz", FLOAT8_E4M3B11FNUZ, 9, 18)                       \
    X(F8E5M2FNUZ, 24, 8, "float8_e5m2fnuz", FLOAT8_E5M2FNUZ, 13, 19)                               \
    X(F8E4M3FNUZ, 25, 8, "float8_e4m3fnuz", FLOAT8_E4M3FNUZ, 11, 20)                               \
    X(F8E8M0FNU, 33, 8, "float8_e8m0fnu", FLOAT8_E8M0FNU, 14, 28)

/* Their last number is 0. */
#define KB_DTYPE_OTHER_LIST(X)                                                                     \
    X(S1, 30, 1, "int1", INT1, 0, 0)                                                               \
    X(S2, 26, 2, "int2", INT2, 0, 0)                                                               \
    X(S4, 21, 4, "int4", INT4, 0, 0)                                                               \
    X(U1, 31, 1, "uint1", UINT1, 1, 0)                                                             \
    X(U2, 27, 2, "uint2", UINT2, 1, 0)                                                             \
    X(U4, 22, 4, "uint4", UINT4, 1, 0)                                                             \
    X(TOKEN, 17, 0, "token", INVALID, 0, 0)                                                        \
    X(F4E2M1FN, 32, 4, "float4_e2m1fn", FLOAT4_E2M1FN, 17, 0)

#define KB_DTYPE_LIST(X) KB_DTYPE_WHOLE_LIST(X) KB_DTYPE_OTHER_LIST(X)

typedef enum kb_dtype {
#define KB_DTYPE_ENTRY(NAME, code, bits, name, OURS, dlpack, pjrt) KB_DTYPE_##NAME = (code),
    KB_DTYPE_LIST(KB_DTYPE_ENTRY)
#undef KB_DTYPE_ENTRY
} kb_dtype;

/* True for a code of the list; every other number is unknown to us. */
bool kb_dtype_known(int32_t code);

/* Bits of one element; 0 for a token and for an unknown code. Below 8: packed, low bits first. */
uint32_t kb_dtype_bits(int32_t code);

/* Bytes of one element; 0 for what has less than one. */
static inline uint32_t kb_dtype_size(int32_t code)
{
    return kb_dtype_bits(code) / 8;
}

/* "float32"; "unknown dtype" for an unknown code. Never NULL. */
const char *kb_dtype_name(int32_t code);

#endif
