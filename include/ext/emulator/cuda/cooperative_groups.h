/* CUDA's cooperative groups on the CPU: threads, tiles, coalesced threads, blocks and grids. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_COOPERATIVE_GROUPS_H
#define KERNBRIDGE_CUDA_ON_CPU_COOPERATIVE_GROUPS_H

#include "cuda_runtime.h"

/* The program takes the macros below for declarations that do not end. */
// clang-format off
namespace cooperative_groups
{

class coalesced_group;

/* A group whose kind is known when it runs: the grid, a block, or lanes of a warp. */
class thread_group
{
  public:
    void sync(KB_SITE) const;
    unsigned long long size() const;
    unsigned long long thread_rank() const;
    KB_GIVES(unsigned long long, num_threads() const, size())
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
        kernbridge::cuda_on_cpu::host().grid_barrier(away.self, site);
    }
    KB_GIVES(bool, is_valid() const, kernbridge::cuda_on_cpu::exchanged != 0)
    KB_GIVES(unsigned long long, size() const, num_blocks() * blockDim.x * blockDim.y * blockDim.z)
    KB_GIVES(unsigned long long, block_rank() const,
          blockIdx.x + static_cast<unsigned long long>(gridDim.x) *
                           (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z))
    KB_GIVES(unsigned long long, num_blocks() const,
          static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z)
    KB_GIVES(unsigned long long, thread_rank() const,
          block_rank() * (blockDim.x * blockDim.y * blockDim.z) +
              kernbridge::cuda_on_cpu::index_of_thread())
    KB_GIVES(dim3, group_dim() const, gridDim)
    KB_GIVES(dim3, dim_blocks() const, gridDim)
    KB_GIVES(dim3, block_index() const, blockIdx)
};

class thread_block : public thread_group
{
  public:
    enum { MOST = 1024 };

    thread_block() : thread_group(BLOCK)
    {
    }
    KB_GIVES(void, sync(KB_SITE) const, __syncthreads(site))
    KB_GIVES(unsigned, size() const, blockDim.x *blockDim.y *blockDim.z)
    KB_GIVES(unsigned, num_threads() const, size())
    KB_GIVES(unsigned, thread_rank() const, kernbridge::cuda_on_cpu::index_of_thread())
    KB_GIVES(dim3, thread_index() const, threadIdx)
    KB_GIVES(dim3, group_index() const, blockIdx)
    KB_GIVES(dim3, group_dim() const, blockDim)
    KB_GIVES(dim3, dim_threads() const, blockDim)
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
    KB_GIVES(unsigned, meta_group_rank() const, rank_)
    KB_GIVES(unsigned, meta_group_size() const, parts_)
    /* Each `n` lanes, in the order of their ranks. */
    coalesced_group part(unsigned n) const
    {
        unsigned mask = 0, rank = 0, own = thread_rank() / n;
        for (unsigned left = mask_; left; left &= left - 1)
            mask |= rank++ / n == own ? left & -left : 0;
        return coalesced_group(mask, own, (size() + n - 1) / n);
    }
    template <typename T>
    KB_GIVES(coalesced_group, with_label(T label, KB_SITE) const,
          coalesced_group(__match_any_sync(mask_, label, site)))
    KB_GIVES(void, sync(KB_SITE) const, __syncwarp(mask_, site))
    KB_GIVES(unsigned, size() const, static_cast<unsigned>(__builtin_popcount(mask_)))
    KB_GIVES(unsigned, num_threads() const, size())
    KB_GIVES(unsigned, thread_rank() const,
          static_cast<unsigned>(__builtin_popcount(mask_ & __lanemask_lt())))
    template <typename T>
    KB_GIVES(T, shfl(T value, unsigned rank, KB_SITE) const, read(value, rank % size(), site))
    template <typename T>
    KB_GIVES(T, shfl_down(T value, unsigned delta, KB_SITE) const,
          read(value, thread_rank() + delta, site))
    template <typename T>
    KB_GIVES(T, shfl_up(T value, unsigned delta, KB_SITE) const,
          read(value, thread_rank() - min(delta, thread_rank() + 1), site))
    template <typename T>
    KB_GIVES(T, shfl_xor(T value, unsigned lanes, KB_SITE) const,
          read(value, thread_rank() ^ lanes, site))
    KB_GIVES(unsigned, ballot(int predicate, KB_SITE) const,
          packed(__ballot_sync(mask_, predicate, site)))
    KB_GIVES(int, any(int predicate, KB_SITE) const, __any_sync(mask_, predicate, site))
    KB_GIVES(int, all(int predicate, KB_SITE) const, __all_sync(mask_, predicate, site))
    template <typename T>
    KB_GIVES(unsigned, match_any(T value, KB_SITE) const,
          packed(__match_any_sync(mask_, value, site)))
    template <typename T>
    KB_GIVES(unsigned, match_all(T value, int &is_same, KB_SITE) const,
          packed(__match_all_sync(mask_, value, &is_same, site)))

