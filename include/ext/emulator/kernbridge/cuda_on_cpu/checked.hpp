/* The checked mode of CUDA C++ on the CPU. Compilers put a call before every access to memory, of
 * functions that a sanitizer has otherwise: these here ask the core, which knows the arrays. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_CHECKED_HPP
#define KERNBRIDGE_CUDA_ON_CPU_CHECKED_HPP

#include "kernbridge/cuda_on_cpu/threads.hpp"

namespace kernbridge::cuda_on_cpu
{

/* On the host, `threads` is NULL, and nothing is asked. */
KB_UNCHECKED __attribute__((noinline)) static void
ask(const void *at, uint64_t size, uint32_t how, const void *code)
{
    kb_cuda_thread *of_block = threads;
    if (!of_block)
        return;
    kb_thread *self = running_thread(of_block);
    threads = nullptr; /* as in Away */
    host().access(self, at, size, how, code);
    threads = of_block;
}

} // namespace kernbridge::cuda_on_cpu

#define KB_HOOK extern "C" KB_UNCHECKED __attribute__((used))
#define KB_ASK(at, size, how)                                                                      \
    kernbridge::cuda_on_cpu::ask(at, size, how, __builtin_return_address(0))

#define KB_HOOK_DOES(name, parameters, action)                                                     \
    KB_HOOK void __tsan_##name parameters                                                          \
    {                                                                                              \
        action;                                                                                    \
    }
