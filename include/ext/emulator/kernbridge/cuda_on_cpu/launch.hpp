/* Launches of CUDA C++ on the CPU. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_LAUNCH_HPP
#define KERNBRIDGE_CUDA_ON_CPU_LAUNCH_HPP

#include "kernbridge/check.hpp"
#include "kernbridge/cuda_on_cpu/host.hpp"
#include "kernbridge/cuda_on_cpu/threads.hpp"

namespace kernbridge::cuda_on_cpu
{

/* What comes before the threads of a block. Like the functions below that are not inlined, it is
 * the same for all kernels, of which a template may make hundreds. */
__attribute__((noinline)) static void begin_block(kb_cuda_thread *given, const uint32_t index[3],
                                                  bool cooperative, bool begins)
{
    exchanged = cooperative ? memory_of_thread().size : 0;
    if (cooperative) {
        if (begins && !index[0] && !index[1] && !index[2])
            resident = nullptr; /* of an earlier launch */
        enter_block(given->shared, begins);
    }
    dynamic_shared = given->shared + exchanged;
    gridDim = dim3(given->nctaid[0], given->nctaid[1], given->nctaid[2]);
    blockIdx = uint3{index[0], index[1], index[2]};
    waited = nullptr;
}

/* A kernel has thrown an exception. */
[[noreturn]] __attribute__((noinline, cold)) static void fail_thrown()
{
    char thrown[512] = "the kernel threw an exception";
    try {
        throw;
    } catch (const std::exception &e) {
        snprintf(thrown, sizeof thrown, "%s", e.what());
    } catch (...) {
    }
    fail(thrown);
}

/* Runs threads of a block, from `first` on: see kb_cuda_loop. A round of the innermost loop is a
 * thread; where the kernel never waits, compilers see a plain loop. The parameters are the kernel
 * and, in a cooperative launch, any other address. */
template <typename F>
static uint32_t run_threads(void *const *parameters, kb_cuda_thread *given, const uint32_t index[3],
                            uint32_t first)
{
    const F kernel = *static_cast<const F *>(parameters[0]); /* a copy, which stays as it is */
    const dim3 block(given->ntid[0], given->ntid[1], given->ntid[2]);
    const uint32_t *at = thread_number(given, first)->tid;
    unsigned x = at[0], y = at[1];
    begin_block(given, index, parameters[1], first == 0);
    blockDim = block;
    threadIdx = uint3{0, 0, 0};
    threads = given; /* last: from here on, accesses may be checked */
    for (const DynamicName *name = dynamic_names; name; name = name->next)
        name->set();
    try {
        for (unsigned z = at[2]; z < block.z; z++, y = 0)
            for (; y < block.y; y++, x = 0)
                for (; x < block.x; x++) {
                    threadIdx = uint3{x, y, z};
                    KB_CHECKS_CHANGE;
                    kernel();
                    KB_CHECKS_CHANGE;
                    if (waited) {
                        threads = nullptr;
                        return x + block.x * (y + block.y * z);
                    }
                }
        threads = nullptr;
        return block.x * block.y * block.z - 1;
    } catch (...) {
        fail_thrown();
    }
}

__attribute__((noinline)) static cudaError_t launch(const kb_cuda_launch &how)
{
    char fault[KB_CUDA_FAULT_SIZE];
    if (threads)
        fail("launches a kernel: dynamic parallelism does not exist on the CPU");
    if (last_error == cudaErrorLaunchFailure)
        return cudaErrorLaunchFailure; /* as a context that has had a fault */
    const kb_call *call = this_call();
    uint32_t allowed = static_cast<uint32_t>(__atomic_load_n(&dynamic_max, __ATOMIC_RELAXED));
    if (how.shared > allowed && how.shared <= SHARED_MAX) { /* the core refuses more than that */
        if (call)
            (void)kb_fail(call, KB_INVALID_ARGUMENT,
                          "launch of %s with %u bytes of dynamic shared memory: for more than 49152, "
                          "set cudaFuncAttributeMaxDynamicSharedMemorySize first",
                          how.name, how.shared);
        return set_error(cudaErrorInvalidValue);
    }
    int code = host().launch(call, &how, fault);
    threads = nullptr; /* also where a fault has ended a kernel in its midst */
    if (code == 0)
        return cudaSuccess;
    if (code == 1)
        snprintf(refused_launch, sizeof refused_launch,
                 "invalid configuration argument: %.60s has a grid of (%u, %u, %u), blocks of (%u, "
                 "%u, %u) and %u bytes of dynamic shared memory; a block has 1 to 1024 threads, at "
                 "most 64 along z, and %d bytes; a grid has 1 to 65535 blocks along y and z",
                 how.name, how.sizes[0], how.sizes[1], how.sizes[2], how.sizes[3], how.sizes[4],
                 how.sizes[5], how.shared, static_cast<int>(SHARED_MAX));
    if (code == 2 && !call)
        fprintf(stderr, "%s\n", fault);
    return set_error(code == 2 ? cudaErrorLaunchFailure : cudaErrorInvalidConfiguration);
}

