/* Owns the look-up of element types by XLA's code. Constant tables; any thread may enter. */
#include "core/kb_dtype.h"

#include <stddef.h>

static const uint8_t bits_of[] = {
#define KB_DTYPE_BITS(NAME, code, bits, name, OURS, dlpack, pjrt) [code] = (bits),
    KB_DTYPE_LIST(KB_DTYPE_BITS)
#undef KB_DTYPE_BITS
};

static const char *const name_of[] = {
#define KB_DTYPE_NAME(NAME, code, bits, name, OURS, dlpack, pjrt) [code] = (name),
    KB_DTYPE_LIST(KB_DTYPE_NAME)
#undef KB_DTYPE_NAME
};

bool kb_dtype_known(int32_t code)
{
    return (size_t)code < sizeof name_of / sizeof *name_of && name_of[code];
}

uint32_t kb_dtype_bits(int32_t code)
{
    return kb_dtype_known(code) ? bits_of[code] : 0;
}

const char *kb_dtype_name(int32_t code)
{
    return kb_dtype_known(code) ? name_of[code] : "unknown dtype";
}
