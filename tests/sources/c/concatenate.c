/* Whole calls: any number of tensors, any rank. */
#include "kernbridge/kernbridge.h"
#include <string.h>

/* Along the first axis; elements of any type. */
// @BE concatenate any
int concatenate(const kb_call *call)
{
    const kb_tensor *out = &call->outputs[0];
    char *to = out->data;
    if (call->n_inputs == 0 || call->n_outputs != 1)
        return kb_fail(call, KB_INVALID_ARGUMENT, "%d inputs and %d outputs, expected some and one",
                       call->n_inputs, call->n_outputs);
    int64_t rows = 0;
    for (int i = 0; i < call->n_inputs; i++) {
        const kb_tensor *in = &call->inputs[i];
        if (in->ndim != out->ndim || in->type != out->type)
            return kb_fail(call, KB_INVALID_ARGUMENT, "input %d has another rank or type", i);
        for (int axis = 1; axis < in->ndim; axis++)
            if (in->shape[axis] != out->shape[axis])
                return kb_fail(call, KB_INVALID_ARGUMENT, "input %d: axis %d is %lld, not %lld", i,
                               axis, (long long)in->shape[axis], (long long)out->shape[axis]);
        size_t bytes = (size_t)in->size * (in->dl_dtype.bits / 8);
        memcpy(to, in->data, bytes);
        to += bytes;
        rows += in->shape[0];
    }
    if (rows != out->shape[0])
        return kb_fail(call, KB_FAILED_PRECONDITION, "%lld rows for an output of %lld",
                       (long long)rows, (long long)out->shape[0]);
    return 0;
}

struct moments {
    const double *x;
    double *sums;
    int64_t n;
};

static void add_row(void *data, int64_t begin, int64_t end)
{
    struct moments *m = data;
    for (int64_t r = begin; r < end; r++) {
        m->sums[2 * r] = m->sums[2 * r + 1] = 0;
        for (int64_t i = 0; i < m->n; i++) {
            m->sums[2 * r] += m->x[r * m->n + i];
            m->sums[2 * r + 1] += m->x[r * m->n + i] * m->x[r * m->n + i];
        }
    }
}

/* Means and variances of rows, with `ddof` degrees of freedom less. */
// @BE moments arg:f64[rows, n] ret:f64[rows] ret:f64[rows] attr.ddof:int64
int moments(const kb_call *call)
{
    const kb_tensor *x = &call->inputs[0];
    const int64_t ddof = *(const int64_t *)call->attributes[0];
    struct moments m = {x->data, kb_scratch(call, x->shape[0] * 2 * sizeof(double)), x->shape[1]};
    if (!m.sums)
        return kb_fail(call, KB_RESOURCE_EXHAUSTED, "no memory for %lld rows", (long long)x->shape[0]);
    kb_parallel_for(call, x->shape[0], add_row, &m);
    for (int64_t r = 0; r < x->shape[0]; r++) {
        double mean = m.sums[2 * r] / m.n;
        ((double *)call->outputs[0].data)[r] = mean;
        ((double *)call->outputs[1].data)[r] = (m.sums[2 * r + 1] - mean * m.sums[2 * r]) / (m.n - ddof);
    }
    return 0;
}
