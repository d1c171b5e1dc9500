// Levenshtein distance of each pair of rows, with costs, in two rows of memory.
#include <algorithm>
#include <vector>
#include "brainevent/common.h"

template <typename symbol_t>
static int32_t distance(const symbol_t *a, int64_t n, const symbol_t *b, int64_t m,
                        int insertion, int deletion, int substitution)
{
    std::vector<int32_t> before(m + 1), now(m + 1);
    for (int64_t j = 0; j <= m; ++j)
        before[j] = static_cast<int32_t>(j) * insertion;
    for (int64_t i = 1; i <= n; ++i) {
        now[0] = static_cast<int32_t>(i) * deletion;
        for (int64_t j = 1; j <= m; ++j) {
            int32_t change = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : substitution);
            now[j] = std::min({before[j] + deletion, now[j - 1] + insertion, change});
        }
        std::swap(before, now);
    }
    return before[m];
}

// @BE edit_distance
void edit_distance(
    const BE::Tensor a,          // (batch, n)
    const BE::Tensor b,          // (batch, m), any integers
    const BE::Tensor lengths,    /* (batch, 2): how much of each row counts */
    BE::Tensor out,
    int insertion = 1,           // costs, in whole numbers
    int deletion = 1,
    int substitution = 1)
{
    const int64_t batch = a.size(0);
    BE_DISPATCH_INTEGRAL(a.dtype(), symbol_t, {
        const symbol_t *x = a.data_ptr<symbol_t>(), *y = b.data_ptr<symbol_t>();
        const int32_t *length = lengths.data_ptr<int32_t>();
        for (int64_t i = 0; i < batch; i++)
            out.data_ptr<int32_t>()[i] =
                distance(x + i * a.stride(0), length[2 * i], y + i * b.stride(0), length[2 * i + 1],
                         insertion, deletion, substitution);
    });
}
