/* Owns which parameters are inputs, outputs, attributes and the stream. */
#include "source/kb_agree.h"

#include <stdarg.h>
#include <stdio.h>

enum { MESSAGE_SIZE = 1024 }; /* more than the longest has */

#define WRITTEN_OUT "if a macro generates the name or the parameters of a function, write them out"

/* `index` is a token or KB_AT_NAME; the message describes `p`, which may be NULL. */
KB_COLD __attribute__((format(printf, 5, 6))) static kb_status
disagree(const kb_agreement *g, uint32_t index, const kb_parameter *p, kb_error *err,
         const char *format, ...)
{
    char message[MESSAGE_SIZE];
    int n = p ? snprintf(message, sizeof message,
                         p->name.size ? "parameter %u '%.*s' " : "parameter %u%.*s ",
                         (unsigned)p->i + 1, KB_TEXT_ARG(p->name))
              : 0;
    va_list args;
    va_start(args, format);
    vsnprintf(message + n, sizeof message - (size_t)n, format, args);
    va_end(args);
    const kb_annotation *a = g->annotation;
    if (a->infer && p && a->origin == KB_ANNOTATED)
        return kb_place_error(g->places, p->at, err, "%.*s: %s", KB_TEXT_ARG(a->name), message);
    kb_status s =
        kb_annotation_error(a, g->places, index, err, "%.*s: %s", KB_TEXT_ARG(a->name), message);
    if (g->declaration)
        kb_place_append(g->places, p ? p->at : g->tokens->at[g->declaration->name].at, err,
                        "declared here");
    return s;
}

static void describe(kb_agreement *g, kb_role role, kb_text name, kb_attr_type type,
                     const kb_parameter *p)
{
    g->described->parameters[g->described->n_parameters++] = (kb_described_parameter){
        .role = role,
        .name = p && role != KB_ROLE_ATTR ? p->name : name,
        .type = type,
        .ctype = p ? p->ctype : (kb_text){0},
    };
}

static kb_status begin(kb_agreement *g, kb_error *err)
{
    const kb_annotation *a = g->annotation;
    const kb_declaration *found = g->declaration;
    kb_described *d = g->described;
    *d = (kb_described){.name = a->name, .qualified = found ? found->qualified : a->name};
    if (found) {
        kb_status s =
            kb_parameters_read(g->tokens->at + found->open + 1, found->close - found->open - 1,
                               g->arena, &g->parameters, err);
        if (s != KB_OK)
            return s;
    }
    if (found || a->origin == KB_ANNOTATED)
        d->line = kb_place_line(g->places, found ? g->tokens->at[found->name].at : a->at);
    d->parameters =
        kb_arena_take(g->arena, (size_t)g->parameters.n + a->n_specs, sizeof *d->parameters);
    return d->parameters ? KB_OK
                         : kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for parameters");
}

static kb_role role_of(const kb_agreement *g, const kb_parameter *p)
{
    if (p->look == (g->kernel ? KB_LOOKS_POINTER : KB_LOOKS_TENSOR))
        return p->constant ? KB_ROLE_ARG : KB_ROLE_RET;
    return p->look == KB_LOOKS_STREAM && !g->kernel ? KB_ROLE_STREAM : KB_ROLE_ATTR;
}

static kb_status infer_one(kb_agreement *g, const kb_parameter *p, kb_error *err)
{
    kb_role role = role_of(g, p);
    if (role == KB_ROLE_ATTR && !kb_annotation_is_name(p->name))
        return disagree(g, KB_AT_NAME, p, err,
                        "is an attribute, so it needs a name that is a C identifier of ASCII; "
                        "rename it, or write the tokens out, with attr.NAME; " WRITTEN_OUT);
    describe(g, role, p->name, KB_ATTR_NONE, p);
    return KB_OK;
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
            return disagree(g, KB_AT_NAME, p, err, "is a second stream; a call has one stream");
    }
    if (n[KB_ROLE_RET] > 0)
        return KB_OK;
    if (g->kernel)
        return disagree(g, KB_AT_NAME, NULL, err,
                        "it has no result: none of its pointers is to something that is not const");
    if (n[KB_ROLE_ARG] > 0)
        return disagree(g, KB_AT_NAME, NULL, err,
                        "it has no result: all its tensors are const; a result is a `BE::Tensor` "
                        "without const; " WRITTEN_OUT);
    return disagree(g, KB_AT_NAME, NULL, err,
                    "it has no tensor: take `const BE::Tensor` for each input and `BE::Tensor` for "
                    "each result, or `const kb_call *` alone; " WRITTEN_OUT);
}

/* The first attribute whose name is none of the parameters', or NULL. */
static const kb_spec *attribute_without_parameter(const kb_agreement *g)
{
    for (uint32_t i = 0; i < g->annotation->n_specs; i++) {
        const kb_spec *spec = &g->annotation->specs[i];
        bool there = spec->role != KB_ROLE_ATTR;
        for (uint32_t k = 0; k < g->parameters.n && !there; k++)
            there = kb_text_same(spec->name, g->parameters.at[k].name);
        if (!there)
            return spec;
    }
    return NULL;
}

