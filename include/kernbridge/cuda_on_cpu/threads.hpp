/* The threads of CUDA C++ on the CPU: where the running one is, and what it waits for. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_THREADS_HPP
#define KERNBRIDGE_CUDA_ON_CPU_THREADS_HPP

#include "cuda_on_cpu/vector_types.h"

#include "kernbridge/cuda_host.h"

#include "kernbridge/cuda_on_cpu/host.hpp"

#include "kernbridge/check.hpp"

#include <exception>

extern "C" __attribute__((visibility("default"))) kb_cuda_host_slot_type kb_cuda_host_slot;
kb_cuda_host_slot_type kb_cuda_host_slot = {KB_CUDA_HOST_VERSION, nullptr};

/* No address of these is taken, so compilers know that stores to arrays do not change them. */
static thread_local uint3 threadIdx, blockIdx;
static thread_local dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

namespace kernbridge
{
namespace cuda_on_cpu
{

static thread_local kb_cuda_thread *threads; /* of the running block; or NULL: on the host */
static thread_local unsigned char *dynamic_shared;
static thread_local bool waited; /* since the running thread, in its loop, has begun */
/* Of a cooperative grid: the bytes of shared memory that is not dynamic, and the block whose is
 * where the code finds it; see cooperative.hpp. */
static thread_local size_t exchanged;
static thread_local unsigned char *resident;
static void enter_block(unsigned char *mine, bool begins);

static inline const kb_cuda_host &host()
{
    return *kb_cuda_host_slot.functions;
}

static inline uint32_t index_of_thread()
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

/* The running thread gives way for the time of this object. Others run, and what is said of the
 * running thread is restored. */
class Away
{
  public:
    explicit Away(const char *what) : threads_(threads), thread_(threadIdx), block_(blockIdx)
    {
        if (!threads_)
            throw Error(Message() << what << " was called outside of a kernel");
        threads = nullptr;
    }
    ~Away()
    {
        if (__builtin_expect(exchanged != 0, 0))
            enter_block(threads_->shared, false);
        threads = threads_;
        dynamic_shared = threads_->shared + exchanged;
        threadIdx = thread_;
        blockIdx = block_;
        waited = true;
    }
    Away(const Away &) = delete;
    Away &operator=(const Away &) = delete;
    kb_cuda_thread *self() const
    {
        uint32_t i = thread_.x + blockDim.x * (thread_.y + blockDim.y * thread_.z);
        return reinterpret_cast<kb_cuda_thread *>(reinterpret_cast<char *>(threads_) +
                                                  static_cast<size_t>(i) * host().thread_size);
    }

  private:
    kb_cuda_thread *threads_;
    uint3 thread_, block_;
};

/* Ends the launch. What the thread's destructors would do is left out. */
[[noreturn]] __attribute__((noinline, cold)) static void fail(const char *what)
{
    Away away(what);
    host().fail(away.self(), what);
    __builtin_unreachable();
}

__attribute__((noinline, cold)) static void wait_to_poll(uint32_t site)
{
    if (!threads)
        return;
    Away away("a loop that waits for memory");
    host().poll(away.self(), site);
}

template <typename T> static inline T *shared_of_launch()
{
    return reinterpret_cast<T *>(dynamic_shared);
}

} // namespace cuda_on_cpu
} // namespace kernbridge

#define KB_SITE uint32_t site = static_cast<uint32_t>(__builtin_LINE())

static inline void __syncthreads(KB_SITE)
{
    kernbridge::cuda_on_cpu::Away away("__syncthreads");
    kernbridge::cuda_on_cpu::host().barrier(away.self(), site);
}
static inline int __syncthreads_count(int predicate, KB_SITE)
{
    kernbridge::cuda_on_cpu::Away away("__syncthreads_count");
    return static_cast<int>(
        kernbridge::cuda_on_cpu::host().barrier_reduce(away.self(), 0, predicate != 0, site));
}
static inline int __syncthreads_and(int predicate, KB_SITE)
{
    kernbridge::cuda_on_cpu::Away away("__syncthreads_and");
    return static_cast<int>(
        kernbridge::cuda_on_cpu::host().barrier_reduce(away.self(), 1, predicate != 0, site));
}
static inline int __syncthreads_or(int predicate, KB_SITE)
{
    kernbridge::cuda_on_cpu::Away away("__syncthreads_or");
    return static_cast<int>(
        kernbridge::cuda_on_cpu::host().barrier_reduce(away.self(), 2, predicate != 0, site));
}

static inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_block()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_system()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __nanosleep(unsigned, KB_SITE)
{
    kernbridge::cuda_on_cpu::wait_to_poll(site);
}
[[noreturn]] static inline void __trap()
{
    kernbridge::cuda_on_cpu::fail("__trap was called");
}
static inline void __brkpt()
{
}
static inline void __prof_trigger(int)
{
}
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
static inline void __assume(bool condition)
{
    if (!condition)
        __builtin_unreachable();
}
static inline unsigned __isShared(const void *)
{
    return 0;
}

/* A failed assertion, which the C library would end the process for. */
extern "C" __attribute__((visibility("hidden"))) void
__assert_fail(const char *condition, const char *file, unsigned line, const char *) noexcept
{
    char text[512];
    snprintf(text, sizeof text, "the assertion (%s) at %s:%u failed", condition, file, line);
    if (kernbridge::cuda_on_cpu::threads)
        kernbridge::cuda_on_cpu::fail(text);
    fprintf(stderr, "%s\n", text);
    abort();
}

#endif
