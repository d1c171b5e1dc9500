/* Owns what operations of warps return. */
#include "ext/emulator/kb_block.h"

enum { VOTE_ALL, VOTE_ANY, VOTE_EQUAL, VOTE_BALLOT };          /* PTX: vote.sync */
enum { SHUFFLE_INDEX, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR }; /* PTX: shfl.sync */
enum { LANE_BITS = 31, SEGMENT_SHIFT = 8 };

static const uint64_t predicate_bit = UINT64_C(1) << 32;

uint32_t kb_warp_source(uint32_t l, const kb_warp_call *call)
{
    uint32_t segment = call->c >> SEGMENT_SHIFT & LANE_BITS, clamp = call->c & LANE_BITS;
    int64_t last = (l & segment) | (clamp & ~segment), b = call->b & LANE_BITS;
    int64_t lane = call->mode == SHUFFLE_UP     ? l - b
                   : call->mode == SHUFFLE_DOWN ? l + b
                   : call->mode == SHUFFLE_XOR  ? l ^ b
                                                : (l & segment) | (b & ~segment);
    bool in_range = call->mode == SHUFFLE_UP ? lane >= last : lane <= last;
    return in_range ? (uint32_t)lane : KB_WARP;
}

static uint64_t shuffled(const kb_thread *lanes, uint32_t present, uint32_t l)
{
    uint32_t from = kb_warp_source(l, &lanes[l].call);
    if (from == KB_WARP)
        return lanes[l].call.value;
    return predicate_bit | (present >> from & 1 ? lanes[from].call.value : 0);
}

static uint32_t lanes_with(const kb_thread *lanes, uint32_t present, uint64_t value)
{
    uint32_t with = 0;
    for (uint32_t l = 0; l < KB_WARP; l++)
        if (present >> l & 1 && lanes[l].call.value == value)
            with |= UINT32_C(1) << l;
    return with;
}

static uint64_t voted(const kb_thread *lanes, uint32_t present, uint32_t mode)
{
    uint32_t yes = lanes_with(lanes, present, 1);
    bool holds = mode == VOTE_ALL     ? yes == present
                 : mode == VOTE_EQUAL ? yes == 0 || yes == present
                                      : yes != 0;
    return (holds ? predicate_bit : 0) | yes;
}

static uint64_t matched(const kb_thread *lanes, uint32_t present, uint32_t l)
{
    uint32_t same = lanes_with(lanes, present, lanes[l].call.value);
    if (!lanes[l].call.mode)
        return same;
    return same == present ? predicate_bit | present : 0;
}

uint64_t kb_warp_result(const kb_thread *lanes, uint32_t present, uint32_t l)
{
    switch ((kb_warp_kind)lanes[l].call.kind) {
    case KB_WARP_SHUFFLE:
        return shuffled(lanes, present, l);
    case KB_WARP_VOTE:
        return voted(lanes, present, lanes[l].call.mode);
    case KB_WARP_MATCH:
        return matched(lanes, present, l);
    case KB_WARP_BARRIER:
        break;
    }
    return 0;
}

bool kb_warp_have_come(const kb_thread *lanes, const kb_warp *warp, const kb_warp_call *call)
{
    uint32_t needed = call->mask & warp->live;
    if (needed & ~warp->waiting)
        return false;
    for (uint32_t l = 0; l < KB_WARP; l++)
        if (needed >> l & 1 && !kb_warp_same(&lanes[l].call, call))
            return false;
    return true;
}
