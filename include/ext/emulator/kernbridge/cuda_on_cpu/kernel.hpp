/* One kernel of CUDA C++ on the CPU, which kernbridge launches: see kb_cuda_kernel. It comes after
 * the source, whose kernel KB_CUDA_KERNEL names. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_KERNEL_HPP
#define KERNBRIDGE_CUDA_ON_CPU_KERNEL_HPP

#ifdef KERNBRIDGE_CUDA_FOR_ENZYME_HPP /* it finds the kernel's name, codes and sizes there */
#pragma clang force_cuda_host_device begin
template <typename F> struct kb_parameters;
template <typename... P> struct kb_parameters<void (*)(P...)> {
    static constexpr int codes[] = {kernbridge_signature::code<P>::value... KB_MEMBERS, 0};
    static constexpr int sizes[] = {sizeof(P)... KB_OFFSETS, 0};
};
#define KB_CUDA_KERNEL(...)                                                                        \
    using kb_kernel = kb_parameters<decltype(&__VA_ARGS__)>;                                       \
    extern "C" __device__ const void *const kb_description[] = {                                   \
        reinterpret_cast<const void *>(&__VA_ARGS__), kb_kernel::codes, kb_kernel::sizes};
#else
#include "kernbridge/cuda_on_cpu/launch.hpp"

namespace kernbridge::cuda_on_cpu
{

/* A parameter, whose words are aligned to 8 bytes. */
template <typename P> static inline P parameter(const void *words)
{
    alignas(P) unsigned char value[sizeof(P)];
    memcpy(value, words, sizeof value);
    return *std::launder(reinterpret_cast<P *>(value));
}

template <auto kernel, typename F = decltype(kernel)> struct Kernel;
template <auto kernel, typename... P> struct Kernel<kernel, void (*)(P...)> {
    static constexpr int32_t codes[] = {kernbridge_signature::code<P>::value... KB_MEMBERS, 0};
    static constexpr uint32_t sizes[] = {sizeof(P)... KB_OFFSETS, 0};
    static constexpr uint32_t n = sizeof sizes / sizeof *sizes - 1;

    template <size_t... i>
    __attribute__((noinline)) static uint32_t
    run_with(void *const *given, kb_cuda_thread *block, const uint32_t index[3], uint32_t first,
             void *cooperative, std::index_sequence<i...>)
    {
        auto call = [values = std::tuple<P...>(parameter<P>(given[i])...)]()
            __attribute__((always_inline)) { kernel(std::get<i>(values)...); };
        void *parameters[] = {&call, cooperative};
        return run_threads<decltype(call)>(parameters, block, index, first);
    }
    template <bool cooperative>
    static uint32_t run(void *const *given, kb_cuda_thread *block, const uint32_t index[3],
                        uint32_t first)
    {
        return run_with(given, block, index, first, cooperative ? block : nullptr,
                        std::index_sequence_for<P...>());
    }

    static constexpr kb_cuda_kernel description = {
        KB_CUDA_HOST_VERSION, n,         KB_CUDA_IS_CHECKED, codes, sizes,
        run<false>,           run<true>, fixed_shared,       &kb_cuda_loops_0};
};

} // namespace kernbridge::cuda_on_cpu

#define KB_CUDA_KERNEL(...)                                                                        \
    extern "C" __attribute__((visibility("default"))) const kb_cuda_kernel                         \
        kb_cuda_kernel_description;                                                                \
    const kb_cuda_kernel kb_cuda_kernel_description =                                              \
        ::kernbridge::cuda_on_cpu::Kernel<&__VA_ARGS__>::description;

#endif
#endif
