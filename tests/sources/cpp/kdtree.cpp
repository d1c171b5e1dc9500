// k nearest neighbours by a k-d tree that is an ordering of the points.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "brainevent/common.h"

template <typename T> struct KDTree {
    const T *points;
    int dimension;
    std::vector<int32_t> order;

    KDTree(const T *points, int64_t n, int dimension) : points(points), dimension(dimension), order(n)
    {
        for (int64_t i = 0; i < n; i++)
            order[i] = int32_t(i);
        split(0, n, 0);
    }

    T at(int32_t i, int axis) const { return points[int64_t(i) * dimension + axis]; }

    void split(int64_t begin, int64_t end, int axis)
    {
        if (end - begin < 2)
            return;
        int64_t middle = begin + (end - begin) / 2;
        std::nth_element(order.begin() + begin, order.begin() + middle, order.begin() + end,
                         [&](int32_t a, int32_t b) { return at(a, axis) < at(b, axis); });
        split(begin, middle, (axis + 1) % dimension);
        split(middle + 1, end, (axis + 1) % dimension);
    }

    using Found = std::vector<std::pair<T, int32_t>>;  // a heap, the farthest first

    void search(const T *q, int64_t begin, int64_t end, int axis, size_t k, Found &found) const
    {
        if (begin >= end)
            return;
        int64_t middle = begin + (end - begin) / 2;
        int32_t i = order[middle];
        T d = 0;
        for (int a = 0; a < dimension; a++)
            d += (at(i, a) - q[a]) * (at(i, a) - q[a]);
        if (found.size() < k || d < found.front().first) {
            if (found.size() == k) {
                std::pop_heap(found.begin(), found.end());
                found.pop_back();
            }
            found.push_back({d, i});
            std::push_heap(found.begin(), found.end());
        }
        T aside = q[axis] - at(i, axis);
        int next = (axis + 1) % dimension;
        bool left = aside < 0;
        left ? search(q, begin, middle, next, k, found) : search(q, middle + 1, end, next, k, found);
        if (found.size() < k || aside * aside < found.front().first)
            left ? search(q, middle + 1, end, next, k, found) : search(q, begin, middle, next, k, found);
    }
};

// @BE nearest arg arg ret ret
void nearest(const BE::Tensor points, const BE::Tensor queries, BE::Tensor squared, BE::Tensor index)
{
    BE_CHECK(points.ndim() == 2 && queries.ndim() == 2) << "points of " << points.ndim() << " axes";
    BE_CHECK(index.size(-1) <= points.size(0))
        << index.size(-1) << " neighbours of " << points.size(0) << " points";
    const size_t k = index.size(-1);
    BE_DISPATCH_FLOATING(points.dtype(), scalar_t, {
        const KDTree<scalar_t> tree(points.data_ptr<scalar_t>(), points.size(0), int(points.size(1)));
        for (int64_t i = 0; i < queries.size(0); i++) {
            typename KDTree<scalar_t>::Found found;
            tree.search(queries.data_ptr<scalar_t>() + i * queries.stride(0), 0, points.size(0), 0, k, found);
            std::sort_heap(found.begin(), found.end());
            for (size_t j = 0; j < k; j++) {
                squared.data_ptr<scalar_t>()[i * k + j] = found[j].first;
                index.data_ptr<int32_t>()[i * k + j] = found[j].second;
            }
        }
    });
}
