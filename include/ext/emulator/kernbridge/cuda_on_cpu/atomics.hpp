/* Atomic functions of CUDA C++ on the CPU. Blocks run at the same time, so they are atomic. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_ATOMICS_HPP
#define KERNBRIDGE_CUDA_ON_CPU_ATOMICS_HPP

#include "kernbridge/cuda_on_cpu/threads.hpp"

#include <type_traits>

namespace kernbridge::cuda_on_cpu
{

/* The type of an argument that does not say what T is. */
template <typename T> using same = std::enable_if_t<true, T>;

/* void for a size that no atomic access has. */
template <size_t size>
using Word = std::conditional_t<
    size == 2, uint16_t,
    std::conditional_t<size == 4, uint32_t, std::conditional_t<size == 8, uint64_t, void>>>;

/* Replaces a value by change(value), and returns it; the bits are compared, as on a GPU. */
template <typename T, typename F> static inline T update(T *at, const F &change, uint32_t site)
{
    typedef Word<sizeof(T)> word;
    word *bits = reinterpret_cast<word *>(at);
    word seen = __atomic_load_n(bits, __ATOMIC_RELAXED), wanted;
    T old;
    do {
        old = __builtin_bit_cast(T, seen);
        wanted = __builtin_bit_cast(word, change(old));
    } while (!__atomic_compare_exchange_n(bits, &seen, wanted, true, __ATOMIC_SEQ_CST,
                                          __ATOMIC_RELAXED));
    if (seen == wanted)
        unchanged(site);
    return old;
}

template <typename T> static inline T swap_if(T *at, T expected, T value, uint32_t site)
{
    typedef Word<sizeof(T)> word;
    word seen = __builtin_bit_cast(word, expected), wanted = __builtin_bit_cast(word, value);
    bool swapped = __atomic_compare_exchange_n(reinterpret_cast<word *>(at), &seen, wanted, false,
                                               __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    if (!swapped) /* what it waits for may be up to another thread of the block */
        wait_to_poll(site);
    else if (seen == wanted)
        unchanged(site);
    return __builtin_bit_cast(T, seen);
}

template <typename T> static inline T add(T *at, T value, uint32_t site)
{
    if constexpr (std::is_integral_v<T>) {
        if (!value)
            unchanged(site);
        return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
    } else {
        return update(at, [value](T old) -> T { return old + value; }, site);
    }
}

} // namespace kernbridge::cuda_on_cpu

/* A function of `old` and `value`. */
#define KB_CHANGE(name, T, expression)                                                             \
    KB_IS(T, name, (T * at, kernbridge::cuda_on_cpu::same<T> value, KB_SITE),                      \
          kernbridge::cuda_on_cpu::update(                                                         \
              at, [value](T old) -> T { return (void)old, expression; }, site))
/* Each in three scopes, which are the same here. */
#define KB_ATOMIC(name, scope)                                                                     \
    template <typename T>                                                                          \
    KB_IS(T, name##Add##scope, (T * at, kernbridge::cuda_on_cpu::same<T> value, KB_SITE),          \
          kernbridge::cuda_on_cpu::add(at, value, site))                                           \
    template <typename T> KB_CHANGE(name##Sub##scope, T, old - value)                              \
    template <typename T> KB_CHANGE(name##Exch##scope, T, value)                                   \
    template <typename T> KB_CHANGE(name##Min##scope, T, value < old ? value : old)                \
    template <typename T> KB_CHANGE(name##Max##scope, T, old < value ? value : old)                \
    template <typename T> KB_CHANGE(name##And##scope, T, old & value)                              \
    template <typename T> KB_CHANGE(name##Or##scope, T, old | value)                               \
    template <typename T> KB_CHANGE(name##Xor##scope, T, old ^ value)                              \
    KB_CHANGE(name##Inc##scope, unsigned, old >= value ? 0u : old + 1)                             \
    KB_CHANGE(name##Dec##scope, unsigned, old == 0 || old > value ? value : old - 1)               \
    template <typename T>                                                                          \
    KB_IS(T, name##CAS##scope,                                                                     \
          (T * at, kernbridge::cuda_on_cpu::same<T> expected,                                      \
           kernbridge::cuda_on_cpu::same<T> value, KB_SITE),                                       \
          kernbridge::cuda_on_cpu::swap_if(at, expected, value, site))
KB_ATOMIC(atomic, )
KB_ATOMIC(atomic, _block)
KB_ATOMIC(atomic, _system)
#undef KB_CHANGE
#undef KB_ATOMIC

#endif
