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

/* Of the two, one may be NULL. */
static void describe(kb_agreement *g, kb_role role, const kb_spec *spec, const kb_parameter *p)
{
    kb_described_parameter *d = &g->described->parameters[g->described->n_parameters++];
    *d = (kb_described_parameter){.role = role, .bytes = g->bytes || g->described->whole_call};
    if (p) {
        d->bytes |= p->look == KB_LOOKS_BYTES;
        d->name = p->name;
        d->ctype = p->ctype;
    }
    if (!spec)
        return;
    if (role == KB_ROLE_ATTR)
        d->name = spec->name;
    d->type = spec->type;
    d->array = spec->array;
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
    bool tensor = p->look == KB_LOOKS_TENSOR || p->look == KB_LOOKS_BYTES;
    if (g->kernel ? p->look == KB_LOOKS_POINTER : tensor)
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
    describe(g, role, NULL, p);
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
            return disagree(g, KB_AT_NAME, p, err,
                            "is a second stream; a call has one stream: remove one");
    }
    const char *tensor = g->bytes ? "kb_tensor *" : "BE::Tensor";
    if (n[KB_ROLE_RET] > 0)
        return KB_OK;
    if (g->kernel)
        return disagree(g, KB_AT_NAME, NULL, err,
                        "it has no result: none of its pointers is to something that is not const; "
                        "remove const from a result's");
    if (n[KB_ROLE_ARG] > 0)
        return disagree(g, KB_AT_NAME, NULL, err,
                        "it has no result: all its tensors are const; a result is a `%s` "
                        "without const; " WRITTEN_OUT,
                        tensor);
    return disagree(g, KB_AT_NAME, NULL, err,
                    "it has no tensor: take `const %s` for each input and `%s` for "
                    "each result, or `const kb_call *` alone; " WRITTEN_OUT,
                    tensor, tensor);
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
    return disagree(g, KB_AT_NAME, NULL, err,
                    "the annotation describes %u parameters, and %s has %u "
                    "(%.*s)%s%.*s%s; " WRITTEN_OUT,
                    (unsigned)a->n_specs, g->bytes ? "the function" : "C++",
                    (unsigned)g->parameters.n, KB_TEXT_ARG(list), lone ? ": " : "",
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
                                   "%.*s: a kernel takes no stream: it runs on one; remove it",
                                   KB_TEXT_ARG(a->name));
    if (spec->role == KB_ROLE_ATTR && !spec->type && g->described->whole_call)
        return kb_annotation_error(a, g->places, i, err,
                                   "%.*s takes a kb_call, so the type of `%.*s` is not known; "
                                   "write attr.%.*s:TYPE, TYPE one of %s",
                                   KB_TEXT_ARG(a->name), KB_TEXT_ARG(spec->text),
                                   KB_TEXT_ARG(spec->name), kb_attr_type_names());
    /* Whether a parameter by value is const is no part of a function's type. */
    bool array = p && p->look >= KB_LOOKS_POINTER && p->look <= KB_LOOKS_BYTES;
    if (spec->role == KB_ROLE_RET && array && p->constant)
        return disagree(g, i, p, err,
                        "is `%.*s`, and the annotation says `%.*s`: a result must not be const",
                        KB_TEXT_ARG(p->ctype), KB_TEXT_ARG(spec->text));
    kb_status s = spec->role == KB_ROLE_ATTR ? agree_name(g, i, p, err) : KB_OK;
    if (s == KB_OK)
        describe(g, spec->role, spec, p);
    return s;
}

static kb_status take_tokens(kb_agreement *g, kb_error *err)
{
    const kb_annotation *a = g->annotation;
    bool found = g->declaration && !g->described->whole_call, result = g->described->whole_call;
    for (uint32_t i = 0; i < a->n_specs; i++) {
        result |= a->specs[i].role == KB_ROLE_RET;
        if (a->specs[i].role != KB_ROLE_ANY)
            continue;
        if (g->described->whole_call && a->n_specs == 1)
            return KB_OK;
        return kb_annotation_error(a, g->places, i, err,
                                   "%.*s: `any` alone stands for all arrays of a function that "
                                   "takes a `const kb_call *`; write arg:any or ret:any for one",
                                   KB_TEXT_ARG(a->name));
    }
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
        "example\n    // @BE %.*s arg:f32[n] ret:f32[n] %s\n(" WRITTEN_OUT ", there or here)",
        g->kernel ? "the kernel (__global__) " : "", KB_TEXT_ARG(a->name), KB_TEXT_ARG(a->name),
        g->kernel ? "attr.n:int32" : "attr.alpha:float32");
}

enum { LINE_SIZE = 560, LINE_FULL = LINE_SIZE - 2 * KB_TEXT_SHOWN };

/* The tokens of what was described, with a type for each array. */
static void suggest(const kb_agreement *g, char *line)
{
    const kb_described *d = g->described;
    size_t n = 0;
    uint32_t i = 0;
    for (; i < d->n_parameters && n < LINE_FULL; i++) {
        const kb_described_parameter *p = &d->parameters[i];
        bool array = p->role == KB_ROLE_ARG || p->role == KB_ROLE_RET;
        kb_text type = p->array.size ? p->array : kb_text_of("f32[n]");
        n += (size_t)snprintf(line + n, LINE_SIZE - n, "%s%s", i ? " " : "", kb_role_name(p->role));
        if (array)
            n += (size_t)snprintf(line + n, LINE_SIZE - n, ":%.*s", KB_TEXT_ARG(type));
        else if (p->role == KB_ROLE_ATTR)
            n += (size_t)snprintf(line + n, LINE_SIZE - n, ".%.*s%s%s", KB_TEXT_ARG(p->name),
                                  p->type ? ":" : "", kb_attr_type_name(p->type));
    }
    if (i < d->n_parameters)
        (void)snprintf(line + n, LINE_SIZE - n, " ...");
}

/* Where the function sees bytes and not what they are, each array must be declared. */
static kb_status check_declared(const kb_agreement *g, kb_error *err)
{
    static const char *const before[] = {"// @BE ", "\"", "params=\""}; /* as kb_origin */
    static const char *const between[] = {" ", "\": \"", ""}, *const after[] = {"", "\"", "\""};
    const kb_annotation *a = g->annotation;
    const kb_described *d = g->described;
    bool whole = d->whole_call && a->n_specs == 0, missing = whole;
    for (uint32_t i = 0; i < d->n_parameters; i++) {
        const kb_described_parameter *p = &d->parameters[i];
        missing |= p->role <= KB_ROLE_RET && p->bytes && p->array.size == 0;
    }
    if (!missing)
        return KB_OK;
    char line[LINE_SIZE] = "any";
    suggest(g, line);
    return kb_annotation_error(
        a, g->places, KB_AT_NAME, err,
        "%.*s sees only the bytes of its arrays, so their dtypes and shapes have to be declared; "
        "write for example\n    %s%.*s%s%s%s\n(%s)",
        KB_TEXT_ARG(a->name), before[a->origin],
        a->origin == KB_GIVEN_KERNEL ? 0 : (int)kb_text_cut(a->name, KB_TEXT_SHOWN).size,
        a->name.at, between[a->origin], line, after[a->origin],
        whole ? "if it looks at their number, dtypes and shapes itself, or list them: arg:f32[n] "
                "for each input, ret:f32[n] for each output"
              : "n is a name or a number, [...] any shape; `any` instead of f32[n] if the function "
                "looks at the dtype and the shape itself");
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
    s = infers && !g->described->whole_call ? infer(g, err) : take_tokens(g, err);
    return s == KB_OK ? check_declared(g, err) : s;
}
