/* The library that test_library.c lets a call carry: a module as kernbridge builds one, whose
 * function `scale` multiplies by its attribute, a double, fails for negative numbers, and leaves an
 * error of CUDA behind for 1000. `weigh` writes the sum of its attributes, each times its place,
 * counted from 1. */
#include "kernbridge/module.h"

static _Thread_local int left;

static int last_error(const char **name)
{
    int code = left;
    left = 0;
    *name = "left behind";
    return code;
}

static int scale(const kb_call *call)
{
    const double *from = call->inputs[0].data, factor = *(const double *)call->attributes[0];
    double *to = call->outputs[0].data;
    for (int64_t i = 0; i < call->inputs[0].size; i++) {
        if (from[i] < 0)
            return kb_fail(call, KB_INVALID_ARGUMENT, "negative");
        to[i] += factor * from[i];
        left = from[i] == 1000 ? 700 : left;
    }
    return KB_OK;
}

static int weigh(const kb_call *call)
{
    double *to = call->outputs[0].data;
    to[0] = to[1] = 0;
    for (int32_t i = 0; i < call->n_attributes; i++)
        to[0] += (i + 1) * *(const double *)call->attributes[i];
    return KB_OK;
}

static const kb_export exports[] = {
    {.name = "scale", .tokens = "arg ret attr.factor", .run = scale},
    {.name = "weigh", .tokens = "arg ret", .run = weigh}};

KB_MODULE_DESCRIPTION = {
    .struct_size = sizeof(kb_module),
    .abi = KB_ABI,
    .n_exports = 2,
    .exports = exports,
    .last_error = last_error,
};
