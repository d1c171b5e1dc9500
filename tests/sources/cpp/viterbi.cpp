/* The most probable path of a hidden Markov model, in logarithms. */
#include "kernbridge/kernbridge.hpp"
#include <limits>

using kernbridge::Tensor;

// @BE viterbi arg arg arg ret ret ret
int viterbi(const Tensor start, const Tensor transition, const Tensor emission,
            Tensor path, Tensor score, Tensor back)
{
    const auto steps = emission.shape(0), states = emission.shape(1);
    KB_CHECK(transition.shape(0) == states && transition.shape(-1) == states)
        << "transitions among " << transition.shape(0) << " states, emissions of " << states;
    auto *p0 = start.data_ptr<double>();
    auto *t = transition.data_ptr<double>();
    auto *e = emission.data_ptr<double>();
    auto *from = back.data_ptr<int32_t>();
    double *best = static_cast<double *>(kernbridge::scratch(2 * states * sizeof(double)));
    double *next = best + states;

    for (int64_t s = 0; s < states; s++) {
        best[s] = p0[s] + e[s];
        from[s] = -1;
    }
    for (int64_t k = 1; k < steps; k++) {
        for (int64_t s = 0; s < states; s++) {
            double most = -std::numeric_limits<double>::infinity();
            for (int64_t r = 0; r < states; r++) {
                double p = best[r] + t[r * states + s];
                if (p > most) {
                    most = p;
                    from[k * states + s] = static_cast<int32_t>(r);
                }
            }
            next[s] = most + e[k * states + s];
        }
        double *swapped = best;
        best = next;
        next = swapped;
    }
    int32_t at = 0;
    for (int32_t s = 1; s < states; s++)
        if (best[s] > best[at])
            at = s;
    score.data_ptr<double>()[0] = best[at];
    for (int64_t k = steps - 1; k >= 0; k--) {
        path.data_ptr<int32_t>()[k] = at;
        at = from[k * states + at];
    }
    return 0;
}
