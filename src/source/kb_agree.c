/* Owns what functions and kernels have in common where annotation and signature meet. */
#include "source/kb_agree.h"

#include <stdarg.h>
#include <stdio.h>

enum { MESSAGE_SHOWN = 1000, LIST_SHOWN = 300 };

kb_status kb_disagree(const kb_agreement *g, uint32_t index, const kb_parameter *p, kb_error *err,
                      const char *format, ...)
{
    char message[MESSAGE_SHOWN + 8];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    message[kb_text_cut(kb_text_of(message), MESSAGE_SHOWN).size] = '\0';
    const kb_annotation *a = g->annotation;
    if (a->infer && p && a->given_as.size == 0)
        return kb_place_error(g->places, p->at, err, "%.*s: %s", KB_TEXT_ARG(a->name), message);
    kb_status s =
        kb_annotation_error(a, g->places, index, err, "%.*s: %s", KB_TEXT_ARG(a->name), message);
    if (g->signature)
        kb_place_append(g->places, p ? p->at : g->signature->at, err, "declared here");
    return s;
}

kb_parameter_label kb_label(const kb_parameter *p)
{
    kb_parameter_label label;
    if (p->name.size)
        snprintf(label.text, sizeof label.text, "parameter %u '%.*s'", (unsigned)p->i + 1,
                 KB_TEXT_ARG(p->name));
    else
        snprintf(label.text, sizeof label.text, "parameter %u", (unsigned)p->i + 1);
    return label;
}

void kb_describe(kb_agreement *g, kb_role role, kb_text name, kb_attr_type type,
                 const kb_parameter *p)
{
    kb_described_parameter *d = &g->described->parameters[g->described->n_parameters++];
    *d = (kb_described_parameter){.role = role, .name = name, .type = type};
    if (p)
        d->ctype = p->ctype;
    if (p && role != KB_ROLE_ATTR)
        d->name = p->name;
}

kb_status kb_agree_begin(kb_agreement *g, kb_error *err)
{
    const kb_annotation *a = g->annotation;
    const kb_signature *s = g->signature;
    kb_described *d = g->described;
    *d = (kb_described){.name = a->name, .qualified = a->name, .style = KB_STYLE_UNKNOWN};
    if (s) {
        const kb_declaration *found = &s->declaration;
        d->qualified = s->qualified;
        d->style = s->made       ? KB_STYLE_MACRO
                   : found->body ? KB_STYLE_DEFINITION
                                 : KB_STYLE_PROTOTYPE;
        d->returns = found->returns;
        kb_status status =
            kb_parameters_read(g->outline->at + found->open + 1, found->close - found->open - 1,
                               g->arena, &g->parameters, err);
        if (status != KB_OK)
            return status;
    }
    if (s || a->given_as.size == 0)
        d->line = kb_place_line(g->places, s ? s->at : a->at);
    size_t room = (size_t)g->parameters.n + a->n_specs + 1;
    d->parameters = kb_arena_take(g->arena, room, sizeof *d->parameters);
    return d->parameters ? KB_OK
                         : kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for parameters");
}

kb_status kb_agree_name(const kb_agreement *g, const kb_parameter *p, kb_error *err)
{
    if (kb_annotation_is_name(p->name))
        return KB_OK;
    return kb_disagree(g, KB_AT_NAME, p, err,
                       "%s is an attribute, so it needs a name that is a C identifier of ASCII; "
                       "rename it, or write the tokens out, with attr.NAME",
                       kb_label(p).text);
}

typedef struct list {
    char text[LIST_SHOWN + 8];
    size_t size;
} list;

static void add(list *l, kb_text a, kb_text b)
{
    if (l->size + a.size + b.size + 8 > LIST_SHOWN) {
        if (l->size == 0 || l->text[l->size - 1] != '.')
            l->size += (size_t)snprintf(l->text + l->size, sizeof l->text - l->size, "%s...",
                                        l->size ? ", " : "");
        return;
    }
    l->size += (size_t)snprintf(l->text + l->size, sizeof l->text - l->size, "%s%.*s%s%.*s",
                                l->size ? ", " : "", (int)a.size, a.at, b.size ? " " : "",
                                (int)b.size, b.size ? b.at : "");
}

kb_status kb_agree_count(const kb_agreement *g, kb_error *err)
{
    const kb_annotation *a = g->annotation;
    list tokens = {0}, parameters = {0};
    if (a->n_specs == g->parameters.n)
        return KB_OK;
    for (uint32_t i = 0; i < a->n_specs; i++)
        add(&tokens, a->specs[i].text, (kb_text){0});
    for (uint32_t i = 0; i < g->parameters.n; i++)
        add(&parameters, g->parameters.at[i].ctype, g->parameters.at[i].name);
    return kb_disagree(
        g, KB_AT_NAME, NULL, err, "the annotation tells of %u parameters (%s), C++ of %u (%s)",
        (unsigned)a->n_specs, tokens.text, (unsigned)g->parameters.n, parameters.text);
}

kb_status kb_agree_ret(const kb_agreement *g, kb_error *err)
{
    for (uint32_t i = 0; i < g->described->n_parameters; i++)
        if (g->described->parameters[i].role == KB_ROLE_RET)
            return KB_OK;
    return kb_annotation_error(g->annotation, g->places, KB_AT_NAME, err,
                               "%.*s has no result: one of its tokens must be ret",
                               KB_TEXT_ARG(g->annotation->name));
}

kb_status kb_agree_returns(const kb_agreement *g, bool may_int, kb_error *err)
{
    const kb_declaration *d = &g->signature->declaration;
    if (d->returns != KB_RETURNS_OTHER && (may_int || d->returns != KB_RETURNS_INT))
        return KB_OK;
    kb_text type = kb_tokens_spell(g->outline->at + d->type, d->type_end - d->type, g->arena);
    if (!type.at)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for a message");
    return kb_disagree(g, KB_AT_NAME, NULL, err, "it returns `%.*s`; it must return void%s",
                       KB_TEXT_ARG(type), may_int ? ", or an int that is 0 for success" : "");
}
