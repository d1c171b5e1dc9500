/* CUDA's cooperative groups on the CPU: threads, tiles, coalesced threads, blocks and grids. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_COOPERATIVE_GROUPS_H
#define KERNBRIDGE_CUDA_ON_CPU_COOPERATIVE_GROUPS_H

#include "cuda_runtime.h"

namespace cooperative_groups
{

class coalesced_group;

#define KB_IS(T, name, expression)                                                                 \
    T name() const                                                                                 \
    {                                                                                              \
        return expression;                                                                         \
    }

/* A group whose kind is known when it runs: the grid, a block, or lanes of a warp. */
class thread_group
{
  public:
    void sync(KB_SITE) const;
    unsigned long long size() const;
    unsigned long long thread_rank() const;
    KB_IS(unsigned long long, num_threads, size())
    coalesced_group part(unsigned n) const;

  protected:
    enum Kind { GRID, BLOCK, LANES };
    explicit thread_group(Kind kind, unsigned mask = 0) : kind_(kind), mask_(mask)
    {
    }
    Kind kind_;
    unsigned mask_; /* of lanes */
};

class grid_group : public thread_group
{
  public:
    grid_group() : thread_group(GRID)
    {
    }
    void sync(KB_SITE) const
    {
        kernbridge::cuda_on_cpu::Away away("grid.sync()");
        if (!kernbridge::cuda_on_cpu::exchanged)
            throw kernbridge::Error("grid.sync() in a launch that is not cooperative");
        kernbridge::cuda_on_cpu::host().grid_barrier(away.self(), site);
    }
    KB_IS(bool, is_valid, kernbridge::cuda_on_cpu::exchanged != 0)
    KB_IS(unsigned long long, size, num_blocks() * blockDim.x * blockDim.y * blockDim.z)
    KB_IS(unsigned long long, num_threads, size())
    KB_IS(unsigned long long, block_rank,
          blockIdx.x + static_cast<unsigned long long>(gridDim.x) *
                           (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z))
    KB_IS(unsigned long long, num_blocks,
          static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z)
    KB_IS(unsigned long long, thread_rank,
          block_rank() * (blockDim.x * blockDim.y * blockDim.z) +
              kernbridge::cuda_on_cpu::index_of_thread())
    KB_IS(dim3, group_dim, gridDim)
    KB_IS(dim3, dim_blocks, gridDim)
    KB_IS(dim3, block_index, blockIdx)
};

class thread_block : public thread_group
{
  public:
    enum { MOST = 1024 };

    thread_block() : thread_group(BLOCK)
    {
    }
    void sync(KB_SITE) const
    {
        __syncthreads(site);
    }
    KB_IS(unsigned, size, blockDim.x *blockDim.y *blockDim.z)
    KB_IS(unsigned, num_threads, size())
    KB_IS(unsigned, thread_rank, kernbridge::cuda_on_cpu::index_of_thread())
    KB_IS(dim3, thread_index, threadIdx)
    KB_IS(dim3, group_index, blockIdx)
    KB_IS(dim3, group_dim, blockDim)
    KB_IS(dim3, dim_threads, blockDim)
    coalesced_group part(unsigned n) const;
};

/* Lanes of one warp, given by a mask; and which of how many parts of a larger group it is. */
class coalesced_group : public thread_group
{
  public:
    enum { MOST = 32 };

    explicit coalesced_group(unsigned mask, unsigned rank = 0, unsigned parts = 1)
        : thread_group(LANES, mask), rank_(rank), parts_(parts)
    {
    }
    KB_IS(unsigned, meta_group_rank, rank_)
    KB_IS(unsigned, meta_group_size, parts_)
    /* Each `n` lanes, in the order of their ranks. */
    coalesced_group part(unsigned n) const
    {
        unsigned mask = 0, rank = 0, own = thread_rank() / n;
        for (unsigned left = mask_; left; left &= left - 1)
            mask |= rank++ / n == own ? left & -left : 0;
        return coalesced_group(mask, own, (size() + n - 1) / n);
    }
    template <typename T> coalesced_group with_label(T label, KB_SITE) const
    {
        return coalesced_group(__match_any_sync(mask_, label, site));
    }
    void sync(KB_SITE) const
    {
        __syncwarp(mask_, site);
    }
    KB_IS(unsigned, size, static_cast<unsigned>(__builtin_popcount(mask_)))
    KB_IS(unsigned, num_threads, size())
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
        return packed(__ballot_sync(mask_, predicate, site));
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
        return packed(__match_any_sync(mask_, value, site));
    }
    template <typename T> unsigned match_all(T value, int &is_same, KB_SITE) const
    {
        return packed(__match_all_sync(mask_, value, &is_same, site));
    }

  private:
    /* The bits of the group's lanes, by rank. */
    unsigned packed(unsigned found) const
    {
        unsigned bits = 0, n = 0;
        for (unsigned left = mask_; left; left &= left - 1)
            bits |= (found >> __builtin_ctz(left) & 1) << n++;
        return bits;
    }
    int lane_of(unsigned rank) const
    {
        unsigned left = mask_;
        while (rank--)
            left &= left - 1;
        return __builtin_ctz(left);
    }
    unsigned rank_, parts_;
};

