/* Owns how a function's parameters become tensors, attributes and a stream. */
#include "source/kb_agree.h"

static bool is_stream(const kb_parameter *p)
{
    return p->type.kind == KB_CTYPE_STREAM ||
           (p->type.kind == KB_CTYPE_VALUE && p->type.is_int64_t && kb_text_is(p->name, "stream"));
}

static bool is_scalar(const kb_parameter *p)
{
    return p->type.kind == KB_CTYPE_VALUE && p->type.scalar;
}

/* Why the type of an attribute is not known. */
static kb_status unknown_type(const kb_agreement *g, uint32_t index, const kb_parameter *p,
                              kb_error *err)
{
    const char *reason = p->type.kind == KB_CTYPE_POINTER     ? ", a pointer"
                         : p->type.kind == KB_CTYPE_REFERENCE ? ", a reference"
                                                              : "";
    bool value = p->type.kind == KB_CTYPE_VALUE;
    bool named = p->name.size > 0;
    return kb_disagree(g, index, p, err,
                       "%s is `%.*s`%s, which is no scalar of a known width; use a fixed-width "
                       "type, such as int32_t or float%s%.*s%s",
                       kb_label(p).text, KB_TEXT_ARG(p->ctype), reason,
                       value && named ? ", or write attr." : "",
                       value && named ? (int)p->name.size : 0, value && named ? p->name.at : "",
                       value && named ? ":TYPE" : "");
}

static kb_status infer_one(kb_agreement *g, const kb_parameter *p, kb_error *err)
{
    kb_role role = KB_ROLE_ATTR;
    if (p->type.kind == KB_CTYPE_TENSOR)
        role = p->type.constant ? KB_ROLE_ARG : KB_ROLE_RET;
    else if (is_stream(p))
        role = KB_ROLE_STREAM;
    if (role != KB_ROLE_ATTR) {
        kb_describe(g, role, p->name, KB_ATTR_NONE, p);
        return KB_OK;
    }
    if (!is_scalar(p))
        return unknown_type(g, KB_AT_NAME, p, err);
    kb_status s = kb_agree_name(g, p, err);
    if (s == KB_OK)
        kb_describe(g, role, p->name, p->type.scalar, p);
    return s;
}

static kb_status infer(kb_agreement *g, kb_error *err)
{
    uint32_t n[KB_ROLE_STREAM + 1] = {0};
    for (uint32_t i = 0; i < g->parameters.n; i++) {
        const kb_parameter *p = &g->parameters.at[i];
        kb_status s = infer_one(g, p, err);
        if (s != KB_OK)
            return s;
        kb_role role = g->described->parameters[i].role;
        if (++n[role] > 1 && role == KB_ROLE_STREAM)
            return kb_disagree(g, KB_AT_NAME, p, err,
                               "%s is a second stream; a call has one stream", kb_label(p).text);
    }
    if (n[KB_ROLE_ARG] + n[KB_ROLE_RET] == 0)
        return kb_disagree(g, KB_AT_NAME, NULL, err,
                           "it has no tensor: take `const BE::Tensor` for each input and "
                           "`BE::Tensor` for each result, or `const kb_call *` alone");
    if (n[KB_ROLE_RET] == 0)
        return kb_disagree(g, KB_AT_NAME, NULL, err,
                           "it has no result: all its tensors are const; a result is a "
                           "`BE::Tensor` without const");
    return KB_OK;
}

static kb_status check_tensor(const kb_agreement *g, const kb_spec *spec, uint32_t i,
                              const kb_parameter *p, kb_error *err)
{
    if (p->type.kind != KB_CTYPE_TENSOR)
        return kb_disagree(g, i, p, err,
                           "the annotation says `%.*s` for %s, which takes a tensor; C++ says "
                           "`%.*s`",
                           KB_TEXT_ARG(spec->text), kb_label(p).text, KB_TEXT_ARG(p->ctype));
    if (spec->role == KB_ROLE_RET && p->type.constant)
        return kb_disagree(g, i, p, err,
                           "the annotation says `%.*s` for %s, but C++ says `%.*s`: a result must "
                           "not be const",
                           KB_TEXT_ARG(spec->text), kb_label(p).text, KB_TEXT_ARG(p->ctype));
    return KB_OK;
}

static kb_status check_stream(const kb_agreement *g, const kb_spec *spec, uint32_t i,
                              const kb_parameter *p, kb_error *err)
{
    if (p->type.kind == KB_CTYPE_STREAM ||
        (p->type.kind == KB_CTYPE_VALUE && p->type.scalar == KB_ATTR_INT64))
        return KB_OK;
    return kb_disagree(g, i, p, err,
                       "the annotation says `%.*s` for %s, which takes int64_t or cudaStream_t; "
                       "C++ says `%.*s`",
                       KB_TEXT_ARG(spec->text), kb_label(p).text, KB_TEXT_ARG(p->ctype));
}

