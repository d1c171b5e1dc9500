/* The library that test_cuda_library.c loads: CUDA C++ for the CPU, as
 * include/ext/emulator/cuda/cuda_runtime.h compiles it. Each thread writes what the functions that
 * it may call returned, in a row of `results` of its own. */
#include "kernbridge/cuda_host.h"
#include "kernbridge/module.h"

#ifdef SAMPLE_OF_ANOTHER_SLOT
#define SLOT_VERSION (KB_CUDA_HOST_VERSION + 1)
#else
#define SLOT_VERSION KB_CUDA_HOST_VERSION
#endif
#ifdef SAMPLE_OF_ANOTHER_KERNEL
#define KERNEL_VERSION (KB_CUDA_HOST_VERSION + 1)
#else
#define KERNEL_VERSION KB_CUDA_HOST_VERSION
#endif

#define EXPORT __attribute__((visibility("default")))

enum { ALL = -1, WARP = 32, COLUMNS = 8 };

EXPORT extern kb_cuda_host_slot_type kb_cuda_host_slot;
EXPORT extern const kb_cuda_kernel kb_cuda_kernel_description;
EXPORT extern const kb_module kb_module_description;
EXPORT int sample_launch(const kb_cuda_launch *launch, char fault[]);

kb_cuda_host_slot_type kb_cuda_host_slot = {.version = SLOT_VERSION};

const kb_module kb_module_description = {
    .struct_size = sizeof(kb_module), .abi = KB_ABI, .start_failure = ""};

static kb_cuda_thread *thread(kb_cuda_thread *threads, uint32_t i)
{
    return (kb_cuda_thread *)(void *)((char *)threads +
                                      (size_t)i * kb_cuda_host_slot.functions->thread_size);
}

static void run(void *const *parameters, kb_cuda_thread *given, uint32_t block, int is_cooperative)
{
    kb_thread *t = (kb_thread *)(void *)given;
    const kb_cuda_host *host = kb_cuda_host_slot.functions;
    uint32_t *results = *(uint32_t *const *)parameters[0];
    const uint32_t i = given->tid[0], n = given->ntid[0];
    uint32_t *to = results + (size_t)COLUMNS * (block * n + i);
    volatile uint32_t *shared = (volatile uint32_t *)(void *)given->shared;
    shared[i] = i * i;
    host->barrier(t, 1);
    to[0] = shared[n - 1 - i];
    to[1] = host->barrier_reduce(t, 0, i % 3 == 0, 2);
    to[2] = (uint32_t)host->shuffle(t, (uint32_t)ALL, 2, i, 1, WARP - 1, 3);
    to[3] = (uint32_t)host->vote(t, (uint32_t)ALL, 3, i % 2, 4);
    to[4] = (uint32_t)host->match(t, (uint32_t)ALL, 0, i / 4, 5);
    host->warp_barrier(t, (uint32_t)ALL, 6);
    to[5] = host->active_mask(t, 7);
    host->poll(t, 1, 8);
    if (is_cooperative)
        host->grid_barrier(t, 9);
    to[6] = is_cooperative ? results[(size_t)COLUMNS * i] : given->dynamic_shared;
    to[7] = 1;
    if (*(const int32_t *)parameters[1] == (int32_t)i)
        host->fail(t, "the sample fails");
}

/* Every thread waits, so each call runs one. */
static uint32_t loop(void *const *parameters, kb_cuda_thread *threads, const uint32_t index[3],
                     uint32_t first)
{
    run(parameters, thread(threads, first), index[0], 0);
    return first;
}

static uint32_t cooperative_loop(void *const *parameters, kb_cuda_thread *threads,
                                 const uint32_t index[3], uint32_t first)
{
    run(parameters, thread(threads, first), index[0], 1);
    return first;
}

static uint32_t fixed_shared(void)
{
    return 4 * WARP;
}

static const int32_t codes[] = {7, 3};
static const uint32_t sizes[] = {8, 4};

const kb_cuda_kernel kb_cuda_kernel_description = {
    .version = KERNEL_VERSION,
    .n_parameters = 2,
    .codes = codes,
    .sizes = sizes,
    .loop = loop,
    .cooperative_loop = cooperative_loop,
    .fixed_shared = fixed_shared,
};

/* A launch by a function of a module. */
int sample_launch(const kb_cuda_launch *launch, char fault[])
{
    kb_cuda_launch mine = *launch;
    mine.name = "sample";
    mine.loop = launch->cooperative ? cooperative_loop : loop;
    return kb_cuda_host_slot.functions->launch(NULL, &mine, fault);
}