#define KB_HOOKS_OF(bytes)                                                                         \
    KB_HOOK_DOES(read##bytes, (void *at), KB_ASK(at, bytes, KB_CUDA_READ | KB_CUDA_ALIGNED))       \
    KB_HOOK_DOES(write##bytes, (void *at), KB_ASK(at, bytes, KB_CUDA_WRITE | KB_CUDA_ALIGNED))     \
    KB_HOOK_DOES(unaligned_read##bytes, (void *at), KB_ASK(at, bytes, KB_CUDA_READ))               \
    KB_HOOK_DOES(unaligned_write##bytes, (void *at), KB_ASK(at, bytes, KB_CUDA_WRITE))
KB_HOOKS_OF(1)
KB_HOOKS_OF(2)
KB_HOOKS_OF(4)
KB_HOOKS_OF(8)
KB_HOOKS_OF(16)
#undef KB_HOOKS_OF
KB_HOOK_DOES(read_range, (void *at, size_t size), KB_ASK(at, size, KB_CUDA_READ))
KB_HOOK_DOES(write_range, (void *at, size_t size), KB_ASK(at, size, KB_CUDA_WRITE))
KB_HOOK_DOES(vptr_update, (void **, void *), )
KB_HOOK_DOES(vptr_read, (void **), )
KB_HOOK_DOES(func_entry, (void *), )
KB_HOOK_DOES(func_exit, (), )
KB_HOOK_DOES(init, (), )
KB_HOOK_DOES(atomic_signal_fence, (int), )
#undef KB_HOOK_DOES
KB_HOOK void __tsan_atomic_thread_fence(int)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    kb_cuda_thread *of_block = kernbridge::cuda_on_cpu::threads;
    if (of_block)
        kernbridge::cuda_on_cpu::host().fence(kernbridge::cuda_on_cpu::running_thread(of_block));
}

#define KB_HOOK_ATOMIC(bits, type, result, name, parameters, expression)                           \
    KB_HOOK result __tsan_atomic##bits##_##name parameters                                         \
    {                                                                                              \
        KB_ASK(const_cast<void *>(at), sizeof(type), KB_CUDA_ATOMIC);                              \
        return expression;                                                                         \
    }
#define KB_HOOK_CHANGE(bits, type, name, builtin)                                                  \
    KB_HOOK_ATOMIC(bits, type, type, name, (volatile void *at, type value, int),                   \
                   builtin(static_cast<volatile type *>(at), value, __ATOMIC_SEQ_CST))
#define KB_SWAPPED(type, expected, is_weak)                                                        \
    __atomic_compare_exchange_n(static_cast<volatile type *>(at), expected, value, is_weak,        \
                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define KB_HOOK_SWAP(bits, type, name, is_weak)                                                    \
    KB_HOOK_ATOMIC(bits, type, bool, compare_exchange_##name,                                      \
                   (volatile void *at, void *expected, type value, int, int),                      \
                   KB_SWAPPED(type, static_cast<type *>(expected), is_weak))
#define KB_HOOKS_OF(bits, type)                                                                    \
    KB_HOOK_ATOMIC(bits, type, type, load, (const volatile void *at, int),                         \
                   __atomic_load_n(static_cast<const volatile type *>(at), __ATOMIC_SEQ_CST))      \
    KB_HOOK_ATOMIC(bits, type, void, store, (volatile void *at, type value, int),                  \
                   __atomic_store_n(static_cast<volatile type *>(at), value, __ATOMIC_SEQ_CST))    \
    KB_HOOK_CHANGE(bits, type, exchange, __atomic_exchange_n)                                      \
    KB_HOOK_CHANGE(bits, type, fetch_add, __atomic_fetch_add)                                      \
    KB_HOOK_CHANGE(bits, type, fetch_sub, __atomic_fetch_sub)                                      \
    KB_HOOK_CHANGE(bits, type, fetch_and, __atomic_fetch_and)                                      \
    KB_HOOK_CHANGE(bits, type, fetch_or, __atomic_fetch_or)                                        \
    KB_HOOK_CHANGE(bits, type, fetch_xor, __atomic_fetch_xor)                                      \
    KB_HOOK_CHANGE(bits, type, fetch_nand, __atomic_fetch_nand)                                    \
    KB_HOOK_ATOMIC(bits, type, type, compare_exchange_val,                                         \
                   (volatile void *at, type expected, type value, int, int),                       \
                   (KB_SWAPPED(type, &expected, false), expected))                                 \
    KB_HOOK_SWAP(bits, type, strong, false)                                                        \
    KB_HOOK_SWAP(bits, type, weak, true)
KB_HOOKS_OF(8, unsigned char)
KB_HOOKS_OF(16, unsigned short)
KB_HOOKS_OF(32, unsigned)
KB_HOOKS_OF(64, unsigned long)
#undef KB_HOOKS_OF
#undef KB_HOOK_SWAP
#undef KB_SWAPPED
#undef KB_HOOK_CHANGE
#undef KB_HOOK_ATOMIC

/* clang copies structures by these. The linker takes __wrap_memcpy for memcpy. */
#define KB_HOOK_COPY(name, type, reads)                                                            \
    extern "C" void *__real_##name(void *, type, size_t);                                          \
    KB_HOOK void *__wrap_##name(void *to, type from, size_t size)                                  \
    {                                                                                              \
        if (size) {                                                                                \
            reads;                                                                                 \
            KB_ASK(to, size, KB_CUDA_WRITE);                                                       \
        }                                                                                          \
        return __real_##name(to, from, size);                                                      \
    }                                                                                              \
    KB_HOOK __attribute__((alias("__wrap_" #name))) void *__tsan_##name(void *, type, size_t);
KB_HOOK_COPY(memcpy, const void *, KB_ASK(from, size, KB_CUDA_READ))
KB_HOOK_COPY(memmove, const void *, KB_ASK(from, size, KB_CUDA_READ))
KB_HOOK_COPY(memset, int, (void)from)
#undef KB_HOOK_COPY

/* What -fsanitize=alignment calls, where the address of a vector is wrong for its type. */
struct kb_wrong_address {
    struct {
        const char *file;
        uint32_t line, column;
    } where;
    const void *type;
    unsigned char log_alignment, kind; /* 1: a write */
};
KB_HOOK void __ubsan_handle_type_mismatch_v1(kb_wrong_address *about, uintptr_t at)
{
    KB_ASK(reinterpret_cast<void *>(at), 1u << about->log_alignment,
           (about->kind == 1 ? KB_CUDA_WRITE : KB_CUDA_READ) | KB_CUDA_ALIGNED);
}
#undef KB_ASK

/* What -fsanitize=bounds calls, for arrays whose extents are part of their types. */
struct kb_wrong_index {
    const char *file;
    uint32_t line, column;
    const struct {
        uint16_t kind, info;
        char name[1]; /* in quotes */
    } *array, *index;
};
KB_HOOK void __ubsan_handle_out_of_bounds(kb_wrong_index *where, uintptr_t index)
{
    using namespace kernbridge::cuda_on_cpu;
    if (!threads)
        return;
    Away away("an access");
    host().wrong_index(away.self, index, where->array->name, host().site(where->file, where->line));
    __builtin_trap();
}
#undef KB_HOOK

#endif
