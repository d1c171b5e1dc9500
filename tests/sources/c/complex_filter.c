/* A complex resonator, y[t] = x[t] + pole * y[t - 1], by channels, with C99's complex numbers. */
#include "kernbridge/kernbridge.h"
#include <complex.h>

typedef float _Complex sample;

// @BE resonate arg:c64[t, c] arg:c64[c] ret:c64[t, c] ret:c64[c] attr.pole:complex64
void resonate(const kb_tensor *x, const kb_tensor *state, kb_tensor *y, kb_tensor *last, float _Complex pole)
{
    const int64_t steps = x->shape[0], channels = x->shape[1];
    for (int64_t c = 0; c < channels; c++) {
        sample now = ((const sample *)state->data)[c];
        for (int64_t t = 0; t < steps; t++) {
            now = ((const sample *)x->data)[t * channels + c] + pole * now;
            ((sample *)y->data)[t * channels + c] = now;
        }
        ((sample *)last->data)[c] = now;
    }
}

/* |z|^2 and the conjugate, rotated by a double precision phase. */
// @BE rotate arg:c128[m, n] ret:f64[m, n] ret:c128[m, n] attr.turn:complex128
void rotate(const kb_tensor *z, kb_tensor *power, kb_tensor *rotated, double _Complex turn)
{
    const double _Complex *in = (const double _Complex *)z->data;
    for (int64_t i = 0; i < z->size; i++) {
        ((double *)power->data)[i] = creal(in[i]) * creal(in[i]) + cimag(in[i]) * cimag(in[i]);
        ((double _Complex *)rotated->data)[i] = conj(in[i]) * turn;
    }
}
