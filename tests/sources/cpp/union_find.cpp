// Connected components of an undirected graph: union by size, path halving.
#include "brainevent/common.h"

#include <cstdint>
#include <numeric>
#include <vector>

namespace graph {

class DisjointSets {
public:
    explicit DisjointSets(std::size_t n) : parent_(n), size_(n, 1) {
        std::iota(parent_.begin(), parent_.end(), 0);
    }

    std::int32_t find(std::int32_t x) {
        while (parent_[x] != x) {
            parent_[x] = parent_[parent_[x]];
            x = parent_[x];
        }
        return x;
    }

    void unite(std::int32_t a, std::int32_t b) {
        a = find(a);
        b = find(b);
        if (a == b)
            return;
        if (size_[a] < size_[b])
            std::swap(a, b);
        parent_[b] = a;
        size_[a] += size_[b];
    }

    std::int32_t members(std::int32_t x) { return size_[find(x)]; }

private:
    std::vector<std::int32_t> parent_, size_;
};

}  // namespace graph

// Labels count components in the order of their first vertex.
// @BE components arg arg ret ret
void components(const BE::Tensor from, const BE::Tensor to,
                BE::Tensor label, BE::Tensor count)
{
    BE_CHECK(from.numel() == to.numel()) << from.numel() << " sources, " << to.numel() << " targets";
    const int32_t *u = from.data_ptr<int32_t>(), *v = to.data_ptr<int32_t>();
    const int64_t n = label.size(0);
    graph::DisjointSets sets(n);
    for (int64_t e = 0; e < from.numel(); e++) {
        BE_CHECK(u[e] >= 0 && u[e] < n && v[e] >= 0 && v[e] < n) << "edge " << e << " leaves the graph";
        sets.unite(u[e], v[e]);
    }
    auto* out = label.data_ptr<int32_t>();
    std::vector<int32_t> named(n, -1);
    int32_t next = 0;
    for (int32_t i = 0; i < n; ++i) {
        int32_t root = sets.find(i);
        if (named[root] < 0)
            named[root] = next++;
        out[i] = named[root];
    }
    count.data_ptr<int32_t>()[0] = next;
}

// @BE component_sizes arg arg ret
void component_sizes(const BE::Tensor from, const BE::Tensor to, BE::Tensor sizes)
{
    graph::DisjointSets sets(sizes.numel());
    for (int64_t e = 0; e < from.numel(); e++)
        sets.unite(from.data_ptr<int32_t>()[e], to.data_ptr<int32_t>()[e]);
    for (int64_t i = 0; i < sizes.numel(); i++)
        sizes.data_ptr<int64_t>()[i] = sets.members(static_cast<int32_t>(i));
}
