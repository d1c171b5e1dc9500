/* Owns the grammar of annotations. */
#include "source/kb_annotation.h"

#include "source/kb_names.h"

#include <stdarg.h>
#include <stdio.h>

enum { MESSAGE_SHOWN = 1100, GIVEN_SHOWN = 240 };

#define EXPECTED "expected arg, ret, stream, attr.NAME or attr.NAME:TYPE, TYPE one of %s"

const char *kb_role_name(kb_role role)
{
    static const char *const names[] = {"arg", "ret", "attr", "stream"};
    return names[role];
}

bool kb_annotation_is_name(kb_text name)
{
    static const char *const keywords[] = {"alignas",       "alignof",     "and",
                                           "and_eq",        "asm",         "auto",
                                           "bitand",        "bitor",       "bool",
                                           "break",         "case",        "catch",
                                           "char",          "char8_t",     "char16_t",
                                           "char32_t",      "class",       "compl",
                                           "concept",       "const",       "consteval",
                                           "constexpr",     "constinit",   "const_cast",
                                           "continue",      "co_await",    "co_return",
                                           "co_yield",      "decltype",    "default",
                                           "delete",        "do",          "double",
                                           "dynamic_cast",  "else",        "enum",
                                           "explicit",      "export",      "extern",
                                           "false",         "float",       "for",
                                           "friend",        "goto",        "if",
                                           "inline",        "int",         "long",
                                           "mutable",       "namespace",   "new",
                                           "noexcept",      "not",         "not_eq",
                                           "nullptr",       "operator",    "or",
                                           "or_eq",         "private",     "protected",
                                           "public",        "register",    "reinterpret_cast",
                                           "requires",      "return",      "short",
                                           "signed",        "sizeof",      "static",
                                           "static_assert", "static_cast", "struct",
                                           "switch",        "template",    "this",
                                           "thread_local",  "throw",       "true",
                                           "try",           "typedef",     "typeid",
                                           "typename",      "union",       "unsigned",
                                           "using",         "virtual",     "void",
                                           "volatile",      "wchar_t",     "while",
                                           "xor",           "xor_eq",      NULL};
    if (name.size == 0 || kb_is_digit(name.at[0]))
        return false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.at[i];
        if (c == '$' || (unsigned char)c >= 0x80 || !(kb_is_letter(c) || kb_is_digit(c)))
            return false;
    }
    return !kb_text_among(name, keywords);
}

kb_status kb_annotation_error(const kb_annotation *a, const kb_places *places, uint32_t index,
                              kb_error *err, const char *format, ...)
{
    char message[MESSAGE_SHOWN + 8];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    message[kb_text_cut(kb_text_of(message), MESSAGE_SHOWN).size] = '\0';
    kb_text given = kb_text_cut(a->given_as, GIVEN_SHOWN);
    if (given.size == 0)
        return kb_place_error(places, index == KB_AT_NAME ? a->at : a->specs[index].at, err, "%s",
                              message);
    kb_error_set(err, KB_INVALID_ARGUMENT, "%.*s", (int)given.size, given.at);
    if (index != KB_AT_NAME)
        kb_error_append(err, " token %u", index + 1u);
    kb_error_append(err, ": %s", message);
    return err->status;
}

static bool after(kb_text text, const char *prefix, kb_text *rest)
{
    size_t n = strlen(prefix);
    if (text.size < n || memcmp(text.at, prefix, n) != 0)
        return false;
    *rest = (kb_text){text.at + n, text.size - n};
    return true;
}

static kb_status read_attribute(const kb_annotation *a, const kb_places *places, uint32_t index,
                                kb_text rest, kb_error *err)
{
    kb_spec *spec = &a->specs[index];
    const char *colon = memchr(rest.at, ':', rest.size);
    spec->role = KB_ROLE_ATTR;
    spec->name = (kb_text){rest.at, colon ? (size_t)(colon - rest.at) : rest.size};
    if (!kb_annotation_is_name(spec->name))
        return kb_annotation_error(a, places, index, err,
                                   "%.*s: '%.*s' is no name for an attribute: it must be a C "
                                   "identifier and no keyword of C++",
                                   KB_TEXT_ARG(spec->text), KB_TEXT_ARG(spec->name));
    if (!colon)
        return KB_OK;
    kb_text type = {colon + 1, rest.size - spec->name.size - 1};
    spec->type = kb_attr_type_of(type);
    return spec->type ? KB_OK
                      : kb_annotation_error(a, places, index, err,
                                            "%.*s: '%.*s' is no type of an attribute; expected "
                                            "one of %s",
                                            KB_TEXT_ARG(spec->text), KB_TEXT_ARG(type),
                                            kb_attr_type_names());
}

