/* Owns the operations of warps: 32 threads of a block, in the order of their indices. Lanes that
 * have ended count as having come; what others read of them is 0. */
#include "hostcuda/kb_block.h"
#include "hostcuda/kb_check.h"

enum { VOTE_ALL, VOTE_ANY, VOTE_EQUAL, VOTE_BALLOT };          /* PTX: vote.sync */
enum { SHUFFLE_INDEX, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR }; /* PTX: shfl.sync */
enum { LANE_BITS = 31, SEGMENT_SHIFT = 8 };

static const uint64_t predicate_bit = UINT64_C(1) << 32;

static kb_thread *lanes_of(const kb_block *b, uint32_t warp)
{
    return b->threads + (size_t)warp * KB_WARP;
}

/* PTX ISA, shfl.sync: the lane that lane `l` reads from, or KB_WARP if it keeps its own value. */
static uint32_t source_of(uint32_t l, const kb_warp_call *call)
{
    uint32_t segment = call->c >> SEGMENT_SHIFT & LANE_BITS, clamp = call->c & LANE_BITS;
    uint32_t last = (l & segment) | (clamp & ~segment), b = call->b & LANE_BITS;
    int64_t lane = l;
    switch (call->mode) {
    case SHUFFLE_UP:
        lane -= b;
        return lane >= (int64_t)last ? (uint32_t)lane : KB_WARP;
    case SHUFFLE_DOWN:
        lane += b;
        break;
    case SHUFFLE_XOR:
        lane ^= b;
        break;
    default:
        lane = (l & segment) | (b & ~segment);
    }
    return lane <= (int64_t)last ? (uint32_t)lane : KB_WARP;
}

static uint64_t shuffled(const kb_thread *lanes, uint32_t present, uint32_t l)
{
    uint32_t from = source_of(l, &lanes[l].call);
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
                 : mode == VOTE_ANY   ? yes != 0
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

static uint64_t result_of(const kb_thread *lanes, uint32_t present, uint32_t l)
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

/* Whether all lanes of the mask stand in the same operation. */
static bool have_come(const kb_thread *lanes, const kb_warp *warp, const kb_warp_call *call)
{
    uint32_t needed = call->mask & warp->live;
    if (needed & ~warp->waiting)
        return false;
    for (uint32_t l = 0; l < KB_WARP; l++)
        if (needed >> l & 1 && !kb_warp_same(&lanes[l].call, call))
            return false;
    return true;
}

/* What a lane reads of one that does not take part is undefined on a GPU. */
static void check_sources(kb_thread *lanes, uint32_t present)
{
    for (uint32_t l = 0; l < KB_WARP; l++) {
        uint32_t from = present >> l & 1 ? source_of(l, &lanes[l].call) : KB_WARP;
        if (from != KB_WARP && !(present >> from & 1))
            kb_checks_shuffle(&lanes[l], from);
    }
}

static void finish(kb_block *b, uint32_t warp, uint32_t mask)
{
    kb_thread *lanes = lanes_of(b, warp);
    uint32_t present = mask & b->warps[warp].live;
    if (b->checks && lanes[__builtin_ctz(present)].call.kind == KB_WARP_BARRIER)
        kb_checks_warp_barrier(b->checks, warp, present);
    if (b->checks && lanes[__builtin_ctz(present)].call.kind == KB_WARP_SHUFFLE)
        check_sources(lanes, present);
    for (uint32_t l = 0; l < KB_WARP; l++)
        if (present >> l & 1)
            lanes[l].result = result_of(lanes, present, l);
    for (uint32_t l = 0; l < KB_WARP; l++)
        if (present >> l & 1)
            lanes[l].state = KB_THREAD_RUNS;
    b->warps[warp].waiting &= ~present;
}

void kb_warp_check(kb_block *b, uint32_t warp)
{
    const kb_thread *lanes = lanes_of(b, warp);
    for (uint32_t l = 0; l < KB_WARP; l++)
        if (b->warps[warp].waiting >> l & 1 && have_come(lanes, &b->warps[warp], &lanes[l].call))
            finish(b, warp, lanes[l].call.mask);
}

static uint64_t call_warp(kb_thread *t, kb_warp_call call, uint32_t site)
{
    kb_block *b = t->block;
    uint32_t warp = t->index / KB_WARP, bit = UINT32_C(1) << t->lane;
    t->call = call;
    t->site = site;
    t->state = KB_THREAD_IN_WARP;
    if (!(call.mask & bit))
        kb_block_fail(t, "calls %s with the mask 0x%08x, in which its own lane, %u, is not",
                      kb_block_what(t), call.mask, t->lane);
    b->warps[warp].waiting |= bit;
    if (have_come(lanes_of(b, warp), &b->warps[warp], &t->call)) {
        kb_block_pause(t);
        finish(b, warp, call.mask);
    } else {
        kb_block_wait(t);
    }
    return t->result;
}

void kb_warp_barrier(kb_thread *t, uint32_t mask, uint32_t site)
{
    (void)call_warp(t, (kb_warp_call){.kind = KB_WARP_BARRIER, .mask = mask}, site);
}

uint64_t kb_shuffle(kb_thread *t, uint32_t mask, uint32_t mode, uint32_t value, uint32_t b,
                    uint32_t c, uint32_t site)
{
    kb_warp_call call = {KB_WARP_SHUFFLE, (uint16_t)mode, mask, value, b, c};
    return call_warp(t, call, site);
}

uint64_t kb_vote(kb_thread *t, uint32_t mask, uint32_t mode, uint32_t predicate, uint32_t site)
{
    kb_warp_call call = {
        .kind = KB_WARP_VOTE, .mask = mask, .mode = (uint16_t)mode, .value = predicate};
    return call_warp(t, call, site);
}

uint64_t kb_match(kb_thread *t, uint32_t mask, uint32_t all, uint64_t value, uint32_t site)
{
    kb_warp_call call = {.kind = KB_WARP_MATCH, .mask = mask, .mode = all != 0, .value = value};
    return call_warp(t, call, site);
}