struct Configuration {
    const char *name; /* of the kernel */
    dim3 grid, block;
    size_t shared;
    bool cooperative = false;

    Configuration(const char *name, dim3 grid, dim3 block, size_t shared = 0, cudaStream_t = nullptr)
        : name(name), grid(grid), block(block), shared(shared)
    {
    }

    cudaError_t run(kb_cuda_loop *loop, void **parameters, const void *loops = nullptr)
    {
        return launch({{grid.x, grid.y, grid.z, block.x, block.y, block.z},
                       shared > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(shared),
                       cooperative, KB_CUDA_IS_CHECKED, cooperative ? fixed_shared() : 0,
                       loop, parameters, name, loops});
    }
    template <typename F> cudaError_t run(const F &kernel)
    {
        void *parameters[] = {const_cast<void *>(static_cast<const void *>(&kernel)),
                              cooperative ? this : nullptr};
        return run(run_threads<F>, parameters);
    }

    /* Whether it has loops, in which it then has run. */
    template <typename... P, typename... A>
    bool run_loops(void (*kernel)(P...), const A &...arguments)
    {
        constexpr size_t n = (0 + ... + ((sizeof(P) + 7) / 8));
        const kb_cuda_loops *l = kb_cuda_host_slot.loops;
        while (l && !(l->kernel == reinterpret_cast<void (*)()>(kernel) && l->n_words == n))
            l = l->next;
        if constexpr (sizeof...(P) == sizeof...(A) && (std::is_trivially_copyable<P>::value && ...)) {
            uint64_t words[n + 1] = {}, *to = words;
            void *parameters[n + 1], **at = parameters;
            ((memcpy(to, &static_cast<const P &>(P(arguments)), sizeof(P)),
              to += (sizeof(P) + 7) / 8), ...);
            for (uint64_t *word = words; word < to; word++)
                *at++ = word;
            if (l && l->code)
                (void)run(nullptr, parameters, l->code);
            return l && l->code;
        }
        return false;
    }
};

/* `f<<<grid, block, ...>>>(a, b)` becomes
 * `Launch{[&](auto... p) { f(p...); }, Configuration("f", grid, block, ...), 0}(a, b)`:
 * each argument is evaluated once, and copied for each thread, as a parameter is. In a module with
 * kb_cuda_loops, the last is a function that calls run_loops, if the name of `f` tells which. */
template <typename F, typename G> struct Launch {
    const F &kernel;
    Configuration configuration;
    G loops;

    template <typename... A> void operator()(A... arguments)
    {
        auto call = [kernel = kernel, arguments...]() __attribute__((always_inline)) {
            kernel(arguments...);
        };
        if constexpr (std::is_invocable<G, Configuration &, A &...>::value)
            if (loops(configuration, arguments...))
                return;
        (void)configuration.run(call);
    }
};
template <typename F, typename G> Launch(const F &, Configuration, G) -> Launch<F, G>;

} // namespace kernbridge::cuda_on_cpu

/* A kernel must be passed with its type, not as a `void *`. */
#define KB_LAUNCHES(name, is_cooperative)                                                          \
    template <typename... P>                                                                       \
    static inline cudaError_t name(void (*kernel)(P...), dim3 grid, dim3 block, void **arguments,  \
                                   size_t shared = 0, cudaStream_t = nullptr)                      \
    {                                                                                              \
        kernbridge::cuda_on_cpu::Configuration how("a kernel", grid, block, shared);               \
        how.cooperative = is_cooperative;                                                          \
        [[maybe_unused]] auto next = [&arguments] { return *arguments++; };                        \
        std::tuple<P...> given{*static_cast<P *>(next())...}; /* braces: in this order */          \
        return how.run([kernel, given] { std::apply(kernel, given); });                            \
    }                                                                                              \
    static inline cudaError_t name(const void *, dim3, dim3, void **, size_t = 0,                  \
                                   cudaStream_t = nullptr) = delete;
KB_LAUNCHES(cudaLaunchKernel, false)
KB_LAUNCHES(cudaLaunchCooperativeKernel, true)
#undef KB_LAUNCHES

template <typename... P, typename... A>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                                             A &&...arguments)
{
    kernbridge::cuda_on_cpu::Configuration how("a kernel", config->gridDim, config->blockDim,
                                               config->dynamicSmemBytes);
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute &attribute = config->attrs[i];
        if (attribute.id == cudaLaunchAttributeCooperative)
            how.cooperative = attribute.val.cooperative != 0;
        else if (attribute.id == cudaLaunchAttributeClusterDimension)
            return kernbridge::cuda_on_cpu::set_error(cudaErrorNotSupported);
    }
    std::tuple<P...> given(static_cast<P>(arguments)...);
    return how.run([kernel, given] { std::apply(kernel, given); });
}

#endif
