/* Thomas's algorithm, and a step of diffusion along a cable that uses it: in place. */
#include "kernbridge/kernbridge.h"

static int solve(const double *a, const double *b, const double *c, double *x, double *work, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double pivot = i ? b[i] - a[i] * work[i - 1] : b[0];
        if (pivot == 0)
            return -1;
        work[i] = c[i] / pivot;
        x[i] = (i ? x[i] - a[i] * x[i - 1] : x[0]) / pivot;
    }
    for (int64_t i = n - 2; i >= 0; i--)
        x[i] -= work[i] * x[i + 1];
    return 0;
}

/* a: below the diagonal, a[0] unused; b: the diagonal; c: above, the last unused. The right-hand
   side is aliased to the solution. */
// @BE tridiagonal arg:f64[n] arg:f64[n] arg:f64[n] arg:f64[n] ret:f64[n] ret:f64[n]
int tridiagonal(const kb_tensor *a, const kb_tensor *b, const kb_tensor *c, const kb_tensor *rhs,
                kb_tensor *x, kb_tensor *work)
{
    double *to = x->data;
    const double *from = rhs->data;
    for (int64_t i = 0; to != from && i < x->size; i++)
        to[i] = from[i];
    if (solve(a->data, b->data, c->data, to, work->data, x->size))
        return KB_FAILED_PRECONDITION; /* without a word */
    return 0;
}

static double sealed_or(int sealed, double one, double other) { return sealed ? one : other; }

/* (1 + 2r) v_i - r (v_i-1 + v_i+1) = v_i of before; ends that are sealed have one neighbour. */
// @BE cable_step arg:f64[rows, n] ret:f64[rows, n] ret:f64[n] attr.r:float64 attr.sealed:int8
void cable_step(const kb_tensor *v, kb_tensor *out, kb_tensor *work, double r, int8_t sealed)
{
    const int64_t n = v->shape[1];
    double *c = (double *)work->data;
    for (int64_t row = 0; row < v->shape[0]; row++) {
        const double *in = (const double *)v->data + row * v->strides[0];
        double *x = (double *)out->data + row * n;
        for (int64_t i = 0; i < n; i++) {
            int end = i == 0 || i == n - 1;
            double b = 1 + (end ? sealed_or(sealed, r, 2 * r) : 2 * r);
            double pivot = i ? b + r * c[i - 1] : b;
            c[i] = -r / pivot;
            x[i] = (in[i] + (i ? r * x[i - 1] : 0)) / pivot;
        }
        for (int64_t i = n - 2; i >= 0; i--)
            x[i] -= c[i] * x[i + 1];
    }
}
