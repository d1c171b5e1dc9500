/* Atomic functions of CUDA C++ on the CPU. Blocks run at the same time, so they are atomic. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_ATOMICS_HPP
#define KERNBRIDGE_CUDA_ON_CPU_ATOMICS_HPP

#include "kernbridge/cuda_on_cpu/threads.hpp"

#include <cstring>
#include <type_traits>

namespace kernbridge
{
namespace cuda_on_cpu
{

/* The type of an argument that does not say what T is. */
template <typename T> struct Same {
    typedef T type;
};
template <typename T> using same = typename Same<T>::type;

template <size_t size> struct Word;
template <> struct Word<2> {
    typedef uint16_t type;
};
template <> struct Word<4> {
    typedef uint32_t type;
};
template <> struct Word<8> {
    typedef uint64_t type;
};

/* Replaces a value by change(value), and returns it; the bits are compared, as on a GPU. */
template <typename T, typename F> static inline T update(T *at, const F &change)
{
    typedef typename Word<sizeof(T)>::type word;
    word *bits = reinterpret_cast<word *>(at);
    word seen = __atomic_load_n(bits, __ATOMIC_RELAXED), wanted;
    T old;
    do {
        memcpy(static_cast<void *>(&old), &seen, sizeof old);
        T made = change(old);
        memcpy(&wanted, static_cast<void *>(&made), sizeof made);
    } while (!__atomic_compare_exchange_n(bits, &seen, wanted, true, __ATOMIC_SEQ_CST,
                                          __ATOMIC_RELAXED));
    return old;
}

template <typename T> static inline T swap_if(T *at, T expected, T value, uint32_t site)
{
    typedef typename Word<sizeof(T)>::type word;
    word seen, wanted;
    memcpy(&seen, static_cast<void *>(&expected), sizeof seen);
    memcpy(&wanted, static_cast<void *>(&value), sizeof wanted);
    bool swapped = __atomic_compare_exchange_n(reinterpret_cast<word *>(at), &seen, wanted, false,
                                               __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    memcpy(static_cast<void *>(&expected), &seen, sizeof seen);
    if (!swapped) /* what it waits for may be up to another thread of the block */
        wait_to_poll(site);
    return expected;
}

template <typename T> static inline T add(T *at, T value, std::true_type)
{
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}
template <typename T> static inline T add(T *at, T value, std::false_type)
{
    return update(at, [value](T old) -> T { return old + value; });
}

} // namespace cuda_on_cpu
} // namespace kernbridge

/* Each in three scopes, which are the same here. */
#define KB_ATOMIC(name, scope)                                                                     \
    template <typename T>                                                                          \
    static inline T name##Add##scope(T *at, kernbridge::cuda_on_cpu::same<T> value)                \
    {                                                                                              \
        return kernbridge::cuda_on_cpu::add(at, value, std::is_integral<T>());                     \
    }                                                                                              \
    template <typename T>                                                                          \
    static inline T name##Sub##scope(T *at, kernbridge::cuda_on_cpu::same<T> value)                \
    {                                                                                              \
        return kernbridge::cuda_on_cpu::update(at, [value](T old) -> T { return old - value; });   \
    }                                                                                              \
    template <typename T>                                                                          \
    static inline T name##Exch##scope(T *at, kernbridge::cuda_on_cpu::same<T> value)               \
    {                                                                                              \
        return kernbridge::cuda_on_cpu::update(at, [value](T) -> T { return value; });             \
    }                                                                                              \
    template <typename T>                                                                          \
    static inline T name##Min##scope(T *at, kernbridge::cuda_on_cpu::same<T> value)                \
    {                                                                                              \
        return kernbridge::cuda_on_cpu::update(                                                    \
            at, [value](T old) -> T { return value < old ? value : old; });                        \
    }                                                                                              \
    template <typename T>                                                                          \
    static inline T name##Max##scope(T *at, kernbridge::cuda_on_cpu::same<T> value)                \
    {                                                                                              \
        return kernbridge::cuda_on_cpu::update(                                                    \
            at, [value](T old) -> T { return old < value ? value : old; });                        \
    }                                                                                              \
    template <typename T>                                                                          \
    static inline T name##And##scope(T *at, kernbridge::cuda_on_cpu::same<T> value)                \
    {                                                                                              \
        return __atomic_fetch_and(at, value, __ATOMIC_SEQ_CST);                                    \
    }                                                                                              \
    template <typename T>                                                                          \
    static inline T name##Or##scope(T *at, kernbridge::cuda_on_cpu::same<T> value)                 \
    {                                                                                              \
        return __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST);                                     \
    }                                                                                              \
    template <typename T>                                                                          \
    static inline T name##Xor##scope(T *at, kernbridge::cuda_on_cpu::same<T> value)                \
    {                                                                                              \
        return __atomic_fetch_xor(at, value, __ATOMIC_SEQ_CST);                                    \
    }                                                                                              \
    static inline unsigned name##Inc##scope(unsigned *at, unsigned last)                           \
    {                                                                                              \
        return kernbridge::cuda_on_cpu::update(                                                    \
            at, [last](unsigned old) { return old >= last ? 0u : old + 1; });                      \
    }                                                                                              \
    static inline unsigned name##Dec##scope(unsigned *at, unsigned last)                           \
    {                                                                                              \
        return kernbridge::cuda_on_cpu::update(                                                    \
            at, [last](unsigned old) { return old == 0 || old > last ? last : old - 1; });         \
    }                                                                                              \
    template <typename T>                                                                          \
    static inline T name##CAS##scope(T *at, kernbridge::cuda_on_cpu::same<T> expected,             \
                                     kernbridge::cuda_on_cpu::same<T> value, KB_SITE)              \
    {                                                                                              \
        return kernbridge::cuda_on_cpu::swap_if(at, expected, value, site);                        \
    }
KB_ATOMIC(atomic, )
KB_ATOMIC(atomic, _block)
KB_ATOMIC(atomic, _system)
#undef KB_ATOMIC

#endif