inline coalesced_group thread_block::part(unsigned n) const
{
    unsigned index = kernbridge::cuda_on_cpu::index_of_thread();
    return coalesced_group((n >= 32 ? ~0u : (1u << n) - 1) << (index & 31 & ~(n - 1)), index / n,
                           (size() + n - 1) / n);
}
inline coalesced_group thread_group::part(unsigned n) const
{
    return kind_ == LANES ? coalesced_group(mask_).part(n) : thread_block().part(n);
}
inline void thread_group::sync(uint32_t site) const
{
    kind_ == LANES   ? __syncwarp(mask_, site)
    : kind_ == BLOCK ? __syncthreads(site)
                     : grid_group().sync(site);
}
inline unsigned long long thread_group::size() const
{
    return kind_ == LANES   ? coalesced_group(mask_).size()
           : kind_ == BLOCK ? thread_block().size()
                            : grid_group().size();
}
inline unsigned long long thread_group::thread_rank() const
{
    return kind_ == LANES   ? coalesced_group(mask_).thread_rank()
           : kind_ == BLOCK ? thread_block().thread_rank()
                            : grid_group().thread_rank();
}

/* A tile is also one that does not say what it is a part of. */
template <unsigned n, typename Parent = void> class thread_block_tile;
template <unsigned n> class thread_block_tile<n, void> : public coalesced_group
{
    static_assert(n <= 32 && (n & (n - 1)) == 0,
                  "a tile is 1, 2, 4, 8, 16 or 32 threads of a warp");

  public:
    enum { MOST = n };

    explicit thread_block_tile(const coalesced_group &part) : coalesced_group(part)
    {
    }
    static constexpr unsigned size()
    {
        return n;
    }
    static constexpr unsigned num_threads()
    {
        return n;
    }
};
template <unsigned n, typename Parent> class thread_block_tile : public thread_block_tile<n>
{
    static_assert(n <= unsigned(Parent::MOST), "a tile of a tile is not larger");
    using thread_block_tile<n>::thread_block_tile;
};

#undef KB_IS

/* The memory that tiles of several warps need on a GPU. */
template <unsigned n> struct block_tile_memory {
};

static inline thread_block this_thread_block()
{
    return thread_block();
}
template <unsigned n> static inline thread_block this_thread_block(block_tile_memory<n> &)
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
template <unsigned n, typename G> static inline auto tiled_partition(const G &group)
{
    if constexpr (std::is_same_v<G, coalesced_group>)
        return group.part(n);
    else if constexpr (std::is_same_v<G, thread_group>)
        return thread_block_tile<n>(group.part(n));
    else
        return thread_block_tile<n, G>(group.part(n));
}
template <typename G> static inline auto tiled_partition(const G &group, unsigned n)
{
    if (!n || (n & (n - 1)) || n > 32)
        kernbridge::cuda_on_cpu::fail("tiled_partition: a tile is 1, 2, 4, 8, 16 or 32 threads");
    if constexpr (std::is_base_of_v<coalesced_group, G>)
        return group.part(n);
    else
        return thread_group(group.part(n));
}
template <typename G, typename T>
static inline coalesced_group labeled_partition(const G &group, T label, KB_SITE)
{
    return group.with_label(label, site);
}
template <typename G>
static inline coalesced_group binary_partition(const G &group, bool predicate, KB_SITE)
{
    return group.with_label(static_cast<int>(predicate), site);
}
template <typename G> static inline void sync(const G &group, KB_SITE)
{
    group.sync(site);
}

#define KB_OPERATION(name, expression)                                                             \
    template <typename T> struct name                                                              \
    {                                                                                              \
        T operator()(T a, T b) const                                                               \
        {                                                                                          \
            return expression;                                                                     \
        }                                                                                          \
    };
KB_OPERATION(plus, a + b)
KB_OPERATION(greater, a < b ? b : a)
KB_OPERATION(less, b < a ? b : a)
KB_OPERATION(bit_and, a &b)
KB_OPERATION(bit_or, a | b)
KB_OPERATION(bit_xor, a ^ b)
#undef KB_OPERATION

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
