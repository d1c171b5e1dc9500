/* Owns how a kernel's parameters become arrays and attributes. */
#include "source/kb_agree.h"

/* An array, by pointer or by brackets. */
static bool is_array(const kb_parameter *p)
{
    return p->array || (p->type.pointer && p->type.kind != KB_CTYPE_OTHER);
}

/* By value: a number of known width, or anything whose size the compiled code tells. */
static bool is_value(const kb_parameter *p)
{
    return !is_array(p) && (p->type.kind == KB_CTYPE_VALUE || p->type.kind == KB_CTYPE_STREAM ||
                            p->type.kind == KB_CTYPE_TENSOR);
}

/* Code for a GPU is for 64-bit Linux: long and size_t have their width. */
static kb_attr_type value_type(const kb_parameter *p)
{
    kb_attr_type type = p->type.element;
    return type == KB_ATTR_FLOAT16 || type == KB_ATTR_BFLOAT16 ? KB_ATTR_NONE : type;
}

static kb_status refuse(const kb_agreement *g, const kb_parameter *p, kb_error *err)
{
    return kb_disagree(g, KB_AT_NAME, p, err,
                       "%s is `%.*s`; a kernel's parameter is a pointer or a value",
                       kb_label(p).text, KB_TEXT_ARG(p->ctype));
}

static kb_status infer(kb_agreement *g, kb_error *err)
{
    bool result = false;
    for (uint32_t i = 0; i < g->parameters.n; i++) {
        const kb_parameter *p = &g->parameters.at[i];
        if (is_array(p)) {
            result |= !p->type.constant;
            kb_describe(g, p->type.constant ? KB_ROLE_ARG : KB_ROLE_RET, p->name, p->type.element,
                        p);
            continue;
        }
        kb_status s = is_value(p) ? kb_agree_name(g, p, err) : refuse(g, p, err);
        if (s != KB_OK)
            return s;
        kb_describe(g, KB_ROLE_ATTR, p->name, value_type(p), p);
    }
    return result ? KB_OK
                  : kb_disagree(g, KB_AT_NAME, NULL, err,
                                "it has no result: none of its pointers is to something that is "
                                "not const");
}

static bool fits(kb_attr_type written, kb_attr_type type)
{
    if (written == KB_ATTR_FLOAT16 || written == KB_ATTR_BFLOAT16)
        return type == KB_ATTR_NONE || type == KB_ATTR_UINT16;
    return !written || !type || written == type;
}

static kb_status compare_one(kb_agreement *g, uint32_t i, kb_error *err)
{
    const kb_spec *spec = &g->annotation->specs[i];
    const kb_parameter *p = &g->parameters.at[i];
    bool attr = spec->role == KB_ROLE_ATTR, open = is_value(p) && !value_type(p);
    if (!attr && !is_array(p) && !open)
        return kb_disagree(g, i, p, err,
                           "the annotation says `%.*s` for %s, which takes a pointer; C++ says "
                           "`%.*s`",
                           KB_TEXT_ARG(spec->text), kb_label(p).text, KB_TEXT_ARG(p->ctype));
    if (spec->role == KB_ROLE_RET && p->type.constant && is_array(p))
        return kb_disagree(g, i, p, err,
                           "the annotation says `%.*s` for %s, but C++ says `%.*s`: a result must "
                           "not be const",
                           KB_TEXT_ARG(spec->text), kb_label(p).text, KB_TEXT_ARG(p->ctype));
    if (attr && !is_value(p))
        return kb_disagree(g, i, p, err,
                           "the annotation says `%.*s` for %s, which takes a value; C++ says "
                           "`%.*s`",
                           KB_TEXT_ARG(spec->text), kb_label(p).text, KB_TEXT_ARG(p->ctype));
    if (attr && !fits(spec->type, value_type(p)))
        return kb_disagree(g, i, p, err,
                           "the annotation says `%.*s` for %s, C++ says `%.*s`; write attr.%.*s:%s",
                           KB_TEXT_ARG(spec->text), kb_label(p).text, KB_TEXT_ARG(p->ctype),
                           KB_TEXT_ARG(spec->name), kb_attr_type_name(value_type(p)));
    kb_attr_type type = !attr        ? is_array(p) ? p->type.element : KB_ATTR_NONE
                        : spec->type ? spec->type
                                     : value_type(p);
    kb_describe(g, spec->role, spec->name, type, p);
    return KB_OK;
}

static kb_status not_found(kb_agreement *g, kb_error *err)
{
    const kb_annotation *a = g->annotation;
    if (a->infer)
        return kb_annotation_error(
            a, g->places, KB_AT_NAME, err,
            "the definition of the kernel (__global__) %.*s was not found in this source; write "
            "its parameters out, for example\n    // @BE %.*s arg ret attr.n:int32",
            KB_TEXT_ARG(a->name), KB_TEXT_ARG(a->name));
    for (uint32_t i = 0; i < a->n_specs; i++)
        kb_describe(g, a->specs[i].role, a->specs[i].name, a->specs[i].type, NULL);
    return kb_agree_ret(g, err);
}

kb_status kb_agree_kernel(kb_agreement *g, kb_error *err)
{
    const kb_annotation *a = g->annotation;
    for (uint32_t i = 0; i < a->n_specs; i++)
        if (a->specs[i].role == KB_ROLE_STREAM)
            return kb_annotation_error(a, g->places, i, err,
                                       "%.*s: a kernel takes no stream: it runs on one",
                                       KB_TEXT_ARG(a->name));
    if (!g->signature)
        return not_found(g, err);
    kb_status s = kb_agree_returns(g, false, err);
    if (s != KB_OK)
        return s;
    if (a->infer)
        return infer(g, err);
    s = kb_agree_count(g, err);
    for (uint32_t i = 0; i < g->parameters.n && s == KB_OK; i++)
        s = compare_one(g, i, err);
    return s == KB_OK ? kb_agree_ret(g, err) : s;
}
