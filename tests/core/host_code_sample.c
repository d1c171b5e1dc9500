/* The machine code of the kernel that tests and fuzzers of kernels that come as code load. It is
 * compiled as a kernel is: for any place in memory, and not linked. */
#include "abi/kb_numba.h"
#include "abi/kb_xla.h"

#include <math.h>
#include <stddef.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { NUMBERED_LINE = 77, OTHER_LINE = 1 };

static const char with_place[] = "ValueError: negative\0in op at op.py:3";
static const char without_place[] = "ZeroDivisionError\0";
static const kb_numba_exception negative = {.pickle = with_place, .pickle_size = sizeof with_place};
static const kb_numba_exception zero = {.pickle = without_place,
                                        .pickle_size = sizeof without_place};

static const char with_values[] = "ValueError: \0011r is not \0010s\0";

extern void *NRT_Allocate(size_t size);
extern void NRT_Free(void *memory);
extern void *kb_PyFloat_FromDouble(double value);
extern void *kb_PyTuple_Pack(ptrdiff_t size, ...);

static void *unwrap(double *values)
{
    void *tuple = kb_PyTuple_Pack(2, kb_PyFloat_FromDouble(values[0]), kb_PyFloat_FromDouble(-0.5));
    NRT_Free(values);
    return tuple;
}

/* Without memory it is another exception; Numba's own code would be stopped by the system. */
static const kb_numba_exception *with_value(double value)
{
    double *values = NRT_Allocate(sizeof *values);
    kb_numba_exception *record = NRT_Allocate(sizeof *record);
    if (!values || !record) {
        NRT_Free(values);
        NRT_Free(record);
        return &negative;
    }
    *values = value;
    *record = (kb_numba_exception){.pickle = with_values,
                                   .pickle_size = sizeof with_values,
                                   .payload = values,
                                   .unwrap = (void *)(uintptr_t)unwrap,
                                   .dynamic = 1};
    return record;
}

/* Writes exp(x) + 1. -1 is an exception in a line that has a number, -2 in one that has none, -3 an
 * exception without a place, -4 no exception, and -5 one with values. */
int32_t kb_entry(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result;
    const kb_xla_buffer *x = inputs[0], *y = outputs[0];
    const double *from = x->data;
    double *to = y->data;
    for (int64_t i = 0; i < x->dims[0]; i++) {
        if (from[i] == -4)
            return -2;
        if (from[i] == -5) {
            *exception = (void *)(uintptr_t)with_value(from[i]);
            return NUMBERED_LINE;
        }
        if (from[i] < 0) {
            *exception = (void *)(uintptr_t)(from[i] == -3 ? &zero : &negative);
            return from[i] == -1 ? NUMBERED_LINE : OTHER_LINE;
        }
        to[i] = exp(from[i]) + 1;
    }
    return KB_NUMBA_OK;
}
