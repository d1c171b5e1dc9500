/* Owns the placing of CUDA kernels for the CPU that come as machine code or as libraries, and the
 * functions that CUDA C++ calls which was compiled for the CPU. */
#include "ext/emulator/kb_cuda_code.h"

#include "core/kb_checksum.h"
#include "ext/emulator/kb_spread.h"
#include "module/kb_library.h"
#include "module/kb_source.h"
#include "object/kb_provided.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

_Static_assert(offsetof(kb_cuda_thread, shared) == offsetof(kb_thread, shared) &&
                   offsetof(kb_cuda_thread, lane) == offsetof(kb_thread, lane) &&
                   (int)KB_CUDA_FAULT_SIZE == (int)KB_FAULT_SIZE,
               "modules see the beginning of a thread");

enum { BLOCKS, THREADS, COOPERATIVE }; /* forms */

void *kb_cuda_code_find(const char *name)
{
    void *found = kb_symbol_find(kb_hostcuda_symbols, name);
    if (!found)
        found = kb_symbol_find(kb_libdevice_symbols, name);
    if (!found && (strncmp(name, "NRT_", 4) == 0 || strncmp(name, "__", 2) == 0))
        found = kb_provided_find(name);
    return found ? found : kb_provided_of_c(name);
}

static kb_status refuse_damaged(const char *name, const char *image, const char *what,
                                kb_error *err)
{
    return kb_error_set(err, KB_INVALID_ARGUMENT,
                        "%s: the %s is damaged, or belongs to another kernel: the check of %s "
                        "failed",
                        name, image, what);
}

static const char IMAGE[] = "machine code of a kernel for the CPU";
static const char LIBRARY[] = "library of a CUDA kernel for the CPU";

static void *first_of(const kb_object *object)
{
    void *blocks = kb_object_find(object, "kb_blocks");
    return blocks ? blocks : kb_object_find(object, "kb_fibre");
}

/* The processor has the features that the code needs: the first copy runs. */
static kb_status make_copy(const kb_xla_bytes *object, void **place, kb_error *err)
{
    kb_object *placed = NULL;
    kb_status s = kb_object_place(0, object->data, object->size, "a kernel of another device",
                                  kb_cuda_code_find, &placed, err);
    *place = s == KB_OK ? first_of(placed) : NULL;
    return s;
}

static kb_status load_object(const char digest[KB_HOSTCUDA_DIGEST], kb_reader *from,
                             const char *what, kb_error *err)
{
    uint64_t features = (uint64_t)kb_read_i64(from);
    uint32_t form = kb_read_u32(from);
    kb_hostcuda_code code = {.cooperative = form == COOPERATIVE};
    code.threads.shared = kb_read_u32(from);
    code.threads.stack = kb_read_u32(from);
    if (from->failed || form > COOPERATIVE)
        return refuse_damaged(what, IMAGE, "its beginning", err);
    const kb_xla_bytes object = {(const char *)from->at, from->left};
    kb_object *placed = NULL;
    kb_status s =
        kb_object_place(features, object.data, object.size, what, kb_cuda_code_find, &placed, err);
    if (s != KB_OK)
        return s;
    bool has_variables = kb_object_has_variables(placed);
    code.blocks = (kb_hostcuda_blocks *)(uintptr_t)kb_object_find(placed, "kb_blocks");
    code.threads.run = (kb_block_entry *)(uintptr_t)kb_object_find(placed, "kb_fibre");
    code.threads.checked = kb_object_find(placed, "kb_check_table");
    code.threads.is_whole = kb_object_find(placed, "kb_whole") != NULL;
    code.counts = kb_hostcuda_counts(what, NULL);
    code.concurrent = !has_variables && !kb_object_uses(placed, "kb_print");
    code.owner = placed;
    bool is_of_form = !code.blocks == (form != BLOCKS) && !code.threads.run == (form == BLOCKS);
    if (is_of_form && has_variables)
        code.variables = kb_variables_new(first_of(placed), &object, make_copy);
    if (!is_of_form)
        s = refuse_damaged(what, IMAGE, "what it defines", err);
    else if (has_variables && !code.variables)
        s = kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for the variables of a kernel");
    else
        s = kb_hostcuda_add(digest, &code, err);
    if (s != KB_OK)
        kb_object_free(placed);
    return s;
}

/* Bytes of a thread's stack in CUDA C++. Compilers refuse a function that takes more than FRAME_MAX
 * of it, see toolchain/library.py; it may call others. */
enum { CUDA_STACK = 1024 * 1024 };

static kb_hostcuda_code code_of(kb_cuda_loop *loop, uint32_t shared, bool checked, bool cooperative)
{
    return (kb_hostcuda_code){
        .threads = {.loop = (kb_block_loop *)(void (*)(void))loop,
                    .shared = shared,
                    .stack = CUDA_STACK,
                    .checked = checked ? &kb_spread_launches : NULL},
        .cooperative = cooperative,
    };
}

