// Sorting by hand: quicksort that recurses into the smaller part, and insertion below 16.
#include "brainevent/common.h"
#include <utility>

void argsort(const BE::Tensor keys, BE::Tensor order, bool descending);

namespace
{

template <typename T> bool precedes(const T *keys, int32_t a, int32_t b, bool descending)
{
    if (keys[a] != keys[b])
        return descending ? keys[a] > keys[b] : keys[a] < keys[b];
    return a < b;
}

template <typename T> void insertion(const T *keys, int32_t *order, int64_t n, bool descending)
{
    for (int64_t i = 1; i < n; ++i)
        for (int64_t j = i; j > 0 && precedes(keys, order[j], order[j - 1], descending); --j)
            std::swap(order[j], order[j - 1]);
}

template <typename T> void quicksort(const T *keys, int32_t *order, int64_t n, bool descending)
{
    while (n > 16) {
        int32_t pivot = order[n / 2];
        int64_t i = 0, j = n - 1;
        while (i <= j) {
            while (precedes(keys, order[i], pivot, descending)) ++i;
            while (precedes(keys, pivot, order[j], descending)) --j;
            if (i <= j)
                std::swap(order[i++], order[j--]);
        }
        if (j + 1 < n - i) {
            quicksort(keys, order, j + 1, descending);
            order += i;
            n -= i;
        } else {
            quicksort(keys, order + i, n - i, descending);
            n = j + 1;
        }
    }
    insertion(keys, order, n, descending);
}

} // namespace

// Stable, along the last axis.
// @BE argsort arg ret attr.descending
void argsort(const BE::Tensor keys, BE::Tensor order, bool descending)
{
    int64_t n = keys.size(-1), rows = n ? keys.numel() / n : 0;
    BE_DISPATCH_ALL_TYPES(keys.dtype(), key_t, {
        for (int64_t r = 0; r < rows; ++r) {
            int32_t *o = order.data_ptr<int32_t>() + r * n;
            for (int32_t i = 0; i < n; ++i)
                o[i] = i;
            quicksort(keys.data_ptr<key_t>() + r * n, o, n, descending);
        }
    });
}