  private:
    /* The value of the thread of this rank; where there is none, the thread's own. */
    template <typename T> T read(T value, unsigned rank, uint32_t site) const
    {
        unsigned lane = __fns(mask_, 0, static_cast<int>((rank < size() ? rank : thread_rank()) + 1));
        return __shfl_sync(mask_, value, static_cast<int>(lane), 32, site);
    }
    /* The bits of the group's lanes, by rank. */
    unsigned packed(unsigned found) const
    {
        unsigned bits = 0, n = 0;
        for (unsigned left = mask_; left; left &= left - 1)
            bits |= (found >> __builtin_ctz(left) & 1) << n++;
        return bits;
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
#define KB_OF_KIND(call)                                                                           \
    kind_ == LANES   ? coalesced_group(mask_).call                                                 \
    : kind_ == BLOCK ? thread_block().call                                                         \
                     : grid_group().call
inline KB_GIVES(void, thread_group::sync(uint32_t site) const, KB_OF_KIND(sync(site)))
inline KB_GIVES(unsigned long long, thread_group::size() const, KB_OF_KIND(size()))
inline KB_GIVES(unsigned long long, thread_group::thread_rank() const, KB_OF_KIND(thread_rank()))
#undef KB_OF_KIND

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
    static constexpr KB_GIVES(unsigned, size(), n)
    static constexpr KB_GIVES(unsigned, num_threads(), n)
};
template <unsigned n, typename Parent> class thread_block_tile : public thread_block_tile<n>
{
    static_assert(n <= unsigned(Parent::MOST), "a tile of a tile is not larger");
    using thread_block_tile<n>::thread_block_tile;
};

/* The memory that tiles of several warps need on a GPU. */
template <unsigned n> struct block_tile_memory {
};

static inline KB_GIVES(thread_block, this_thread_block(), thread_block())
template <unsigned n>
static inline KB_GIVES(thread_block, this_thread_block(block_tile_memory<n> &), thread_block())
static inline KB_GIVES(grid_group, this_grid(), grid_group())
static inline KB_GIVES(coalesced_group, coalesced_threads(KB_SITE),
                    coalesced_group(__activemask(site)))
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
static inline KB_GIVES(coalesced_group, labeled_partition(const G &group, T label, KB_SITE),
                    group.with_label(label, site))
template <typename G>
static inline KB_GIVES(coalesced_group, binary_partition(const G &group, bool predicate, KB_SITE),
                    group.with_label(static_cast<int>(predicate), site))
template <typename G> static inline KB_GIVES(void, sync(const G &group, KB_SITE), group.sync(site))

#define KB_OPERATION(name, expression)                                                             \
    template <typename T> struct name {                                                            \
        KB_GIVES(T, operator()(T a, T b) const, expression)                                        \
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
