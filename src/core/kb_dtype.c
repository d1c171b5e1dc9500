/* Owns the look-up of element types by XLA's code. Constant tables; any thread may enter. */
#include "core/kb_dtype.h"

#include <stddef.h>

static const struct {
    const char *name;
    uint8_t bits;
} dtypes[] = {
#define KB_DTYPE_ROW(NAME, code, bits, name, OURS, dlpack, pjrt) [code] = {name, bits},
    KB_DTYPE_LIST(KB_DTYPE_ROW)
#undef KB_DTYPE_ROW
};

bool kb_dtype_known(int32_t code)
{
    return (size_t)code < sizeof dtypes / sizeof *dtypes && dtypes[code].name;
}

uint32_t kb_dtype_bits(int32_t code)
{
    return kb_dtype_known(code) ? dtypes[code].bits : 0;
}

const char *kb_dtype_name(int32_t code)
{
    return kb_dtype_known(code) ? dtypes[code].name : "unknown dtype";
}
