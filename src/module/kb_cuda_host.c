/* Owns the functions that CUDA C++ calls which was compiled for the CPU. */
#include "module/kb_cuda_host.h"

#include "hostcuda/kb_hostcuda.h"
#include "kernbridge/cuda_host.h"
#include "module/kb_source.h"

#include <dlfcn.h>
#include <stddef.h>

_Static_assert(offsetof(kb_cuda_thread, shared) == offsetof(kb_thread, shared) &&
                   offsetof(kb_cuda_thread, lane) == offsetof(kb_thread, lane) &&
                   (int)KB_CUDA_FAULT_SIZE == (int)KB_FAULT_SIZE,
               "modules see the beginning of a thread");

static kb_thread *thread_of(kb_cuda_thread *t)
{
    return (kb_thread *)(void *)t;
}

static int launch(const kb_call *call, const kb_cuda_launch *how, char fault[])
{
    const kb_hostcuda_code code = {
        .threads = {.loop = (kb_block_loop *)(void (*)(void))how->loop,
                    .shared = how->fixed_shared,
                    .stack = KB_CUDA_HOST_STACK},
        .cooperative = how->cooperative != 0,
    };
    const kb_xla_frame *xla = call ? kb_source_frame(call) : NULL;
    kb_cu_result result =
        kb_hostcuda_run(&code, how->sizes, how->shared, how->parameters, xla, fault);
    return result == KB_CU_SUCCESS ? 0 : result == KB_HOSTCUDA_FAULT ? 2 : 1;
}

static void barrier(kb_cuda_thread *t, uint32_t site)
{
    kb_barrier(thread_of(t), site);
}

static uint32_t barrier_reduce(kb_cuda_thread *t, uint32_t reduction, uint32_t predicate,
                               uint32_t site)
{
    return kb_barrier_reduce(thread_of(t), reduction, predicate, site);
}

static void warp_barrier(kb_cuda_thread *t, uint32_t mask, uint32_t site)
{
    kb_warp_barrier(thread_of(t), mask, site);
}

static uint64_t shuffle(kb_cuda_thread *t, uint32_t mask, uint32_t mode, uint32_t value, uint32_t b,
                        uint32_t c, uint32_t site)
{
    return kb_shuffle(thread_of(t), mask, mode, value, b, c, site);
}

static uint64_t vote(kb_cuda_thread *t, uint32_t mask, uint32_t mode, uint32_t predicate,
                     uint32_t site)
{
    return kb_vote(thread_of(t), mask, mode, predicate, site);
}

static uint64_t match(kb_cuda_thread *t, uint32_t mask, uint32_t all, uint64_t value, uint32_t site)
{
    return kb_match(thread_of(t), mask, all, value, site);
}

static uint32_t active_mask(kb_cuda_thread *t, uint32_t site)
{
    return kb_active_mask(thread_of(t), site);
}

static void grid_barrier(kb_cuda_thread *t, uint32_t site)
{
    kb_grid_barrier(thread_of(t), site);
}

static void poll(kb_cuda_thread *t, uint32_t site)
{
    kb_poll(thread_of(t), 1, site);
}

static void fail(kb_cuda_thread *t, const char *what)
{
    kb_block_fail(thread_of(t), "%s", what);
}

static const kb_cuda_host functions = {
    .version = KB_CUDA_HOST_VERSION,
    .thread_size = sizeof(kb_thread),
    .launch = launch,
    .barrier = barrier,
    .barrier_reduce = barrier_reduce,
    .warp_barrier = warp_barrier,
    .shuffle = shuffle,
    .vote = vote,
    .match = match,
    .active_mask = active_mask,
    .grid_barrier = grid_barrier,
    .poll = poll,
    .fail = fail,
};

kb_status kb_cuda_host_connect(void *library, kb_error *err)
{
    kb_cuda_host_slot_type *slot = dlsym(library, "kb_cuda_host_slot");
    if (!slot)
        return KB_OK;
    if (slot->version != KB_CUDA_HOST_VERSION)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "the module was built from CUDA C++ for version %u of kernbridge's "
                            "interface on the CPU, expected %d: build it again",
                            slot->version, KB_CUDA_HOST_VERSION);
    slot->functions = &functions;
    return KB_OK;
}
