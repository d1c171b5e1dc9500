/* The threads of CUDA C++ on the CPU: where the running one is, and what it waits for. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_THREADS_HPP
#define KERNBRIDGE_CUDA_ON_CPU_THREADS_HPP

#include "cuda/vector_types.h"

#include "kernbridge/cuda_host.h"

#include "kernbridge/cuda_on_cpu/host.hpp"
#include "kernbridge/cuda_on_cpu/math.hpp"

#include "kernbridge/check.hpp"

#include <exception>
#include <link.h>

extern "C" __attribute__((visibility("default"))) kb_cuda_host_slot_type kb_cuda_host_slot;
extern "C" __attribute__((weak, visibility("hidden"))) kb_cuda_loops kb_cuda_loops_0;
kb_cuda_host_slot_type kb_cuda_host_slot = {KB_CUDA_HOST_VERSION, nullptr, &kb_cuda_loops_0};

#ifdef KB_CUDA_CHECKED
#ifdef __clang__ /* whose no_sanitize leaves the calls at atomic accesses */
#define KB_UNCHECKED  __attribute__((no_sanitize("undefined"), disable_sanitizer_instrumentation))
#define KB_NOT_MERGED __attribute__((noinline, nomerge))
#else
#define KB_UNCHECKED  __attribute__((no_sanitize("thread", "undefined")))
#define KB_NOT_MERGED __attribute__((noinline))
#endif
#define KB_CUDA_IS_CHECKED 1
#define KB_OF_THREAD       thread_local /* not static: what compilers call for a sanitizer reads it */
/* g++ inserts those calls last: it would otherwise drop a value of `threads` that only they read, or
 * move a write past it. */
#define KB_CHECKS_CHANGE   __asm__ volatile("" ::: "memory")
#else
#define KB_CHECKS_CHANGE   (void)0
#define KB_OF_THREAD       static thread_local
#define KB_UNCHECKED
#define KB_NOT_MERGED      __attribute__((noinline))
#define KB_CUDA_IS_CHECKED 0
#endif

/* No address of these is taken, so compilers know that stores to arrays do not change them. */
KB_OF_THREAD uint3 threadIdx, blockIdx;
KB_OF_THREAD dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

namespace kernbridge::cuda_on_cpu
{

KB_OF_THREAD kb_cuda_thread *threads; /* of the running block; or NULL: on the host */
static thread_local unsigned char *dynamic_shared;
static thread_local kb_thread *waited; /* the running thread, once it has waited; or NULL */
/* Of a cooperative grid, whose blocks wait for each other: all run on one thread of the system, and
 * shared memory is memory of that thread, which is exchanged when another block goes on. These are
 * the bytes of shared memory that is not dynamic, and the block whose is where the code finds it. */
static thread_local size_t exchanged;
static thread_local unsigned char *resident;

KB_UNCHECKED KB_IS(const kb_cuda_host &, host, (), *kb_cuda_host_slot.functions)

KB_UNCHECKED KB_IS(uint32_t, index_of_thread, (),
                   threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z))

KB_IS(void, filled, (void *at, size_t size),
      KB_CUDA_IS_CHECKED && kb_cuda_host_slot.functions ? host().filled(at, size) : (void)0)

/* Threads of the block with these threads: one of them, and the running one. */
KB_UNCHECKED KB_IS(kb_cuda_thread *, thread_number, (kb_cuda_thread *of_block, uint32_t i),
                   reinterpret_cast<kb_cuda_thread *>(reinterpret_cast<char *>(of_block) +
                                                      static_cast<size_t>(i) * host().thread_size))
KB_UNCHECKED KB_IS(kb_thread *, running_thread, (kb_cuda_thread *of_block),
                   reinterpret_cast<kb_thread *>(thread_number(of_block, index_of_thread())))

/* The memory of this library that each thread of the system has for itself. */
struct ThreadMemory {
    char *begin;
    size_t size;
};

static inline ThreadMemory memory_of_thread()
{
    static thread_local char inside; /* some of it */
    ThreadMemory found = {&inside, 0};
    dl_iterate_phdr(
        [](struct dl_phdr_info *library, size_t, void *data) {
            ThreadMemory *wanted = static_cast<ThreadMemory *>(data);
            char *begin = static_cast<char *>(library->dlpi_tls_data);
            for (int i = 0; begin && i < library->dlpi_phnum; i++)
                if (library->dlpi_phdr[i].p_type == PT_TLS && wanted->begin >= begin &&
                    wanted->begin < begin + library->dlpi_phdr[i].p_memsz) {
                    *wanted = {begin, library->dlpi_phdr[i].p_memsz};
                    return 1;
                }
            return 0;
        },
        &found);
    return found;
}

