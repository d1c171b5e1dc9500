/* The operations of warps: 32 threads of a block, in the order of their indices. Lanes that have
 * ended count as having come; what others read of them is 0. */
#ifndef KB_WARP_H
#define KB_WARP_H

#include "ext/emulator/kb_thread.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct kb_warp {
    uint32_t live;    /* lanes that have not ended */
    uint32_t waiting; /* lanes in an operation of the warp */
} kb_warp;

/* Whether two lanes stand in the same operation: PTX wants the same mode and mask, too. */
static inline bool kb_warp_same(const kb_warp_call *a, const kb_warp_call *b)
{
    return memcmp(a, b, offsetof(kb_warp_call, value)) == 0;
}

/* Whether all lanes of the mask stand in the operation. */
bool kb_warp_have_come(const kb_thread *lanes, const kb_warp *warp, const kb_warp_call *call);

/* PTX ISA, shfl.sync: the lane that lane `l` reads from, or KB_WARP if it keeps its own value. */
uint32_t kb_warp_source(uint32_t l, const kb_warp_call *call);

/* What lane `l` gets, where the lanes of the mask `present` take part. */
uint64_t kb_warp_result(const kb_thread *lanes, uint32_t present, uint32_t l);

#endif