static kb_status read_spec(const kb_annotation *a, const kb_places *places, uint32_t index,
                           kb_error *err)
{
    static const struct {
        const char *text;
        kb_role role;
    } words[] = {{"arg", KB_ROLE_ARG},  {"args", KB_ROLE_ARG},      {"ret", KB_ROLE_RET},
                 {"rets", KB_ROLE_RET}, {"stream", KB_ROLE_STREAM}, {"ctx.stream", KB_ROLE_STREAM}};
    kb_spec *spec = &a->specs[index];
    kb_text rest;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (kb_text_is(spec->text, words[i].text)) {
            spec->role = words[i].role;
            return KB_OK;
        }
    if (after(spec->text, "attr.", &rest) || after(spec->text, "attrs.", &rest))
        return read_attribute(a, places, index, rest, err);
    return kb_annotation_error(a, places, index, err, "'%.*s' says nothing; " EXPECTED,
                               KB_TEXT_ARG(spec->text), kb_attr_type_names());
}

/* Each token, then what they are together. */
static kb_status read_specs(kb_annotation *a, const kb_places *places, kb_error *err)
{
    kb_names attributes = {0};
    bool stream = false;
    kb_status s = KB_OK;
    for (uint32_t i = 0; i < a->n_specs && s == KB_OK; i++) {
        const kb_spec *spec = &a->specs[i];
        s = read_spec(a, places, i, err);
        if (s != KB_OK)
            break;
        if (spec->role == KB_ROLE_STREAM && stream)
            s = kb_annotation_error(a, places, i, err, "%.*s is there twice; a call has one stream",
                                    KB_TEXT_ARG(spec->text));
        stream |= spec->role == KB_ROLE_STREAM;
        if (spec->role != KB_ROLE_ATTR)
            continue;
        if (kb_names_get(&attributes, spec->name) != KB_NAMES_NONE)
            s = kb_annotation_error(a, places, i, err, "attribute %.*s is there twice",
                                    KB_TEXT_ARG(spec->name));
        else if (!kb_names_add(&attributes, spec->name, i))
            s = kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for an annotation");
    }
    kb_names_free(&attributes);
    return s;
}

/* The next piece without blanks from `*at` on; empty at the end. */
static kb_text next_piece(kb_text text, size_t *at)
{
    size_t i = *at;
    for (;; i++) { /* a backslash that ends a line separates as a blank does */
        size_t j = i + 1;
        while (i < text.size && text.at[i] == '\\' && j < text.size && kb_is_blank(text.at[j]))
            j++;
        if (i < text.size && text.at[i] == '\\' && j < text.size && text.at[j] == '\n')
            i = j;
        else if (i >= text.size || !kb_is_blank(text.at[i]))
            break;
    }
    size_t begin = i;
    while (i < text.size && !kb_is_blank(text.at[i]) && text.at[i] != '\n' &&
           !(text.at[i] == '\\' && i > begin && i + 1 < text.size &&
             (text.at[i + 1] == '\n' || kb_is_blank(text.at[i + 1]))))
        i++;
    *at = i;
    return (kb_text){text.at + begin, i - begin};
}

static const kb_text marker = {"@BE", 3};

kb_text kb_annotation_name(const kb_token *comment)
{
    size_t at = marker.size;
    return next_piece(kb_token_text(comment), &at);
}

kb_status kb_annotation_read(const kb_token *comment, const kb_places *places, kb_arena *arena,
                             kb_annotation *a, kb_error *err)
{
    kb_text text = kb_token_text(comment);
    size_t at = marker.size, n = 0;
    *a = (kb_annotation){.name = next_piece(text, &at), .at = comment->at};
    if (a->name.size == 0)
        return kb_place_error(places, comment->at, err,
                              "@BE names no function; write for example\n"
                              "    // @BE add arg arg ret stream");
    a->at = comment->at + (uint32_t)(a->name.at - text.at);
    if (!kb_annotation_is_name(a->name))
        return kb_place_error(places, a->at, err,
                              "'%.*s' is no name of a function: it must be a C identifier and no "
                              "keyword of C++",
                              KB_TEXT_ARG(a->name));
    size_t first = at;
    while (next_piece(text, &at).size > 0)
        n++;
    a->infer = n == 0;
    a->specs = kb_arena_take(arena, n + 1, sizeof *a->specs);
    if (!a->specs)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for an annotation");
    for (at = first; a->n_specs < n; a->n_specs++) {
        kb_text piece = next_piece(text, &at);
        a->specs[a->n_specs].text = piece;
        a->specs[a->n_specs].at = comment->at + (uint32_t)(piece.at - text.at);
    }
    return read_specs(a, places, err);
}

kb_status kb_annotation_give(kb_annotation *a, const kb_text *tokens, uint32_t n, kb_arena *arena,
                             kb_error *err)
{
    a->specs = kb_arena_take(arena, n + 1u, sizeof *a->specs);
    if (!a->specs)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for an annotation");
    for (; a->n_specs < n; a->n_specs++)
        a->specs[a->n_specs].text = tokens[a->n_specs];
    return read_specs(a, NULL, err);
}