/* Its bytes, which each block of a cooperative grid has room for. */
KB_IS(uint32_t, fixed_shared, (), static_cast<uint32_t>(memory_of_thread().size))

/* The block's threads go on, or begin: its shared memory takes the place of the other's. Each block
 * has room for it at the beginning of what the core gives it. */
__attribute__((noinline)) static void enter_block(unsigned char *mine, bool begins)
{
    ThreadMemory memory = memory_of_thread();
    unsigned char *before = resident;
    if (before == mine)
        return;
    if (before)
        memcpy(before, memory.begin, memory.size);
    if (!begins)
        memcpy(memory.begin, mine, memory.size);
    resident = mine;
}

/* The running thread gives way for the time of this object. Others run, and what is said of the
 * running thread is restored. */
class Away
{
  public:
    explicit Away(const char *what) : self(waited), threads_(threads), thread_(threadIdx)
    {
        KB_CHECKS_CHANGE;
        threads = nullptr;
        if (__builtin_expect(!threads_, 0))
            throw_outside(what);
        if (!self)
            self = running_thread(threads_);
    }
    ~Away()
    {
        restore();
        if (__builtin_expect(exchanged != 0, 0))
            enter_again();
    }
    Away(const Away &) = delete;
    Away &operator=(const Away &) = delete;
    kb_thread *self;

  private:
    kb_cuda_thread *threads_;
    uint3 thread_;

    [[noreturn]] __attribute__((noinline, cold)) static void throw_outside(const char *what)
    {
        throw Error(Message() << what << " was called outside of a kernel");
    }
    /* Another block of the grid has run. */
    __attribute__((noinline, cold)) void enter_again()
    {
        enter_block(threads_->shared, false);
        dynamic_shared = threads_->shared + exchanged;
        blockIdx = uint3{threads_->ctaid[0], threads_->ctaid[1], threads_->ctaid[2]};
        restore();
    }
    void restore()
    {
        threads = threads_;
        threadIdx = thread_;
        waited = self;
        KB_CHECKS_CHANGE;
    }
};

/* Ends the launch. What the thread's destructors would do is left out. */
[[noreturn]] __attribute__((noinline, cold)) static void fail(const char *what)
{
    Away away(what);
    host().fail(away.self, what);
    __builtin_unreachable();
}

/* A failed assertion of a kernel ends its launch, and of other functions the call. */
[[noreturn]] __attribute__((noinline, cold)) static void
fail_assertion(const char *condition, const char *file, unsigned line, const char *)
{
    char text[512];
    snprintf(text, sizeof text, "the assertion (%s) at %s:%u failed", condition, file, line);
    if (threads)
        fail(text);
    throw Error(text);
}

__attribute__((noinline, cold)) static void wait_to_poll(uint32_t site)
{
    if (!threads)
        return;
    Away away("a loop that waits for memory");
    host().poll(away.self, 1, site);
}

/* A loop of a thread that calls atomic functions which change nothing may wait for another thread of
 * the block, to which it gives way at times. */
static thread_local unsigned n_unchanged, unchanged_by;
static inline void unchanged(uint32_t site)
{
    n_unchanged = unchanged_by == threadIdx.x ? n_unchanged + 1 : 0;
    unchanged_by = threadIdx.x;
    if (KB_CUDA_IS_CHECKED || n_unchanged % 128 == 127)
        wait_to_poll(site);
}

#ifdef KB_CUDA_CHECKED
static inline void *shared_memory(const void *key, const char *name, size_t size, size_t unit,
                                  const int64_t *shape = nullptr)
{
    kb_cuda_thread *of_block = threads;
    kb_thread *self = running_thread(of_block);
    threads = nullptr; /* as in Away */
    void *memory = host().shared_array(self, key, name, size, static_cast<uint32_t>(unit), shape);
    threads = of_block;
    return memory;
}

