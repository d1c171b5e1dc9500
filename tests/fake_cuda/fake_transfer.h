/* Owns the driver's fills and copies. Part of fake_cuda.c alone. */
#ifndef FAKE_TRANSFER_H
#define FAKE_TRANSFER_H

#include "fake_state.h"

/* Ends a fill or a copy. */
static kb_cu_result transfer(operation what, const void *handle)
{
    int wrong = check_stream(handle);
    if (wrong)
        return end(wrong);
    operation *o = fake_checked(malloc(sizeof *o));
    *o = what;
    return enqueue(o, handle);
}

static operation row(kb_cu_address to, unsigned int value, size_t item_size, size_t n)
{
    return (operation){.type = NODE_FILL,
                       .to = to,
                       .value = value,
                       .item_size = item_size,
                       .width = n,
                       .height = 1};
}

static kb_cu_result cuMemsetD8Async(kb_cu_address to, unsigned char value, size_t n,
                                    kb_cu_stream handle)
{
    kb_cu_result code = begin(CALL_cuMemsetD8Async);
    return code == KB_CU_SUCCESS ? transfer(row(to, value, 1, n), handle) : code;
}

static kb_cu_result cuMemsetD16Async(kb_cu_address to, unsigned short value, size_t n,
                                     kb_cu_stream handle)
{
    kb_cu_result code = begin(CALL_cuMemsetD16Async);
    if (code == KB_CU_SUCCESS && to % 2)
        return end(KB_CU_INVALID_VALUE);
    return code == KB_CU_SUCCESS ? transfer(row(to, value, 2, n), handle) : code;
}

static kb_cu_result cuMemsetD32Async(kb_cu_address to, unsigned int value, size_t n,
                                     kb_cu_stream handle)
{
    kb_cu_result code = begin(CALL_cuMemsetD32Async);
    if (code == KB_CU_SUCCESS && to % 4)
        return end(KB_CU_INVALID_VALUE);
    return code == KB_CU_SUCCESS ? transfer(row(to, value, 4, n), handle) : code;
}

static kb_cu_result cuMemsetD2D32Async(kb_cu_address to, size_t pitch, unsigned int value,
                                       size_t width, size_t height, kb_cu_stream handle)
{
    kb_cu_result code = begin(CALL_cuMemsetD2D32Async);
    if (code != KB_CU_SUCCESS)
        return code;
    if (to % 4 || pitch % 4 || (height > 1 && pitch < 4 * width))
        return end(KB_CU_INVALID_VALUE);
    operation o = row(to, value, 4, width);
    o.pitch = pitch;
    o.height = height;
    return transfer(o, handle);
}

static operation copy(kb_cu_address to, kb_cu_address from, size_t size)
{
    return (operation){.type = NODE_COPY, .to = to, .from = from, .width = size};
}

static kb_cu_result cuMemcpyDtoDAsync(kb_cu_address to, kb_cu_address from, size_t size,
                                      kb_cu_stream handle)
{
    kb_cu_result code = begin(CALL_cuMemcpyDtoDAsync);
    return code == KB_CU_SUCCESS ? transfer(copy(to, from, size), handle) : code;
}

static kb_cu_result cuMemcpyDtoHAsync(void *to, kb_cu_address from, size_t size,
                                      kb_cu_stream handle)
{
    kb_cu_result code = begin(CALL_cuMemcpyDtoHAsync);
    return code == KB_CU_SUCCESS ? transfer(copy((uintptr_t)to, from, size), handle) : code;
}

static kb_cu_result cuMemcpyHtoDAsync(kb_cu_address to, const void *from, size_t size,
                                      kb_cu_stream handle)
{
    kb_cu_result code = begin(CALL_cuMemcpyHtoDAsync);
    return code == KB_CU_SUCCESS ? transfer(copy(to, (uintptr_t)from, size), handle) : code;
}

#endif
