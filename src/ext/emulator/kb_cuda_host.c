/* Owns the functions that CUDA C++ calls which was compiled for the CPU. */
#include "ext/emulator/kb_cuda_code.h"

#include "ext/emulator/kb_apart.h"
#include "ext/emulator/kb_guard.h"
#include "ext/emulator/kb_hostcuda.h"
#include "module/kb_source.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

_Static_assert(offsetof(kb_cuda_thread, shared) == offsetof(kb_thread, shared) &&
                   offsetof(kb_cuda_thread, lane) == offsetof(kb_thread, lane) &&
                   (int)KB_CUDA_FAULT_SIZE == (int)KB_FAULT_SIZE,
               "modules see the beginning of a thread");

static int launch(const kb_call *call, const kb_cuda_launch *how, char fault[])
{
    const kb_hostcuda_code code = {
        .threads = {.loop = (kb_block_loop *)(void (*)(void))how->loop,
                    .shared = how->fixed_shared,
                    .stack = KB_CUDA_HOST_STACK,
                    .checked = how->checked ? &kb_apart_launches : NULL},
        .cooperative = how->cooperative != 0,
    };
    const kb_xla_frame *xla = call ? kb_source_frame(call)->xla : NULL;
    char text[KB_FAULT_SIZE];
    kb_cu_result result =
        kb_hostcuda_run(&code, how->sizes, how->shared, how->parameters, xla, text);
    if (result != KB_HOSTCUDA_FAULT)
        return result == KB_CU_SUCCESS ? 0 : 1;
    const uint32_t *n = how->sizes;
    (void)snprintf(fault, KB_FAULT_SIZE,
                   "launch of %.80s, grid (%u, %u, %u), block (%u, %u, %u): %.800s", how->name,
                   n[0], n[1], n[2], n[3], n[4], n[5], text);
    if (call)
        kb_source_fault(call, fault);
    return 2;
}

/* The tensors are ours, so the addresses in them may change. */
static void *enter(const kb_call *call)
{
    const kb_frame *frame = kb_source_frame(call);
    const kb_buffer_spec *about = frame->kernel->buffers; /* NULL in calls by jax.ffi.ffi_call */
    uint32_t n_inputs = (uint32_t)call->n_inputs, n = n_inputs + (uint32_t)call->n_outputs;
    kb_apart *apart = kb_apart_new(n);
    bool well = apart != NULL;
    for (uint32_t i = 0; well && i < n; i++) {
        bool is_output = i >= n_inputs;
        const kb_tensor *t = is_output ? &call->outputs[i - n_inputs] : &call->inputs[i];
        const char *name = about ? about[i].name : is_output ? "output" : "input";
        well = kb_apart_add(apart, (void **)(uintptr_t)&t->data, kb_frame_buffer(frame, i), name,
                            is_output);
    }
    if (!well)
        (void)call->services->fail(call, KB_RESOURCE_EXHAUSTED, "no memory to check accesses");
    return apart;
}

static void leave(const kb_call *call, void *entered)
{
    (void)call;
    if (entered)
        kb_apart_leave(entered);
}

static void fence(kb_thread *t)
{
    if (t->block->checks)
        kb_check_fenced(t);
}

static const kb_cuda_host functions = {
    .version = KB_CUDA_HOST_VERSION,
    .thread_size = sizeof(kb_thread),
    .launch = launch,
    .barrier = kb_barrier,
    .barrier_reduce = kb_barrier_reduce,
    .warp_barrier = kb_warp_barrier,
    .shuffle = kb_shuffle,
    .vote = kb_vote,
    .match = kb_match,
    .active_mask = kb_active_mask,
    .grid_barrier = kb_grid_barrier,
    .poll = kb_poll,
    .fail = kb_raise,
    .enter = enter,
    .leave = leave,
    .site = kb_site_of_line,
    .access = kb_apart_access,
    .fence = fence,
    .wrong_index = kb_apart_wrong_index,
    .shared_array = kb_apart_shared,
    .filled = kb_unwritten_fill,
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
    kb_status s = slot->functions ? KB_OK : kb_variables_note(slot, err);
    slot->functions = &functions;
    return s;
}