/* What takes the place of a declaration of shared memory. */
template <typename T, typename Key> static inline T &shared_array(Key, const char *name)
{
    static char key;
    using item = std::remove_all_extents_t<T>;
    constexpr size_t unit =
        !std::is_scalar<item>::value && sizeof(item) > 4 ? alignof(item) < 4 ? alignof(item) : 4
                                                       : sizeof(item);
    static const int64_t shape[] = {std::rank<T>::value, std::extent<T>::value,
                                    std::extent<T, 1>::value, std::extent<T, 2>::value};
    const bool fits = unit == sizeof(item) && std::rank<T>::value < 4;
    return *static_cast<T *>(shared_memory(&key, name, sizeof(T), unit, fits ? shape : nullptr));
}
#endif

/* A name of dynamic shared memory outside of functions: a pointer, which each block sets. */
static const struct DynamicName *dynamic_names;
struct DynamicName {
    void (*set)();
    const DynamicName *next;

    DynamicName(void (*set)()) : set(set), next(dynamic_names)
    {
        dynamic_names = this;
    }
};

template <typename T> static inline T *shared_of_launch(const char *name)
{
#ifdef KB_CUDA_CHECKED
    return static_cast<T *>(shared_memory(nullptr, name, 0, sizeof(std::remove_all_extents_t<T>)));
#else
    (void)name;
    return reinterpret_cast<T *>(dynamic_shared);
#endif
}

} // namespace kernbridge::cuda_on_cpu

/* Where a function is called: its line, or a number for it. */
#ifdef KB_CUDA_CHECKED
#define KB_SITE                                                                                    \
    uint32_t site = kernbridge::cuda_on_cpu::host().site(__builtin_FILE(), __builtin_LINE())
/* Of a call in code that is not inlined there: two on one line differ. */
#define KB_SITE_OF_CALL                                                                            \
    site = kernbridge::cuda_on_cpu::host().site(                                                   \
        static_cast<const char *>(__builtin_return_address(0)), 0)
#else
#define KB_SITE         uint32_t site = static_cast<uint32_t>(__builtin_LINE())
#define KB_SITE_OF_CALL (void)0
#endif

/* Not inline: a thread's stack is short where it waits. */
KB_NOT_MERGED static void __syncthreads(KB_SITE)
{
    KB_SITE_OF_CALL;
    kernbridge::cuda_on_cpu::Away away("__syncthreads");
    kernbridge::cuda_on_cpu::host().barrier(away.self, site);
}
#define KB_SYNCTHREADS(name, reduction)                                                            \
    KB_NOT_MERGED static int name(int predicate, KB_SITE)                                          \
    {                                                                                              \
        KB_SITE_OF_CALL;                                                                           \
        kernbridge::cuda_on_cpu::Away away(#name);                                                 \
        return static_cast<int>(kernbridge::cuda_on_cpu::host().barrier_reduce(                    \
            away.self, reduction, predicate != 0, site));                                        \
    }
KB_SYNCTHREADS(__syncthreads_count, 0)
KB_SYNCTHREADS(__syncthreads_and, 1)
KB_SYNCTHREADS(__syncthreads_or, 2)
#undef KB_SYNCTHREADS

KB_IS(void, __threadfence, (), __atomic_thread_fence(__ATOMIC_SEQ_CST))
KB_IS(void, __threadfence_block, (), __atomic_thread_fence(__ATOMIC_SEQ_CST))
KB_IS(void, __threadfence_system, (), __atomic_thread_fence(__ATOMIC_SEQ_CST))
KB_IS(void, __nanosleep, (unsigned, KB_SITE), kernbridge::cuda_on_cpu::wait_to_poll(site))
[[noreturn]] static inline void __trap()
{
    kernbridge::cuda_on_cpu::fail("__trap was called");
}
KB_IS(void, __brkpt, (), (void)0)
KB_IS(void, __prof_trigger, (int), (void)0)
static inline long long clock64()
{
#ifdef __x86_64__
    return static_cast<long long>(__builtin_ia32_rdtsc());
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
#endif
}
KB_IS(void, __assume, (bool condition), condition ? (void)0 : __builtin_unreachable())

/* What the C library would end the process in, as code calls it that was compiled otherwise. */
extern "C" __attribute__((visibility("hidden"))) void
__assert_fail(const char *condition, const char *file, unsigned line, const char *) noexcept
{
    kernbridge::cuda_on_cpu::fail_assertion(condition, file, line, "");
}
#include <cassert> /* declares the function, and what else includes this does not */
#define __assert_fail kernbridge::cuda_on_cpu::fail_assertion

#endif
