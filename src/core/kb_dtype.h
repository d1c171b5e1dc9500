/* Every element type that XLA can hand over: its code, its width, its name. One list. */
#ifndef KB_DTYPE_H
#define KB_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

/* X(NAME, code in XLA's FFI, bits of one element, NumPy / ml_dtypes name) */
#define KB_DTYPE_LIST(X)                                                                           \
    X(PRED, 1, 8, "bool")                                                                          \
    X(S1, 30, 1, "int1")                                                                           \
    X(S2, 26, 2, "int2")                                                                           \
    X(S4, 21, 4, "int4")                                                                           \
    X(S8, 2, 8, "int8")                                                                            \
    X(S16, 3, 16, "int16")                                                                         \
    X(S32, 4, 32, "int32")                                                                         \
    X(S64, 5, 64, "int64")                                                                         \
    X(U1, 31, 1, "uint1")                                                                          \
    X(U2, 27, 2, "uint2")                                                                          \
    X(U4, 22, 4, "uint4")                                                                          \
    X(U8, 6, 8, "uint8")                                                                           \
    X(U16, 7, 16, "uint16")                                                                        \
    X(U32, 8, 32, "uint32")                                                                        \
    X(U64, 9, 64, "uint64")                                                                        \
    X(F16, 10, 16, "float16")                                                                      \
    X(F32, 11, 32, "float32")                                                                      \
    X(F64, 12, 64, "float64")                                                                      \
    X(BF16, 16, 16, "bfloat16")                                                                    \
    X(C64, 15, 64, "complex64")                                                                    \
    X(C128, 18, 128, "complex128")                                                                 \
    X(TOKEN, 17, 0, "token")                                                                       \
    X(F8E5M2, 19, 8, "float8_e5m2")                                                                \
    X(F8E3M4, 29, 8, "float8_e3m4")                                                                \
    X(F8E4M3, 28, 8, "float8_e4m3")                                                                \
    X(F8E4M3FN, 20, 8, "float8_e4m3fn")                                                            \
    X(F8E4M3B11FNUZ, 23, 8, "float8_e4m3b11fnuz")                                                  \
    X(F8E5M2FNUZ, 24, 8, "float8_e5m2fnuz")                                                        \
    X(F8E4M3FNUZ, 25, 8, "float8_e4m3fnuz")                                                        \
    X(F4E2M1FN, 32, 4, "float4_e2m1fn")                                                            \
    X(F8E8M0FNU, 33, 8, "float8_e8m0fnu")

typedef enum kb_dtype {
#define KB_DTYPE_ENTRY(NAME, code, bits, name) KB_DTYPE_##NAME = (code),
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
