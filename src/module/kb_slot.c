/* Owns the handling of XLA's calls of public targets: counts, attributes by name, and the stream.
 */
#include "module/kb_slot.h"

#include "core/kb_attrs.h"
#include "core/kb_dtype.h"
#include "core/kb_float_mode.h"
#include "core/kb_handler.h"
#include "cuda/kb_stream.h"

#include <stdlib.h>
#include <string.h>

/* NULL if the value is not of the wanted type. A complex number comes as its two parts: XLA has no
 * complex attributes. */
static const void *read_value(int32_t type, const void *value, int32_t wanted)
{
    const kb_xla_scalar *scalar = value;
    const kb_xla_array *array = value;
    int32_t part = wanted == KB_DTYPE_C64 ? KB_DTYPE_F32 : KB_DTYPE_F64;
    bool complex = wanted == KB_DTYPE_C64 || wanted == KB_DTYPE_C128;
    if (type == KB_XLA_ATTR_ARRAY)
        return complex && array->dtype == part && array->size == 2 ? array->data : NULL;
    if (type != KB_XLA_ATTR_SCALAR)
        return NULL;
    bool holds_bits =
        scalar->dtype == KB_DTYPE_U16 && (wanted == KB_DTYPE_F16 || wanted == KB_DTYPE_BF16);
    return scalar->dtype == wanted || holds_bits ? scalar->value : NULL;
}

static KB_COLD kb_status refuse_value(const kb_slot_target *t, const kb_slot_attribute *a,
                                      int32_t type, const void *value, kb_error *err)
{
    const char *given = "not a scalar";
    if (type == KB_XLA_ATTR_SCALAR)
        given = kb_dtype_name(((const kb_xla_scalar *)value)->dtype);
    const char *wanted = kb_dtype_name(a->dtype);
    if (a->dtype == KB_DTYPE_C64 || a->dtype == KB_DTYPE_C128)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "%s: attribute '%s' is %s, expected %s: pass its parts, "
                            "numpy.array([re, im], numpy.%s) [KB3006]",
                            t->name, a->name, given, wanted,
                            a->dtype == KB_DTYPE_C64 ? "float32" : "float64");
    if (a->dtype == KB_DTYPE_F16 || a->dtype == KB_DTYPE_BF16)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "%s: attribute '%s' is %s, expected the bits of a %s: pass "
                            "numpy.asarray(value, %s).view(numpy.uint16)[()] [KB3006]",
                            t->name, a->name, given, wanted, wanted);
    return kb_error_set(err, KB_INVALID_ARGUMENT,
                        "%s: attribute '%s' is %s, expected %s: pass numpy.%s(value) [KB3006]",
                        t->name, a->name, given, wanted,
                        a->dtype == KB_DTYPE_PRED ? "bool_" : wanted);
}

static KB_COLD kb_status refuse_attributes(const kb_slot_target *t, const kb_xla_attrs *attrs,
                                           kb_error *err)
{
    kb_error_set(err, KB_INVALID_ARGUMENT, "%s: attributes ", t->name);
    for (int64_t i = 0; i < attrs->size; i++)
        kb_error_append(err, "%s%.*s", i ? ", " : "", (int)attrs->names[i]->size,
                        attrs->names[i]->data);
    kb_error_append(err, attrs->size ? " were passed, expected " : "were left out, expected ");
    for (uint32_t i = 0; i < t->step.n_attributes; i++)
        kb_error_append(err, "%s%s:%s", i ? ", " : "", t->attributes[i].name,
                        kb_dtype_name(t->attributes[i].dtype));
    if (t->step.n_attributes == 0)
        kb_error_append(err, "none");
    return kb_error_code(err, "KB3006");
}

static kb_status read_attributes(const kb_slot_target *t, const kb_xla_attrs *attrs,
                                 const void **values, kb_error *err)
{
    if (!KB_LIKELY(attrs->size == (int64_t)t->step.n_attributes))
        return refuse_attributes(t, attrs, err);
    for (int64_t i = 0; i < attrs->size; i++) {
        const kb_slot_attribute *a = &t->attributes[i];
        if (!KB_LIKELY(kb_attrs_named(attrs->names[i], a->name, a->name_size)))
            return refuse_attributes(t, attrs, err);
        const void *value = read_value(attrs->types[i], attrs->values[i], a->dtype);
        if (!KB_LIKELY(value != NULL))
            return refuse_value(t, a, attrs->types[i], attrs->values[i], err);
        values[a->index] = value;
    }
    return KB_OK;
}

static KB_COLD kb_status refuse_counts(const kb_slot_target *t, const kb_xla_frame *xla,
                                       kb_error *err)
{
    long long n_inputs = xla->args.size, n_outputs = xla->rets.size;
    if (n_inputs > KB_BUFFERS_MAX || n_outputs > KB_BUFFERS_MAX)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "%s: got %lld inputs and %lld outputs, at most %d of each are possible "
                            "[KB3007]",
                            t->name, n_inputs, n_outputs, KB_BUFFERS_MAX);
    return kb_error_set(err, KB_INVALID_ARGUMENT,
                        "%s: got %lld inputs and %lld outputs, expected %d and %d [KB3007]",
                        t->name, n_inputs, n_outputs, t->n_inputs, t->n_outputs);
}