/* A type that is written out, against the one of C++. */
static bool fits(kb_attr_type written, const kb_ctype *type)
{
    bool value = type->kind == KB_CTYPE_VALUE ||
                 (type->kind == KB_CTYPE_REFERENCE && type->constant && type->scalar);
    if (!value)
        return false;
    if (written == KB_ATTR_FLOAT16 || written == KB_ATTR_BFLOAT16)
        return type->scalar == KB_ATTR_NONE || type->scalar == KB_ATTR_UINT16;
    return type->scalar == KB_ATTR_NONE || type->scalar == written;
}

static kb_status check_attribute(const kb_agreement *g, const kb_spec *spec, uint32_t i,
                                 const kb_parameter *p, kb_attr_type *type, kb_error *err)
{
    *type = spec->type ? spec->type : p->type.scalar;
    if (spec->type && fits(spec->type, &p->type))
        return KB_OK;
    if (!spec->type && is_scalar(p))
        return KB_OK;
    bool value = p->type.kind == KB_CTYPE_VALUE;
    if (spec->type && value)
        return kb_disagree(g, i, p, err,
                           "the annotation says `%.*s` for %s, C++ says `%.*s`; write attr.%.*s:%s",
                           KB_TEXT_ARG(spec->text), kb_label(p).text, KB_TEXT_ARG(p->ctype),
                           KB_TEXT_ARG(spec->name), kb_attr_type_name(p->type.scalar));
    if (!spec->type && p->type.kind != KB_CTYPE_TENSOR && p->type.kind != KB_CTYPE_STREAM)
        return kb_disagree(g, i, p, err,
                           "the annotation says `%.*s` for %s, whose type in C++, `%.*s`, is no "
                           "scalar of a known width; use a fixed-width type, such as int32_t or "
                           "float%s%.*s%s",
                           KB_TEXT_ARG(spec->text), kb_label(p).text, KB_TEXT_ARG(p->ctype),
                           value ? ", or write attr." : "", value ? (int)spec->name.size : 0,
                           value ? spec->name.at : "", value ? ":TYPE" : "");
    return kb_disagree(g, i, p, err,
                       "the annotation says `%.*s` for %s, which takes a scalar; C++ says `%.*s`",
                       KB_TEXT_ARG(spec->text), kb_label(p).text, KB_TEXT_ARG(p->ctype));
}

static kb_status compare(kb_agreement *g, kb_error *err)
{
    kb_status s = kb_agree_count(g, err);
    for (uint32_t i = 0; i < g->parameters.n && s == KB_OK; i++) {
        const kb_spec *spec = &g->annotation->specs[i];
        const kb_parameter *p = &g->parameters.at[i];
        kb_attr_type type = KB_ATTR_NONE;
        if (spec->role == KB_ROLE_STREAM)
            s = check_stream(g, spec, i, p, err);
        else if (spec->role == KB_ROLE_ATTR)
            s = check_attribute(g, spec, i, p, &type, err);
        else
            s = check_tensor(g, spec, i, p, err);
        if (s == KB_OK)
            kb_describe(g, spec->role, spec->name, type, p);
    }
    return s == KB_OK ? kb_agree_ret(g, err) : s;
}

/* Tokens alone: nothing but they say a type. */
static kb_status take_tokens(kb_agreement *g, kb_error *err)
{
    const kb_annotation *a = g->annotation;
    for (uint32_t i = 0; i < a->n_specs; i++) {
        const kb_spec *spec = &a->specs[i];
        if (spec->role == KB_ROLE_ATTR && !spec->type)
            return kb_annotation_error(
                a, g->places, i, err,
                "%s%.*s%s, so the type of `%.*s` is not known; write "
                "attr.%.*s:TYPE, TYPE one of %s",
                g->signature ? "" : "the definition of ", KB_TEXT_ARG(a->name),
                g->signature ? " takes a kb_call" : " was not found in this source",
                KB_TEXT_ARG(spec->text), KB_TEXT_ARG(spec->name), kb_attr_type_names());
        kb_describe(g, spec->role, spec->name, spec->type, NULL);
    }
    return KB_OK;
}

static kb_status not_found(kb_agreement *g, kb_error *err)
{
    const kb_annotation *a = g->annotation;
    if (a->infer)
        return kb_annotation_error(
            a, g->places, KB_AT_NAME, err,
            "the definition of %.*s was not found in this source; write its parameters out, for "
            "example\n    // @BE %.*s arg ret attr.alpha:float32 stream",
            KB_TEXT_ARG(a->name), KB_TEXT_ARG(a->name));
    kb_status s = take_tokens(g, err);
    return s == KB_OK ? kb_agree_ret(g, err) : s;
}

kb_status kb_agree_function(kb_agreement *g, kb_error *err)
{
    if (!g->signature)
        return not_found(g, err);
    kb_status s = kb_agree_returns(g, true, err);
    if (s != KB_OK)
        return s;
    g->described->whole_call =
        g->parameters.n == 1 && g->parameters.at[0].type.kind == KB_CTYPE_CALL;
    if (g->described->whole_call)
        return g->annotation->infer ? KB_OK : take_tokens(g, err);
    return g->annotation->infer ? infer(g, err) : compare(g, err);
}