static kb_status agree_count(const kb_agreement *g, kb_error *err)
{
    const kb_annotation *a = g->annotation;
    const kb_token *open = &g->tokens->at[g->declaration->open];
    const kb_token *close = &g->tokens->at[g->declaration->close];
    kb_text list = {open->text + 1, close->at - open->at - 1};
    if (a->n_specs == g->parameters.n)
        return KB_OK;
    const kb_spec *lone = attribute_without_parameter(g);
    kb_text name = lone ? lone->text : (kb_text){0};
    return disagree(
        g, KB_AT_NAME, NULL, err,
        "the annotation describes %u parameters, and C++ has %u (%.*s)%s%.*s%s; " WRITTEN_OUT,
        (unsigned)a->n_specs, (unsigned)g->parameters.n, KB_TEXT_ARG(list), lone ? ": " : "",
        KB_TEXT_ARG(name), lone ? " not found in signature" : "");
}

/* Whether an attribute has the name of its parameter. Numbers are passed by position: under the
 * name of another parameter, the function would get the wrong one. */
static kb_status agree_name(const kb_agreement *g, uint32_t i, const kb_parameter *p, kb_error *err)
{
    const kb_spec *spec = &g->annotation->specs[i];
    if (!p || !p->name.size || kb_text_same(spec->name, p->name))
        return KB_OK;
    for (uint32_t k = 0; k < g->parameters.n; k++)
        if (kb_text_same(spec->name, g->parameters.at[k].name))
            return disagree(g, i, p, err,
                            "is `%.*s` in the annotation, and '%.*s' is parameter %u: write the "
                            "tokens in the order of the parameters",
                            KB_TEXT_ARG(spec->text), KB_TEXT_ARG(spec->name), (unsigned)k + 1);
    if (spec->type || g->kernel)
        return KB_OK; /* another name, on purpose */
    return disagree(g, i, p, err,
                    "is `%.*s` in the annotation: %.*s not found in signature; write attr.%.*s, or "
                    "attr.%.*s:TYPE to give it another name, TYPE one of %s",
                    KB_TEXT_ARG(spec->text), KB_TEXT_ARG(spec->text), KB_TEXT_ARG(p->name),
                    KB_TEXT_ARG(spec->name), kb_attr_type_names());
}

/* One token with its parameter, which is NULL if it was not found. */
static kb_status take_token(kb_agreement *g, uint32_t i, const kb_parameter *p, kb_error *err)
{
    const kb_annotation *a = g->annotation;
    const kb_spec *spec = &a->specs[i];
    if (spec->role == KB_ROLE_STREAM && g->kernel)
        return kb_annotation_error(a, g->places, i, err,
                                   "%.*s: a kernel takes no stream: it runs on one",
                                   KB_TEXT_ARG(a->name));
    if (spec->role == KB_ROLE_ATTR && !spec->type && g->described->whole_call)
        return kb_annotation_error(a, g->places, i, err,
                                   "%.*s takes a kb_call, so the type of `%.*s` is not known; "
                                   "write attr.%.*s:TYPE, TYPE one of %s",
                                   KB_TEXT_ARG(a->name), KB_TEXT_ARG(spec->text),
                                   KB_TEXT_ARG(spec->name), kb_attr_type_names());
    /* Whether a parameter by value is const is no part of a function's type. */
    bool array = p && (p->look == KB_LOOKS_TENSOR || p->look == KB_LOOKS_POINTER);
    if (spec->role == KB_ROLE_RET && array && p->constant)
        return disagree(g, i, p, err,
                        "is `%.*s`, and the annotation says `%.*s`: a result must not be const",
                        KB_TEXT_ARG(p->ctype), KB_TEXT_ARG(spec->text));
    kb_status s = spec->role == KB_ROLE_ATTR ? agree_name(g, i, p, err) : KB_OK;
    if (s == KB_OK)
        describe(g, spec->role, spec->name, spec->type, p);
    return s;
}

static kb_status take_tokens(kb_agreement *g, kb_error *err)
{
    const kb_annotation *a = g->annotation;
    bool found = g->declaration && !g->described->whole_call, result = g->described->whole_call;
    for (uint32_t i = 0; i < a->n_specs; i++)
        result |= a->specs[i].role == KB_ROLE_RET;
    if (!result)
        return kb_annotation_error(a, g->places, KB_AT_NAME, err,
                                   "%.*s has no result: its annotation must have at least one "
                                   "'ret'",
                                   KB_TEXT_ARG(a->name));
    kb_status s = found ? agree_count(g, err) : KB_OK;
    for (uint32_t i = 0; i < a->n_specs && s == KB_OK; i++)
        s = take_token(g, i, found ? &g->parameters.at[i] : NULL, err);
    return s;
}

static kb_status not_found(const kb_agreement *g, kb_error *err)
{
    const kb_annotation *a = g->annotation;
    return kb_annotation_error(
        a, g->places, KB_AT_NAME, err,
        "the definition of %s%.*s was not found in this source; write its parameters out, for "
        "example\n    // @BE %.*s arg ret %s\n(" WRITTEN_OUT ", there or here)",
        g->kernel ? "the kernel (__global__) " : "", KB_TEXT_ARG(a->name), KB_TEXT_ARG(a->name),
        g->kernel ? "attr.n:int32" : "attr.alpha:float32");
}

kb_status kb_agree(kb_agreement *g, kb_error *err)
{
    kb_status s = begin(g, err);
    if (s != KB_OK)
        return s;
    bool infers = g->annotation->infer;
    if (!g->declaration && infers)
        return not_found(g, err);
    g->described->whole_call =
        !g->kernel && g->parameters.n == 1 && g->parameters.at[0].look == KB_LOOKS_CALL;
    return infers && !g->described->whole_call ? infer(g, err) : take_tokens(g, err);
}
