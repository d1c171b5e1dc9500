/* The types that an attribute of a function can have. Constant tables; any thread may enter. */
#ifndef KB_ATTR_TYPE_H
#define KB_ATTR_TYPE_H

#include "core/kb_dtype.h"
#include "core/kb_text.h"

/* X(NAME, its name in annotations, element type: KB_DTYPE_..., bytes, C type that holds it) */
#define KB_ATTR_TYPE_LIST(X)                                                                       \
    X(BOOL, "bool", PRED, 1, "bool")                                                               \
    X(INT8, "int8", S8, 1, "int8_t")                                                               \
    X(UINT8, "uint8", U8, 1, "uint8_t")                                                            \
    X(INT16, "int16", S16, 2, "int16_t")                                                           \
    X(UINT16, "uint16", U16, 2, "uint16_t")                                                        \
    X(INT32, "int32", S32, 4, "int32_t")                                                           \
    X(UINT32, "uint32", U32, 4, "uint32_t")                                                        \
    X(INT64, "int64", S64, 8, "int64_t")                                                           \
    X(UINT64, "uint64", U64, 8, "uint64_t")                                                        \
    X(FLOAT32, "float32", F32, 4, "float")                                                         \
    X(FLOAT64, "float64", F64, 8, "double")                                                        \
    X(FLOAT16, "float16", F16, 2, "uint16_t")                                                      \
    X(BFLOAT16, "bfloat16", BF16, 2, "uint16_t")                                                   \
    X(COMPLEX64, "complex64", C64, 8, "float _Complex")                                            \
    X(COMPLEX128, "complex128", C128, 16, "double _Complex")

typedef enum kb_attr_type {
    KB_ATTR_NONE, /* not known */
#define KB_ATTR_TYPE_ENTRY(NAME, name, DTYPE, bytes, c_type) KB_ATTR_##NAME,
    KB_ATTR_TYPE_LIST(KB_ATTR_TYPE_ENTRY)
#undef KB_ATTR_TYPE_ENTRY
} kb_attr_type;

/* The type of that name, or KB_ATTR_NONE. */
kb_attr_type kb_attr_type_of(kb_text name);

/* "float32"; "" for KB_ATTR_NONE. */
const char *kb_attr_type_name(kb_attr_type type);

/* All names, for a message: "bool, int8, ...". */
const char *kb_attr_type_names(void);

#endif
