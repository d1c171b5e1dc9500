/* CUDA's cooperative groups on the CPU: threads, tiles, coalesced threads, blocks and grids. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_COOPERATIVE_GROUPS_H
#define KERNBRIDGE_CUDA_ON_CPU_COOPERATIVE_GROUPS_H

#include "cuda_runtime.h"

namespace cooperative_groups
{

class thread_group
{
};

class grid_group : public thread_group
{
  public:
    void sync(KB_SITE) const
    {
        kernbridge::cuda_on_cpu::Away away("grid.sync()");
        if (!kernbridge::cuda_on_cpu::exchanged)
            throw kernbridge::Error("grid.sync() in a launch that is not cooperative");
        kernbridge::cuda_on_cpu::host().grid_barrier(away.self(), site);
    }
    bool is_valid() const
    {
        return kernbridge::cuda_on_cpu::exchanged != 0;
    }
    unsigned long long size() const
    {
        return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z * blockDim.x *
               blockDim.y * blockDim.z;
    }
    unsigned long long num_threads() const
    {
        return size();
    }
    unsigned long long block_rank() const
    {
        return blockIdx.x +
               static_cast<unsigned long long>(gridDim.x) *
                   (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z);
    }
    unsigned long long num_blocks() const
    {
        return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z;
    }
    unsigned long long thread_rank() const
    {
        return block_rank() * (blockDim.x * blockDim.y * blockDim.z) +
               kernbridge::cuda_on_cpu::index_of_thread();
    }
    dim3 group_dim() const
    {
        return gridDim;
    }
};

class thread_block : public thread_group
{
  public:
    void sync(KB_SITE) const
    {
        __syncthreads(site);
    }
    unsigned size() const
    {
        return blockDim.x * blockDim.y * blockDim.z;
    }
    unsigned num_threads() const
    {
        return size();
    }
    unsigned thread_rank() const
    {
        return kernbridge::cuda_on_cpu::index_of_thread();
    }
    dim3 thread_index() const
    {
        return threadIdx;
    }
    dim3 group_index() const
    {
        return blockIdx;
    }
    dim3 group_dim() const
    {
        return blockDim;
    }
    dim3 dim_threads() const
    {
        return blockDim;
    }
};

/* Lanes of one warp, given by a mask. */
class coalesced_group : public thread_group
{
  public:
    explicit coalesced_group(unsigned mask) : mask_(mask)
    {
    }
    void sync(KB_SITE) const
    {
        __syncwarp(mask_, site);
    }
    unsigned size() const
    {
        return static_cast<unsigned>(__builtin_popcount(mask_));
    }
    unsigned num_threads() const
    {
        return size();
    }
    unsigned thread_rank() const
    {
        unsigned lane = kernbridge::cuda_on_cpu::index_of_thread() & 31;
        return static_cast<unsigned>(__builtin_popcount(mask_ & ((1u << lane) - 1)));
    }
    template <typename T> T shfl(T value, unsigned rank, KB_SITE) const
    {
        return __shfl_sync(mask_, value, lane_of(rank % size()), 32, site);
    }
    template <typename T> T shfl_down(T value, unsigned delta, KB_SITE) const
    {
        unsigned rank = thread_rank() + delta;
        return __shfl_sync(mask_, value, lane_of(rank < size() ? rank : thread_rank()), 32, site);
    }
    template <typename T> T shfl_up(T value, unsigned delta, KB_SITE) const
    {
        unsigned rank = thread_rank();
        return __shfl_sync(mask_, value, lane_of(rank >= delta ? rank - delta : rank), 32, site);
    }
    template <typename T> T shfl_xor(T value, unsigned lanes, KB_SITE) const
    {
        unsigned rank = thread_rank() ^ lanes;
        return __shfl_sync(mask_, value, lane_of(rank < size() ? rank : thread_rank()), 32, site);
    }
    unsigned ballot(int predicate, KB_SITE) const
    {
        unsigned found = __ballot_sync(mask_, predicate, site), packed = 0, n = 0;
        for (unsigned left = mask_; left; left &= left - 1)
            packed |= (found >> __builtin_ctz(left) & 1) << n++;
        return packed;
    }
    int any(int predicate, KB_SITE) const
    {
        return __any_sync(mask_, predicate, site);
    }
    int all(int predicate, KB_SITE) const
    {
        return __all_sync(mask_, predicate, site);
    }
    template <typename T> unsigned match_any(T value, KB_SITE) const
    {
        unsigned found = __match_any_sync(mask_, value, site), packed = 0, n = 0;
        for (unsigned left = mask_; left; left &= left - 1)
            packed |= (found >> __builtin_ctz(left) & 1) << n++;
        return packed;
    }

  private:
    int lane_of(unsigned rank) const
    {
        unsigned left = mask_;
        while (rank--)
            left &= left - 1;
        return __builtin_ctz(left);
    }
    unsigned mask_;
};

template <unsigned n, typename Parent = void> class thread_block_tile : public coalesced_group
{
    static_assert(n <= 32 && (n & (n - 1)) == 0,
                  "a tile is 1, 2, 4, 8, 16 or 32 threads of a warp");

  public:
    explicit thread_block_tile(const thread_block &)
        : coalesced_group((n == 32 ? ~0u : (1u << n % 32) - 1)
                          << (kernbridge::cuda_on_cpu::index_of_thread() & 31 & ~(n - 1)))
    {
    }
    template <unsigned m, typename P>
    explicit thread_block_tile(const thread_block_tile<m, P> &) : thread_block_tile(thread_block())
    {
        static_assert(n <= m, "a tile of a tile is not larger");
    }
    static constexpr unsigned size()
    {
        return n;
    }
    static constexpr unsigned num_threads()
    {
        return n;
    }
    unsigned meta_group_rank() const
    {
        return kernbridge::cuda_on_cpu::index_of_thread() / n;
    }
    unsigned meta_group_size() const
    {
        return (blockDim.x * blockDim.y * blockDim.z + n - 1) / n;
    }
};

static inline thread_block this_thread_block()
{
    return thread_block();
}
static inline grid_group this_grid()
{
    return grid_group();
}
static inline coalesced_group coalesced_threads(KB_SITE)
{
    return coalesced_group(__activemask(site));
}
template <unsigned n, typename G> static inline thread_block_tile<n, G> tiled_partition(const G &g)
{
    return thread_block_tile<n, G>(g);
}
template <typename G> static inline void sync(const G &group, KB_SITE)
{
    group.sync(site);
}

template <typename T> struct plus {
    T operator()(T a, T b) const
    {
        return a + b;
    }
};
template <typename T> struct greater {
    T operator()(T a, T b) const
    {
        return a < b ? b : a;
    }
};
template <typename T> struct less {
    T operator()(T a, T b) const
    {
        return b < a ? b : a;
    }
};
template <typename T> struct bit_and {
    T operator()(T a, T b) const
    {
        return a & b;
    }
};
template <typename T> struct bit_or {
    T operator()(T a, T b) const
    {
        return a | b;
    }
};
template <typename T> struct bit_xor {
    T operator()(T a, T b) const
    {
        return a ^ b;
    }
};

/* Of tiles and coalesced threads; every thread gets the result. */
template <typename G, typename T, typename F>
static inline T reduce(const G &group, T value, F f, KB_SITE)
{
    T all = group.shfl(value, 0, site);
    for (unsigned i = 1; i < group.size(); i++)
        all = f(all, group.shfl(value, i, site));
    return all;
}

} // namespace cooperative_groups

#endif