static int launch(const kb_call *call, const kb_cuda_launch *how, char fault[])
{
    kb_hostcuda_code code = code_of(how->loop, how->fixed_shared, how->checked, how->cooperative);
    const kb_frame *frame = call ? kb_source_frame(call) : NULL;
    if (how->loops)
        code = *(const kb_hostcuda_code *)how->loops;
    code.counts = kb_hostcuda_counts(frame ? frame->kernel->name : "CUDA C++", how->name);
    char text[KB_FAULT_SIZE];
    kb_cu_result result = kb_hostcuda_run(&code, how->sizes, how->shared, how->parameters,
                                          frame ? frame->xla : NULL, text);
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
    kb_spread *spread = kb_spread_new(n);
    bool well = spread != NULL;
    for (uint32_t i = 0; well && i < n; i++) {
        bool is_output = i >= n_inputs;
        const kb_tensor *t = is_output ? &call->outputs[i - n_inputs] : &call->inputs[i];
        const char *name = about ? about[i].name : is_output ? "output" : "input";
        well = kb_spread_add(spread, (void **)(uintptr_t)&t->data, kb_frame_buffer(frame, i), name,
                             is_output);
    }
    if (!well)
        (void)call->services->fail(call, KB_RESOURCE_EXHAUSTED, "no memory to check accesses");
    return spread;
}

static void leave(const kb_call *call, void *entered)
{
    (void)call;
    if (entered)
        kb_spread_leave(entered);
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
    .access = kb_spread_access,
    .fence = kb_check_fenced,
    .wrong_index = kb_spread_wrong_index,
    .shared_array = kb_spread_shared,
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
    for (kb_cuda_loops *l = slot->loops; l; l = l->next) {
        kb_error why; /* code for another processor: the kernel runs as fibres */
        if (!kb_hostcuda_find(l->image))
            (void)kb_cuda_code_load(l->image, l->image + l->image_size, l->size, "a module", &why);
        l->code = kb_hostcuda_find(l->image);
    }
    kb_status s = slot->functions ? KB_OK : kb_variables_note(slot, err);
    slot->functions = &functions;
    return s;
}

static kb_status load_library(const char digest[KB_HOSTCUDA_DIGEST], kb_reader *from,
                              const char *what, kb_error *err)
{
    bool cooperative = kb_read_u32(from) != 0;
    const kb_xla_bytes bytes = {(const char *)from->at, from->left};
    void *library = NULL;
    kb_status s = kb_library_open(&bytes, &library, err);
    if (s == KB_OK)
        s = kb_cuda_host_connect(library, err);
    const kb_cuda_kernel *kernel = s == KB_OK ? dlsym(library, "kb_cuda_kernel_description") : NULL;
    if (!kernel || kernel->version != KB_CUDA_HOST_VERSION) {
        if (s == KB_OK)
            s = kb_error_set(err, KB_FAILED_PRECONDITION,
                             "the library has no kernel of this version");
        kb_error_append(err, " (in %s)", what);
        return s == KB_RESOURCE_EXHAUSTED ? s : (err->status = KB_FAILED_PRECONDITION);
    }
    kb_cuda_loop *loop = cooperative ? kernel->cooperative_loop : kernel->loop;
    kb_hostcuda_code code =
        code_of(loop, cooperative ? kernel->fixed_shared() : 0, kernel->checked, cooperative);
    code.counts = kb_hostcuda_counts(what, NULL);
    code.owner = (void *)(uintptr_t)kernel;
    code.variables = kb_variables_of(kernel);
    return kb_hostcuda_add(digest, &code, err);
}

kb_status kb_cuda_code_load(const char digest[KB_HOSTCUDA_DIGEST], const void *bytes, size_t size,
                            const char *what, kb_error *err)
{
    static const char magic[] = KB_CUDA_LIBRARY_MAGIC;
    bool is_library = size >= sizeof magic - 1 && memcmp(bytes, magic, sizeof magic - 1) == 0;
    kb_reader from = kb_reader_of(bytes, size);
    kb_checksum seal;
    const char *wrong = kb_checksum_read(&seal, is_library ? magic : KB_CUDA_CODE_MAGIC, &from);
    if (!wrong)
        wrong = kb_checksum_check(&seal, digest, KB_HOSTCUDA_DIGEST, &from);
    if (wrong)
        return refuse_damaged(what, is_library ? LIBRARY : IMAGE, wrong, err);
    if (seal.version == KB_HOSTCUDA_ABI)
        return (is_library ? load_library : load_object)(digest, &from, what, err);
    return kb_error_set(err, KB_FAILED_PRECONDITION,
                        "%s: the program's %s for ABI %u of kernbridge, and this kernbridge has "
                        "ABI %d",
                        what,
                        is_library ? "library of a CUDA kernel for the CPU was built"
                                   : "machine code for the CPU was generated",
                        seal.version, KB_HOSTCUDA_ABI);
}