/* Ranks and extents are not compared: JAX may have put the axis of a batch in front. */
static kb_status check_dtypes(const kb_slot_target *t, const kb_xla_frame *xla, kb_error *err)
{
    if (!t->dtypes)
        return KB_OK;
    for (int32_t i = 0, n = t->n_inputs + t->n_outputs; i < n; i++) {
        bool input = i < t->n_inputs;
        int32_t place = input ? i : i - t->n_inputs;
        void *const *buffers = input ? xla->args.buffers : xla->rets.buffers;
        int32_t dtype = ((const kb_xla_buffer *)buffers[place])->dtype, wanted = t->dtypes[i];
        if (!KB_LIKELY(wanted == 0 || dtype == wanted))
            return kb_error_set(err, KB_INVALID_ARGUMENT,
                                "%s: %s %d is %s, but is declared as %s; convert it [KB3007]",
                                t->name, input ? "input" : "output", place, kb_dtype_name(dtype),
                                kb_dtype_name(wanted));
    }
    return KB_OK;
}

static bool count_fits(int32_t expected, int64_t n)
{
    return n <= KB_BUFFERS_MAX && (expected == KB_ANY_COUNT || n == expected);
}

static kb_status run(const kb_source_step *step, kb_frame *frame, kb_error *err)
{
    kb_status s;
    if (!step->cuda) {
        uint64_t mode = kb_float_mode_exact();
        s = kb_source_run(step, frame, err);
        kb_float_mode_restore(mode);
        return s;
    }
    kb_stream_scope scope;
    s = kb_stream_enter(&scope, frame, err);
    if (s != KB_OK)
        return s;
    s = kb_source_run(step, frame, err);
    kb_stream_leave(&scope);
    return s;
}

static kb_status execute(const kb_slot_target *t, const kb_xla_frame *xla, kb_error *err)
{
    if (!KB_LIKELY(kb_frame_is_whole(xla))) /* there is no earlier stage to look */
        return kb_frame_refuse(xla, t->name, err);
    if (!KB_LIKELY(count_fits(t->n_inputs, xla->args.size) &&
                   count_fits(t->n_outputs, xla->rets.size)))
        return refuse_counts(t, xla, err);
    const void *values[KB_ATTRIBUTES_MAX];
    kb_status s = check_dtypes(t, xla, err);
    if (KB_LIKELY(s == KB_OK))
        s = read_attributes(t, &xla->attrs, values, err);
    if (!KB_LIKELY(s == KB_OK))
        return s;
    const kb_kernel kernel = {
        .name = t->name,
        .n_inputs = (uint32_t)xla->args.size,
        .n_outputs = (uint32_t)xla->rets.size,
    };
    kb_source_step step = t->step;
    step.attributes = values;
    kb_frame frame = {
        .kernel = &kernel,
        .xla = xla,
        .inputs = xla->args.buffers,
        .outputs = xla->rets.buffers,
        .n_slices = 1,
    };
    return run(&step, &frame, err);
}

static void *handle(kb_slot *slot, void *given)
{
    kb_xla_frame *frame = given;
    const kb_slot_target *t = __atomic_load_n(&slot->target, __ATOMIC_ACQUIRE);
    if (frame->extension_start &&
        kb_handler_answer(frame, t->graph ? KB_XLA_TRAIT_COMMAND_BUFFER : 0))
        return NULL;
    kb_error err;
    return KB_LIKELY(execute(t, frame, &err) == KB_OK) ? NULL : kb_handler_fail(frame, &err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const kb_slot_attribute *)a)->name, ((const kb_slot_attribute *)b)->name);
}

kb_status kb_slot_bind(kb_slot *slot, kb_slot_target *target, kb_error *err)
{
    uint32_t n = target->step.n_attributes;
    if (n > KB_ATTRIBUTES_MAX)
        return kb_error_set(err, KB_INVALID_ARGUMENT, "%s: %u attributes, at most %d are possible",
                            target->name, n, KB_ATTRIBUTES_MAX);
    for (uint32_t i = 0; i < n; i++) {
        target->attributes[i].index = i;
        target->attributes[i].name_size = strlen(target->attributes[i].name);
    }
    if (n > 0)
        qsort(target->attributes, n, sizeof *target->attributes, by_name);
    target->step.variables = kb_source_variables(target->step.run);
    const void *before = __atomic_load_n(&slot->target, __ATOMIC_ACQUIRE);
    if (!before) /* later ones may be at the same time as a call */
        __atomic_store_n(&slot->handle, handle, __ATOMIC_RELAXED);
    do {
        target->before = before;
        if (target->before && target->before->graph && !target->graph)
            return kb_error_set(err, KB_FAILED_PRECONDITION,
                                "%s: allow_cuda_graph=False, where the target was registered with "
                                "graphs, which XLA does not forget: choose another name",
                                target->name);
    } while (!__atomic_compare_exchange_n(&slot->target, &before, target, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
    return KB_OK;
}
